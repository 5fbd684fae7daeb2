// Segments and the ledger: what is written is read back, and what is torn, cut or damaged is found.
#include "io/segment.hpp"

#include <csignal>
#include <fstream>
#include <set>

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "io/folder_lock.hpp"
#include "io/ledger.hpp"
#include "io/output_folder.hpp"
#include "results_fixture.hpp"
#include "tessera/error.hpp"

using namespace tessera;
using fixture::TemporaryFolder;

namespace {

std::string only_file(const std::string& folder, const std::string& ending) {
  std::string found;
  for (const auto& file : std::filesystem::directory_iterator(folder))
    if (file.path().extension() == ending && (found.empty() || file.path().string() < found)) found = file.path().string();
  return found;
}

void flip_byte(const std::string& path, std::int64_t offset) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(offset);
  const char old = static_cast<char>(file.get());
  file.seekp(offset);
  file.put(static_cast<char>(old ^ 0x40));
}

void write_all(const std::string& folder, const Space& space, Record record = Record::all) {
  SegmentSink sink(folder, 0, record);
  for (std::uint64_t u = 0; u < space.units(); ++u) sink.write(fixture::unit(space, u));
  sink.flush();
}

}  // namespace

TEST_CASE("a summary survives packing", "[segment]") {
  const Study study = fixture::study();
  const Space space(study);
  const UnitResult unit = fixture::unit(space, 0);
  const UnitSummary back = unpack_summary(pack_summary(unit));
  CHECK(back.unit == unit.unit);
  CHECK(back.rows == unit.rows);
  CHECK(back.columns_hash == unit.columns_hash);
  CHECK(back.counts == unit.counts);
  CHECK(back.best == unit.best);
  auto bytes = pack_summary(unit);
  bytes.pop_back();
  CHECK_THROWS_AS(unpack_summary(bytes), RunError);
}

TEST_CASE("units come back from their segments", "[segment]") {
  const Study study = fixture::study();
  const Space space(study);
  REQUIRE(space.units() >= 4);
  const TemporaryFolder folder;
  const OutputFolder output(folder.path(), FolderMode::fresh, study, space);
  write_all(folder.path(), space);
  const FinishedUnits found = read_finished_units(folder.path(), true);
  CHECK(found.notices.empty());
  REQUIRE(found.summaries.size() == space.units());
  RowReader reader(folder.path());
  for (std::uint64_t u = 0; u < space.units(); ++u) {
    const UnitResult unit = fixture::unit(space, u);
    CHECK(found.summaries[u].counts == unit.counts);
    CHECK(found.summaries[u].best == unit.best);
    if (unit.rows == 0) continue;
    reader.open(found.entries[u]);
    REQUIRE(reader.rows() == unit.rows);
    std::vector<std::uint64_t> ids(unit.rows);
    reader.ids(0, ids);
    CHECK(ids == unit.columns.id);
    const auto host = reader.metric(5, 0, unit.rows);
    CHECK(std::equal(host.begin(), host.end(), bytes_of(unit.columns.host_seconds).begin()));
  }
}

TEST_CASE("ids further apart than 32 bits keep their value", "[segment]") {
  const TemporaryFolder folder;
  Columns c;
  c.id = {7, 7 + (std::uint64_t{1} << 40)};
  c.status = {0, 1};
  c.step_seconds = c.memory_bytes = c.compute_seconds = c.communication_seconds = c.ramp_seconds = c.host_seconds = {1.0f, 2.0f};
  std::filesystem::create_directories(folder / "segments");
  File file(folder / "segments/x.rows", File::Mode::create);
  std::uint64_t offset = 0;
  const LedgerEntry entry{0, "x", 2, {}, write_rows(file, offset, c), 0};
  file.close();
  RowReader reader(folder.path());
  reader.open(entry);
  std::vector<std::uint64_t> ids(2);
  reader.ids(0, ids);
  CHECK(ids == c.id);
  CHECK(reader.status(1, 1)[0] == 1);
}

TEST_CASE("a ledger line is believed only whole", "[ledger]") {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "ledger");
  const LedgerEntry a{1, "u1", 5, {0, 10, 0x1234}, {10, 20, 0xffffffff}, 0xabcdef};
  const LedgerEntry b{2, "u1", 0, {10, 10, 1}, {}, 0xabcdef};
  LedgerWriter(folder.path(), 0).append({a, b});
  LedgerWriter(folder.path(), 3).append({a});
  Ledger read = read_ledger(folder.path());
  CHECK(read.notices.empty());
  CHECK(read.entries == std::vector<LedgerEntry>{a, b});

  // Every way to tear the last line leaves the first whole and the last reported.
  const std::string path = folder / "ledger/rank-0000.txt";
  const std::string text = read_text(path);
  const std::size_t start = text.find('\n') + 1;
  std::filesystem::remove(folder / "ledger/rank-0003.txt");
  for (std::size_t cut = start + 1; cut < text.size() - 1; ++cut) {
    std::ofstream(path, std::ios::binary) << text.substr(0, cut);
    read = read_ledger(folder.path());
    INFO("cut at " << cut);
    CHECK(read.entries == std::vector<LedgerEntry>{a});
    CHECK(read.notices.size() == 1);
  }
  // A writer that goes on after a torn line starts a line of its own.
  LedgerWriter(folder.path(), 0).append({b});
  CHECK(read_ledger(folder.path()).entries == std::vector<LedgerEntry>{a, b});
  // A changed digit is found.
  std::string changed = text;
  changed[5] = '7';
  std::ofstream(path, std::ios::binary) << changed;
  CHECK(read_ledger(folder.path()).entries == std::vector<LedgerEntry>{b});
}

TEST_CASE("damaged, truncated and missing segments are found and their units done again", "[segment]") {
  const Study study = fixture::study();
  const Space space(study);
  const TemporaryFolder folder;
  const OutputFolder output(folder.path(), FolderMode::fresh, study, space);
  write_all(folder.path(), space);
  const std::string rows = only_file(folder / "segments", ".rows"), units = only_file(folder / "segments", ".units");
  const FinishedUnits whole = read_finished_units(folder.path(), true);

  SECTION("a byte of the rows") {
    const auto damaged = std::find_if(whole.entries.begin(), whole.entries.end(), [](const LedgerEntry& e) { return e.rows > 0; });
    flip_byte(rows, static_cast<std::int64_t>(damaged->columns.offset + damaged->columns.bytes / 2));
    const FinishedUnits found = read_finished_units(folder.path(), true);
    CHECK(found.entries.size() == whole.entries.size() - 1);
    CHECK(found.notices.size() == 1);
    // The unit is done again, under a name of its own: its neighbours' files stay.
    {
      SegmentSink sink(folder.path(), 1, Record::all);
      sink.write(fixture::unit(space, damaged->unit));
      sink.flush();
    }
    const FinishedUnits mended = read_finished_units(folder.path(), true);
    CHECK(mended.notices.empty());
    CHECK(mended.entries.size() == space.units());
  }
  SECTION("a byte of the summaries") {
    flip_byte(units, 30);
    CHECK(read_finished_units(folder.path(), true).entries.size() == whole.entries.size() - 1);
  }
  SECTION("truncated rows") {
    std::filesystem::resize_file(rows, std::filesystem::file_size(rows) - 1);
    const FinishedUnits found = read_finished_units(folder.path(), true);
    CHECK(found.entries.size() == whole.entries.size() - 1);
    CHECK(found.notices.front().find("truncated") != std::string::npos);
  }
  SECTION("missing file") {
    std::filesystem::remove(units);
    CHECK(read_finished_units(folder.path(), true).entries.size() < whole.entries.size());
  }
}

TEST_CASE("killed at any time, a sweep loses no finished unit", "[segment][kill]") {
  const Study study = fixture::study();
  const Space space(study);
  std::vector<UnitResult> units;
  for (std::uint64_t u = 0; u < space.units(); ++u) units.push_back(fixture::unit(space, u));
  const TemporaryFolder folder;
  std::mt19937 random(1);
  int kills = 0, killed_before_end = 0;
  OutputFolder(folder.path(), FolderMode::fresh, study, space);
  while (kills < 50) {
    int reported[2];
    REQUIRE(::pipe(reported) == 0);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {  // writes what is left, over and over, and tells each unit that is safe
      for (;;) {
        SegmentSink sink(folder.path(), 0, Record::all);
        for (const auto& unit : units) {
          sink.write(UnitResult(unit));
          sink.flush();
          if (::write(reported[1], &unit.unit, sizeof(unit.unit)) < 0) ::_exit(1);
        }
      }
    }
    ::usleep(static_cast<useconds_t>(random() % 20000));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    ::close(reported[1]);
    ++kills;
    std::set<std::uint64_t> safe;
    std::uint64_t unit = 0;
    while (::read(reported[0], &unit, sizeof(unit)) == sizeof(unit)) safe.insert(unit);
    ::close(reported[0]);
    killed_before_end += safe.size() < units.size();
    const OutputFolder resumed(folder.path(), FolderMode::resume, study, space);  // the lock died with its holder
    const FinishedUnits found = read_finished_units(folder.path(), true);
    std::set<std::uint64_t> kept;
    for (const auto& summary : found.summaries) {
      kept.insert(summary.unit);
      CHECK(summary.counts == units[summary.unit].counts);
    }
    CHECK(std::includes(kept.begin(), kept.end(), safe.begin(), safe.end()));
  }
  CHECK(killed_before_end > 0);  // or the kills came too late to test anything
}

TEST_CASE("the lock names its holder and dies with it", "[lock]") {
  const TemporaryFolder folder;
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    FolderLock lock(folder.path());
    char byte = 1;
    if (::write(ready[1], &byte, 1) < 0) ::_exit(1);
    ::pause();
    ::_exit(0);
  }
  char byte = 0;
  REQUIRE(::read(ready[0], &byte, 1) == 1);
  CHECK_THROWS_WITH(FolderLock(folder.path()), Catch::Contains(std::to_string(child)) && Catch::Contains("--out"));
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(FolderLock(folder.path()).held());
  ::close(ready[0]);
  ::close(ready[1]);
}
