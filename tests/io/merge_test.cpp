// results.h5: complete, readable back, and the same bytes however its segments came to be.
#include "io/merge.hpp"

#include <fstream>

#include <catch2/catch.hpp>

#include "io/file_system.hpp"
#include "io/output_folder.hpp"
#include "io/results_reader.hpp"
#include "io/segment.hpp"
#include "results_fixture.hpp"
#include "tessera/error.hpp"

using namespace tessera;
using fixture::TemporaryFolder;

namespace {

struct Run {
  Study study = fixture::study();
  Space space{study};
  std::vector<UnitResult> units;
  SweepResult result;

  Run() {
    Reducer reducer(study, space);
    for (std::uint64_t u = 0; u < space.units(); ++u) {
      units.push_back(fixture::unit(space, u));
      reducer.add(units.back());
    }
    result = reducer.result();
  }
  /// Units dealt to ranks as `owner` says, in the order given.
  template <class Owner>
  void write(const std::string& folder, int ranks, bool backwards, Owner owner) const {
    std::vector<std::unique_ptr<SegmentSink>> sinks;
    for (int r = 0; r < ranks; ++r) sinks.push_back(std::make_unique<SegmentSink>(folder, r, Record::all));
    for (std::size_t i = 0; i < units.size(); ++i) {
      const std::size_t u = backwards ? units.size() - 1 - i : i;
      const int rank = owner(u);
      sinks[static_cast<std::size_t>(rank)]->write(UnitResult(units[u]));
      if (u % 3 == 0) sinks[static_cast<std::size_t>(rank)]->flush();
    }
    for (auto& sink : sinks) sink->flush();
  }
};

std::string merged_bytes(const Run& run, int ranks, int threads, bool backwards) {
  const TemporaryFolder folder;
  const OutputFolder output(folder.path(), FolderMode::fresh, run.study, run.space);
  run.write(folder.path(), ranks, backwards, [ranks](std::size_t u) { return static_cast<int>(u * 7 % static_cast<std::size_t>(ranks)); });
  merge_results(folder.path(), run.study, run.space, run.result, threads);
  return read_text(folder / "results.h5");
}

}  // namespace

TEST_CASE("results.h5 has the same bytes for any ranks, threads and order", "[merge]") {
  const Run run;
  const std::string one = merged_bytes(run, 1, 1, false);
  CHECK(one == merged_bytes(run, 1, 1, false));
  CHECK(one == merged_bytes(run, 3, 2, false));
  CHECK(one == merged_bytes(run, 4, 4, true));
}

TEST_CASE("what the sweep found is what the reader gives", "[merge][results]") {
  const Run run;
  const TemporaryFolder folder;
  OutputFolder output(folder.path(), FolderMode::fresh, run.study, run.space);
  run.write(folder.path(), 2, false, [](std::size_t u) { return static_cast<int>(u % 2); });
  output.finish(run.study, run.space, run.result, 2);
  const ResultsReader reader(output.results_path());
  const Results& r = reader.results();
  CHECK(r.title == run.study.title);
  CHECK(r.source == run.study.source);
  CHECK(r.sequence == run.study.sequence);
  CHECK(r.days == run.study.days);
  CHECK(r.batches == run.study.batches);
  CHECK(r.architectures == run.study.architectures);
  CHECK(r.totals == run.result.counts);
  REQUIRE(r.clusters.size() == 2);
  CHECK(r.clusters[1].devices == 32);
  REQUIRE(r.best.size() == run.result.best.size());
  REQUIRE(!r.best.empty());
  for (std::size_t i = 0; i < r.best.size(); ++i) {
    CHECK(r.best[i].row == run.result.best[i]);
    CHECK(r.best[i].plan == run.space.plan(run.space.decode(r.best[i].row.id)));
  }
  REQUIRE(r.top.size() == run.result.top.size());
  REQUIRE(!r.top.empty());
  for (std::size_t i = 0; i < r.top.size(); ++i) {
    CHECK(r.top[i].plan == run.result.top[i].plan);
    CHECK(r.top[i].loss == run.result.top[i].loss);
    CHECK(r.top[i].rank == run.result.top[i].rank);
  }
  // Every evaluation, in id order.
  REQUIRE(reader.evaluation_rows() == run.result.counts.evaluations);
  const Columns all = reader.evaluations(0, reader.evaluation_rows());
  std::size_t at = 0;
  for (const auto& unit : run.units)
    for (std::size_t i = 0; i < unit.columns.size(); ++i, ++at)
      if (all.id[at] != unit.columns.id[i] || all.memory_bytes[at] != unit.columns.memory_bytes[i] || all.host_seconds[at] != unit.columns.host_seconds[i] ||
          all.status[at] != unit.columns.status[i])
        FAIL("row " << at << " differs");
  CHECK(at == reader.evaluation_rows());
  const auto found = reader.evaluation(all.id[at / 2]);
  REQUIRE(found.has_value());
  CHECK(found->step_seconds[0] == all.step_seconds[at / 2]);
  CHECK_FALSE(reader.evaluation(kNoId - 1).has_value());
}

TEST_CASE("after the merge the summaries suffice, and only while results.h5 is there", "[merge]") {
  const Run run;
  const TemporaryFolder folder;
  {
    OutputFolder output(folder.path(), FolderMode::fresh, run.study, run.space);
    run.write(folder.path(), 2, false, [](std::size_t u) { return static_cast<int>(u % 2); });
    output.finish(run.study, run.space, run.result, 1);
  }
  for (const auto& file : std::filesystem::directory_iterator(folder / "segments")) CHECK(file.path().extension() == ".units");
  const std::string bytes = read_text(folder / "results.h5");
  {
    OutputFolder again(folder.path(), FolderMode::resume, run.study, run.space);
    SegmentSink sink(folder.path(), 0, Record::all);
    CHECK(sink.finished().size() == run.space.units());
    CHECK(sink.notices().empty());
    again.finish(run.study, run.space, run.result, 1);
    CHECK(read_text(folder / "results.h5") == bytes);
  }
  std::filesystem::remove(folder / "results.h5");
  SegmentSink sink(folder.path(), 0, Record::all);
  std::size_t without_rows = 0;
  for (const auto& unit : run.units) without_rows += unit.rows == 0;
  CHECK(sink.finished().size() == without_rows);
}

TEST_CASE("an unfinished folder is not merged", "[merge]") {
  const Run run;
  const TemporaryFolder folder;
  OutputFolder output(folder.path(), FolderMode::fresh, run.study, run.space);
  SegmentSink sink(folder.path(), 0, Record::all);
  sink.write(UnitResult(run.units[0]));
  sink.flush();
  CHECK_THROWS_WITH(output.finish(run.study, run.space, run.result, 1), Catch::Contains("--resume"));
  CHECK_FALSE(std::filesystem::exists(folder / "results.h5"));
}

TEST_CASE("a folder is not taken for another", "[folder]") {
  const Study study = fixture::study();
  const Space space(study);
  const TemporaryFolder folder;
  { OutputFolder(folder.path(), FolderMode::fresh, study, space); }
  std::ofstream(folder / "notes.txt") << "mine";
  CHECK_THROWS_WITH(OutputFolder(folder.path(), FolderMode::fresh, study, space), Catch::Contains("--resume") && Catch::Contains("--redo"));

  Study other = study;
  other.source = "title = \"A study for tests\"\n[cluster]\npreset = \"other\"\n";
  CHECK_THROWS_WITH(OutputFolder(folder.path(), FolderMode::resume, other, space),
                    Catch::Contains("cluster.preset") && Catch::Contains("\"test\"") && Catch::Contains("\"other\"") && Catch::Contains("--redo"));
  other = study;
  other.presets = {"cluster test fedcba9876543210"};
  CHECK_THROWS_WITH(OutputFolder(folder.path(), FolderMode::resume, other, space), Catch::Contains("preset cluster test") && Catch::Contains("fedcba9876543210"));
  other = study;
  other.source += "# a comment and layout are no difference\n";
  CHECK_NOTHROW(OutputFolder(folder.path(), FolderMode::resume, other, space));

  CHECK_NOTHROW(OutputFolder(folder.path(), FolderMode::redo, study, space));
  CHECK(read_text(folder / "notes.txt") == "mine");  // a redo deletes our own files only
  CHECK_NOTHROW(OutputFolder(folder / "new/deeper", FolderMode::resume, study, space));
  CHECK_THROWS_AS(OutputFolder(folder / "notes.txt", FolderMode::fresh, study, space), InputError);
}

TEST_CASE("damaged results end in a message", "[results]") {
  const Run run;
  const TemporaryFolder folder;
  OutputFolder output(folder.path(), FolderMode::fresh, run.study, run.space);
  run.write(folder.path(), 1, false, [](std::size_t) { return 0; });
  output.finish(run.study, run.space, run.result, 1);
  const std::string good = read_text(output.results_path());
  const std::string path = folder / "damaged.h5";
  auto read_all = [&] {
    const ResultsReader reader(path);
    reader.evaluations(0, reader.evaluation_rows());
    return reader.results().totals == run.result.counts;
  };
  CHECK_THROWS_AS(ResultsReader(folder / "none.h5"), InputError);
  std::ofstream(path, std::ios::binary) << "not HDF5";
  CHECK_THROWS_AS(ResultsReader(path), InputError);
  for (const std::size_t size : {good.size() / 2, good.size() - 1, std::size_t{100}}) {
    std::ofstream(path, std::ios::binary) << good.substr(0, size);
    CHECK_THROWS_AS(read_all(), InputError);
  }
  std::mt19937_64 random(2);
  int found = 0, harmless = 0;
  for (int trial = 0; trial < 300; ++trial) {
    std::string bad = good;
    bad[random() % bad.size()] ^= static_cast<char>(1 << random() % 8);
    std::ofstream(path, std::ios::binary) << bad;
    try {
      harmless += read_all();  // a bit in a gap between objects
    } catch (const InputError&) {
      ++found;
    }
  }
  CHECK(found + harmless == 300);
  CHECK(found > 250);
}
