// Queries against a results file: every table, conditions, order and the ids' decoding.
#include "io/query.hpp"

#include <catch2/catch.hpp>

#include "io/id_decoder.hpp"
#include "io/output_folder.hpp"
#include "io/segment.hpp"
#include "results_fixture.hpp"
#include "tessera/error.hpp"

using namespace tessera;

namespace {

struct Written {
  Study study = fixture::study();
  Space space{study};
  fixture::TemporaryFolder folder;
  SweepResult result;
  std::string path;

  Written() {
    OutputFolder output(folder.path(), FolderMode::fresh, study, space);
    SegmentSink sink(folder.path(), 0, Record::all);
    Reducer reducer(study, space);
    for (std::uint64_t u = 0; u < space.units(); ++u) {
      UnitResult unit = fixture::unit(space, u);
      reducer.add(unit);
      sink.write(std::move(unit));
    }
    sink.flush();
    result = reducer.result();
    output.finish(study, space, result, 1);
    path = output.results_path();
  }
};

double number(const QueryValue& value) {
  if (const auto* real = std::get_if<double>(&value)) return *real;
  return static_cast<double>(std::get<std::int64_t>(value));
}

}  // namespace

TEST_CASE("ids decode from the file alone as they do from the study", "[query]") {
  const Written w;
  const ResultsReader reader(w.path);
  const IdDecoder decoder(reader);
  REQUIRE(decoder.points() == w.space.points());
  for (std::uint64_t id = 0; id < w.space.points(); id += 7) {
    const Digits d = decoder.decode(id);
    if (!(d == w.space.decode(id)) || !(decoder.plan(d) == w.space.plan(d))) FAIL("id " << id);
  }
}

TEST_CASE("a query finds what a scan by hand finds", "[query]") {
  const Written w;
  const ResultsReader reader(w.path);
  const Columns all = reader.evaluations(0, reader.evaluation_rows());
  std::uint64_t expected = 0, best_id = 0;
  double least = 1e300;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Plan plan = w.space.plan(w.space.decode(all.id[i]));
    if (plan.tp != 2 || all.status[i] != 0 || !(all.memory_bytes[i] < 60.0 * 1024 * 1024 * 1024)) continue;
    ++expected;
    if (all.step_seconds[i] < least) least = all.step_seconds[i], best_id = all.id[i];
  }
  REQUIRE(expected > 5);
  Query query;
  query.table = QueryTable::evaluations;
  query.where = "tp == 2 && feasible && memory < 60GiB";
  query.columns = {"id", "step", "tp", "schedule"};
  query.sort = "step_seconds";
  query.top = 5;
  const QueryAnswer answer = run_query(reader, query);
  CHECK(answer.scanned == all.size());
  CHECK(answer.matched == expected);
  REQUIRE(answer.rows.size() == 5);
  CHECK(answer.columns[1].name == "step_seconds");
  CHECK(answer.columns[1].unit == "s");
  CHECK(std::get<std::uint64_t>(answer.rows[0][0]) == best_id);
  for (std::size_t i = 0; i < 5; ++i) {
    CHECK(number(answer.rows[i][2]) == 2);
    CHECK(std::get<std::string>(answer.rows[i][3]) == "1f1b");
    if (i > 0) CHECK(number(answer.rows[i][1]) >= number(answer.rows[i - 1][1]));
  }
  query.descending = true;
  CHECK(number(run_query(reader, query).rows[0][1]) > number(answer.rows[4][1]));
}

TEST_CASE("best and top answer from their tables", "[query]") {
  const Written w;
  const ResultsReader reader(w.path);
  Query query;
  query.table = QueryTable::top;
  query.where = "days == 20 && nodes == 2";
  query.columns = {"rank", "loss", "architecture", "experts", "tokens_per_active_parameter"};
  const QueryAnswer top = run_query(reader, query);
  REQUIRE(top.rows.size() == 3);
  CHECK(number(top.rows[0][0]) == 1);
  CHECK(number(top.rows[0][1]) <= number(top.rows[1][1]));
  query = {};
  query.table = QueryTable::best;
  query.top = 1000;
  const QueryAnswer best = run_query(reader, query);
  CHECK(best.rows.size() == w.result.best.size());
  query.columns = {"no_such_column"};
  CHECK_THROWS_AS(run_query(reader, query), InputError);
}

TEST_CASE("every listed column can be asked for in every table", "[query]") {
  const Written w;
  const ResultsReader reader(w.path);
  for (const QueryTable table : {QueryTable::evaluations, QueryTable::best, QueryTable::top}) {
    Query query;
    query.table = table;
    query.top = 1;
    for (const auto& column : query_columns(table)) query.columns.push_back(column.name);
    const QueryAnswer answer = run_query(reader, query);
    REQUIRE(answer.rows.size() == 1);
    CHECK(answer.rows[0].size() == query.columns.size());
  }
}
