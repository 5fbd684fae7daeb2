// The walk against a plain enumeration with the scalar reference, the identities of the counts, and the same result
// for any number of threads, any order of units and a resumed run.
#include <catch2/catch.hpp>

#include <algorithm>
#include <limits>

#include "search/legality.hpp"
#include "search/serial_context.hpp"
#include "search/walker.hpp"
#include "study_fixture.hpp"
#include "tessera/error.hpp"

using namespace tessera;
using namespace tessera::fixture;

namespace {

/// Keeps units in memory, like a folder that a later run finds.
class MemorySink : public UnitSink {
 public:
  std::vector<UnitSummary> finished() override { return kept; }
  void write(UnitResult&& unit) override {
    columns.push_back(std::move(unit.columns));
    kept.push_back(std::move(unit));
  }
  std::vector<UnitSummary> kept;
  std::vector<Columns> columns;
};

SweepResult run(const Study& s, UnitSink& sink, int threads = 1) {
  const Space space(s);
  SerialContext context;
  SweepOptions options;
  options.threads = threads;
  return sweep(s, space, context, sink, options);
}

SweepResult run(const Study& s, int threads = 1) {
  NullSink sink;
  return run(s, sink, threads);
}

std::uint64_t rules(const Counts& c) {
  std::uint64_t sum = 0;
  for (std::size_t r = 1; r < kReasonCount; ++r)
    if (r != static_cast<std::size_t>(Reason::memory)) sum += c.refused[r];
  return sum;
}

void check_identities(const SweepResult& r) {
  CHECK(r.counts.points == rules(r.counts) + r.counts.evaluations);
  CHECK(r.counts.evaluations == r.counts.feasible + r.counts.refused_for(Reason::memory));
}

}  // namespace

TEST_CASE("the walk is the enumeration", "[sweep]") {
  std::mt19937_64 random(5);
  for (int round = 0; round < 6; ++round) {
    Study s = random_study(random);
    s.record = Record::all;
    const Space space(s);
    MemorySink sink;
    const SweepResult result = run(s, sink);
    check_identities(result);
    CHECK(result.counts.points == space.points());
    CHECK(result.counts.evaluations == space.legal());

    Counts expected;
    std::vector<BestRow> best(s.clusters.size() * s.batches.size() * s.architectures.size());
    std::vector<std::uint64_t> ids;
    for (std::uint64_t id = 0; id < space.points(); ++id) {
      const Digits d = space.decode(id);
      const auto r = static_cast<std::size_t>(space.legality(d));
      if (r != 0) {
        ++expected.refused[r];
        expected.sample[r] = std::min(expected.sample[r], id);
        continue;
      }
      ids.push_back(id);
      const StepCost cost = evaluate(space.architecture(d), space.cluster(d), space.plan(d), s.sequence);
      BestRow row;
      row.cluster = d.cluster;
      row.batch = d.batch;
      row.architecture = d.architecture;
      row.id = id;
      row.feasible = cost.fits();
      row.step_seconds = cost.step_seconds;
      row.memory_with_reserve_bytes = cost.memory_with_reserve_bytes;
      BestRow& have = best[(d.cluster * s.batches.size() + d.batch) * s.architectures.size() + d.architecture];
      // Batched and scalar path agree to 1e-12: nearer than that the least id need not be the same.
      if (better(row, have)) have = row;
    }
    for (std::size_t r = 1; r < kReasonCount; ++r) {
      if (r == static_cast<std::size_t>(Reason::memory)) continue;
      CHECK(result.counts.refused[r] == expected.refused[r]);
      CHECK(result.counts.sample[r] == expected.sample[r]);
    }
    std::erase_if(best, [](const BestRow& r) { return r.id == kNoId; });
    REQUIRE(result.best.size() == best.size());
    for (std::size_t i = 0; i < best.size(); ++i) {
      CHECK(result.best[i].feasible == best[i].feasible);
      if (best[i].feasible) CHECK(result.best[i].step_seconds == Approx(best[i].step_seconds).epsilon(1e-11));
      else CHECK(result.best[i].memory_with_reserve_bytes == Approx(best[i].memory_with_reserve_bytes).epsilon(1e-11));
    }
    std::vector<std::uint64_t> recorded;
    for (const Columns& c : sink.columns) recorded.insert(recorded.end(), c.id.begin(), c.id.end());
    std::sort(recorded.begin(), recorded.end());
    CHECK(recorded == ids);
  }
}

TEST_CASE("record modes differ in what they keep, not in the answer", "[sweep]") {
  std::mt19937_64 random(6);
  for (int round = 0; round < 8; ++round) {
    Study s = random_study(random);
    s.record = Record::all;
    const SweepResult all = run(s);
    for (const Record record : {Record::feasible, Record::best}) {
      s.record = record;
      const SweepResult other = run(s);
      check_identities(other);
      CHECK(other.counts.feasible == all.counts.feasible);
      // What a memory bound refuses is what evaluation would have refused for memory.
      CHECK(other.counts.refused_for(Reason::memory) + other.counts.refused_for(Reason::memory_bound) ==
            all.counts.refused_for(Reason::memory));
      CHECK(other.counts.miss == all.counts.miss);
      REQUIRE(other.best.size() == all.best.size());
      for (std::size_t i = 0; i < all.best.size(); ++i) CHECK(other.best[i] == all.best[i]);
      CHECK(other.rows == (record == Record::best ? 0 : all.counts.feasible));
    }
  }
}

TEST_CASE("the pruned search gives the identical answer", "[sweep]") {
  std::mt19937_64 random(7);
  std::uint64_t evaluated = 0, in_all = 0;
  std::uint64_t nothing_fits = 0;
  for (int round = 0; round < 16; ++round) {
    Study s = random_study(random);
    s.record = Record::best;
    if (round % 4 == 3)  // nothing fits: both look for the closest miss
      for (Cluster& c : s.clusters) c.memory_cap = 2e8;
    s.search = Search::exhaustive;
    const SweepResult all = run(s);
    s.search = Search::pruned;
    const SweepResult pruned = run(s);
    REQUIRE(pruned.best.size() == all.best.size());
    for (std::size_t i = 0; i < all.best.size(); ++i) CHECK(pruned.best[i] == all.best[i]);
    check_identities(pruned);
    CHECK(pruned.counts.points == all.counts.points);
    CHECK((pruned.counts.feasible == 0) == (all.counts.feasible == 0));
    if (all.counts.feasible == 0) {
      ++nothing_fits;
      CHECK(pruned.counts.miss == all.counts.miss);
      CHECK(pruned.counts.miss.id != kNoId);
    }
    REQUIRE(pruned.top.size() == all.top.size());
    for (std::size_t i = 0; i < all.top.size(); ++i) {
      CHECK(pruned.top[i].id == all.top[i].id);
      CHECK(pruned.top[i].loss == all.top[i].loss);
    }
    evaluated += pruned.counts.evaluations;
    in_all += all.counts.evaluations;
  }
  CHECK(3 * evaluated < 2 * in_all);  // the bounds leave something out
  CHECK(nothing_fits >= 3);
}

TEST_CASE("threads, order and resuming do not move a bit", "[sweep]") {
  Study s = study(64);
  for (const std::int64_t q : {4, 6, 8})
    for (const std::int64_t experts : {8, 24, 64}) add(s, ladder({.q = q, .experts = experts, .top_k = 2, .split = 2}));
  paper_axes(s);
  s.plan.etp.values = {};
  s.plan.zero.values = {};
  for (const Record record : {Record::all, Record::best}) {
    s.record = record;
    const Space space(s);
    REQUIRE(space.units() >= 8);
    MemorySink sink;
    const SweepResult one = run(s, sink, 1);
    REQUIRE(one.counts.feasible > 0);
    CHECK(run(s, 3).signature == one.signature);

    // Half of the units are there already, in another order.
    MemorySink half;
    half.kept = sink.kept;
    std::shuffle(half.kept.begin(), half.kept.end(), std::mt19937_64(8));
    half.kept.resize(half.kept.size() / 2);
    const std::size_t kept = half.kept.size();
    const SweepResult resumed = run(s, half, 2);
    CHECK(resumed.units_reused == kept);
    CHECK(resumed.signature == one.signature);
    CHECK(half.kept.size() == space.units());

    // Ranks reduce in any order.
    Reducer left(s, space), right(s, space);
    for (std::size_t i = 0; i < sink.kept.size(); ++i) (i % 3 ? left : right).add(sink.kept[i]);
    right.merge(left.pack());
    CHECK(right.result().signature == one.signature);
  }
}

TEST_CASE("a unit is the same whichever walker runs it", "[sweep]") {
  std::mt19937_64 random(9);
  Study s = random_study(random);
  s.record = Record::all;
  const Space space(s);
  Walker used(space);
  for (std::uint64_t u = 0; u < space.units(); ++u) used.run(u);
  for (std::uint64_t u = 0; u < space.units(); ++u) {
    Walker fresh(space);
    const UnitResult a = fresh.run(u), b = used.run(u);
    CHECK(a.columns_hash == b.columns_hash);
    CHECK(a.counts == b.counts);
    CHECK(a.best == b.best);
  }
}

TEST_CASE("a failing sink and a stop end the sweep in order", "[sweep]") {
  class FullDisk : public UnitSink {
   public:
    void write(UnitResult&&) override { throw RunError("no space left on device"); }
  };
  Study s = study(16);
  add(s, ladder({.q = 4, .experts = 8, .top_k = 2, .split = 2}));
  paper_axes(s);
  FullDisk full;
  CHECK_THROWS_AS(run(s, full), RunError);

  const Space space(s);
  SerialContext context;
  NullSink sink;
  SweepOptions options;
  options.time_limit_seconds = 0;
  options.stop = [] { return true; };
  const SweepResult stopped = sweep(s, space, context, sink, options);
  CHECK(stopped.units_done >= std::min<std::uint64_t>(space.units(), 1));
  CHECK(stopped.interrupted == (stopped.units_done < space.units()));
}

TEST_CASE("envelopes: order, bounds and one row an architecture", "[sweep]") {
  Study s = study(64);
  for (const std::int64_t q : {4, 6, 8})
    for (const std::int64_t top_k : {1, 2, 4}) add(s, ladder({.q = q, .experts = 32, .top_k = top_k, .split = 2}));
  paper_axes(s);
  s.batches = {512, 1024};
  s.days = {5, 20};
  s.token_bounds.low = 20;
  s.token_bounds.high = 200;
  const SweepResult r = run(s);
  REQUIRE(r.envelopes.size() == 2);
  std::size_t at = 0;
  for (const EnvelopeCounts& e : r.envelopes) {
    CHECK(e.ranked + e.nothing_fits + e.over_limits + e.too_few_tokens + e.outside_law == s.architectures.size());
    std::vector<std::uint32_t> seen;
    for (std::uint64_t i = 0; i < e.ranked; ++i, ++at) {
      const TopRow& row = r.top[at];
      CHECK(row.rank == static_cast<std::int64_t>(i) + 1);
      CHECK(row.window_days == e.window_days);
      if (i > 0) CHECK(row.loss >= r.top[at - 1].loss);
      seen.push_back(row.architecture);
      const auto active = static_cast<double>(s.counts[row.architecture].non_embedding_active);
      CHECK(row.tokens_per_active_parameter == Approx(row.tokens / active));
      CHECK(row.tokens_per_active_parameter >= 20);
      CHECK(row.tokens_per_active_parameter <= 200 * (1 + 1e-12));
      const double flops = 2.25e15 * 64 * row.window_days * 86400 * row.mfu;
      if (!row.tokens_cut) CHECK(row.model_flops == Approx(flops));
      // No other batch of this architecture delivers more.
      for (const BestRow& b : r.best)
        if (b.architecture == row.architecture && b.feasible)
          CHECK(static_cast<double>(s.batches[b.batch]) / b.step_seconds <=
                static_cast<double>(row.plan.batch) / row.step_seconds * (1 + 1e-12));
    }
    std::sort(seen.begin(), seen.end());
    CHECK(std::adjacent_find(seen.begin(), seen.end()) == seen.end());
  }
  CHECK(at == r.top.size());
}

TEST_CASE("planned stops take time from tokens, limits for serving take architectures", "[sweep]") {
  Study s = study(64);
  for (const std::int64_t q : {4, 6, 8}) add(s, ladder({.q = q, .experts = 32, .top_k = 2, .split = 2}));
  paper_axes(s);
  s.days = {10, 20};
  const SweepResult plain = run(s);
  Study stopped = s;
  stopped.days = {11.5, 21.5};
  stopped.terms.stopped_days = 1.5;
  stopped.terms.spare_nodes = 3;  // paid for, not trained on
  const SweepResult later = run(stopped);
  REQUIRE(later.top.size() == plain.top.size());
  for (std::size_t i = 0; i < plain.top.size(); ++i) {
    CHECK(later.top[i].tokens == plain.top[i].tokens);
    CHECK(later.top[i].loss == plain.top[i].loss);
    CHECK(later.top[i].id == plain.top[i].id);
  }
  REQUIRE(plain.envelopes.front().ranked >= 2);
  Study limited = s;
  std::int64_t largest = 0;
  for (const ParameterCount& n : s.counts) largest = std::max(largest, n.non_embedding_total);
  limited.terms.serving.most_total = static_cast<double>(largest) - 1;
  const SweepResult small = run(limited);
  CHECK(small.counts.evaluations == plain.counts.evaluations);
  for (const EnvelopeCounts& e : small.envelopes) CHECK(e.over_limits + e.nothing_fits > plain.envelopes.front().nothing_fits);
  for (const TopRow& row : small.top) CHECK(s.counts[row.architecture].non_embedding_total < largest);
  stopped.terms.stopped_days = 11.5;
  CHECK_THROWS_AS(check(stopped), InputError);
}
