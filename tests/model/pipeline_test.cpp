// Pipeline forms: published vectors, closed forms against the event simulation, run-length forms against expanded
// ones, limits. Tolerances are those of the schedule notes; where a form is called exact, rounding is all it has.
#include "tessera/pipeline.hpp"

#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <limits>
#include <numeric>
#include <random>
#include <sstream>
#include <string>

#include "tessera/error.hpp"

using namespace tessera;

namespace {

constexpr double kRounding = 1e-11;

std::vector<std::string> split(const std::string& line, char separator) {
  std::vector<std::string> out;
  std::stringstream stream(line);
  for (std::string item; std::getline(stream, item, separator);) out.push_back(item);
  return out;
}

template <typename T>
std::vector<T> numbers(const std::string& text) {
  std::vector<T> out;
  for (const auto& item : split(text, ';')) out.push_back(static_cast<T>(std::stod(item)));
  return out;
}

struct Vector {
  std::string id;
  Schedule schedule;
  int pp, v;
  std::int64_t n;
  PipelineTimes times;
  double makespan, span;
  std::vector<int> until_weight, until_input;
};

/// Rows of the published vectors whose schedule the program has; empty where the folder is absent.
std::vector<Vector> read_vectors() {
  const char* folder = std::getenv("TESSERA_DATA");
  const std::string root = folder ? folder : std::string(TESSERA_SOURCE_DIR) + "/../shared/data";
  std::ifstream file(root + "/schedules/vectors.csv");
  std::vector<Vector> out;
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    const auto cell = split(line, ',');
    const auto schedule = schedule_from(cell.at(1));
    if (!schedule) continue;
    Vector row{cell[0], *schedule, std::stoi(cell[2]), std::stoi(cell[3]), std::stoll(cell[4]), {}, 0, 0, {}, {}};
    row.times = {numbers<double>(cell[8]), numbers<double>(cell[9]), numbers<double>(cell[10]),
                 std::stod(cell[6]), cell[5] == "blocking", std::stod(cell[7])};
    row.makespan = std::stod(cell[11]), row.span = std::stod(cell[12]);
    row.until_weight = numbers<int>(cell[13]), row.until_input = numbers<int>(cell[14]);
    out.push_back(row);
  }
  return out;
}

enum class Family { equal, embedding_and_head, uneven, random };

using Random = std::mt19937_64;
double uniform(Random& random, double low, double high) {
  return low + (high - low) * (static_cast<double>(random() >> 11) * 0x1p-53);
}
int pick(Random& random, int low, int high) {
  return low + static_cast<int>(random() % static_cast<std::uint64_t>(high - low + 1));
}

/// Part times of the families of the schedule notes (section 4), as runs; neighbours may be equal.
std::vector<StageRun> make_runs(Random& random, Family family, int parts) {
  const double b = uniform(random, 0.8, 1.3), w = uniform(random, 0.6, 1.1);
  std::vector<StageRun> runs;
  for (int i = 0; i < parts; ++i) {
    const double layers = family == Family::uneven ? pick(random, 2, 4) : 1.0;
    runs.push_back({1, layers, layers * b, layers * w});
    if (family == Family::random)
      runs.back() = {1, uniform(random, 0.3, 2.5), uniform(random, 0.3, 2.5), uniform(random, 0.3, 2.5)};
  }
  if (family == Family::embedding_and_head || family == Family::uneven) {
    const double scale = family == Family::uneven ? 3.0 : 1.0;
    const double embedding = uniform(random, 0.0, 0.3 * scale), head = uniform(random, 0.0, 2.0 * scale);
    runs.front().forward += embedding, runs.front().weight_gradient += embedding;
    runs.back().forward += head, runs.back().input_gradient += head * b, runs.back().weight_gradient += head * w;
  }
  return runs;
}

/// Random runs of random lengths.
std::vector<StageRun> make_long_runs(Random& random, int parts) {
  std::vector<StageRun> runs;
  for (int left = parts; left > 0; left -= runs.back().count) {
    runs.push_back({std::min(left, pick(random, 1, 1 + parts / 2)), uniform(random, 0.3, 2.5),
                    uniform(random, 0.3, 2.5), uniform(random, 0.3, 2.5)});
    if (pick(random, 0, 2) == 0) runs.back().weight_gradient = 0.0;
    if (pick(random, 0, 5) == 0) runs.back().forward *= 4.0;
  }
  return runs;
}

PipelineTimes expand(Schedule schedule, const std::vector<StageRun>& runs, double overlap = 0.0) {
  PipelineTimes times;
  times.overlap = overlap;
  for (int direction = 0; direction < (schedule == Schedule::dualpipe ? 2 : 1); ++direction)
    for (const StageRun& run : runs)
      for (int i = 0; i < run.count; ++i) {
        times.forward.push_back(run.forward);
        times.input_gradient.push_back(run.input_gradient);
        times.weight_gradient.push_back(run.weight_gradient);
      }
  return times;
}

/// A legal n between `low` and `high` times pp.
std::int64_t pick_n(Random& random, Schedule schedule, int pp, int low, int high) {
  if (schedule == Schedule::interleaved) return std::int64_t{pp} * pick(random, std::max(low, 1), high);
  std::int64_t n = pick(random, std::max(low * pp, 1), high * pp);
  if (schedule == Schedule::dualpipe) n = std::max<std::int64_t>(n / 2 * 2, 2 * pp);
  return n;
}

struct Errors {
  int cases = 0, exact = 0;
  double sum = 0, high = 0, low = 0;  // relative to the simulation
  void add(double form, double simulated) {
    const double error = form / simulated - 1.0;
    ++cases, exact += std::abs(error) < 1e-9;
    sum += std::abs(error), high = std::max(high, error), low = std::min(low, error);
  }
  double mean() const { return sum / cases; }
  double exact_share() const { return static_cast<double>(exact) / cases; }
};

Errors compare(Schedule schedule, Family family, int cases, int low_n, int high_n, double hop_share = 0.0,
               bool blocking = false) {
  Random random(20240 + static_cast<unsigned>(family) + 17 * static_cast<unsigned>(schedule));
  Errors errors;
  for (int i = 0; i < cases; ++i) {
    const bool interleaved = schedule == Schedule::interleaved;
    int pp = pick(random, interleaved ? 2 : 1, interleaved ? 10 : 16);
    if (schedule == Schedule::dualpipe) pp = 2 * pick(random, 1, 6);
    const int v = interleaved ? pick(random, 2, 4) : 1;
    const auto runs = make_runs(random, family, pp * v);
    PipelineTimes times = expand(schedule, runs, uniform(random, 0.0, 1.0));
    const double f = *std::min_element(times.forward.begin(), times.forward.end());
    times.hop = uniform(random, 0.0, hop_share * f), times.blocking = blocking;
    const std::int64_t n = pick_n(random, schedule, pp, low_n, high_n);
    errors.add(pipeline_makespan(schedule, pp, v, n, times), simulate_pipeline(schedule, pp, v, n, times).makespan);
  }
  return errors;
}

constexpr Family kFamilies[] = {Family::equal, Family::embedding_and_head, Family::uneven, Family::random};

}  // namespace

TEST_CASE("published vectors: the simulation gives every makespan, span and peak", "[pipeline]") {
  const auto rows = read_vectors();
  if (rows.empty()) {
    std::cout << "pipeline: schedules/vectors.csv is absent (set TESSERA_DATA): skipped\n";
    return;
  }
  CHECK(rows.size() == 54);
  for (const Vector& row : rows) {
    INFO("row " << row.id << " " << to_string(row.schedule));
    const PipelineResult result = simulate_pipeline(row.schedule, row.pp, row.v, row.n, row.times);
    CHECK(result.makespan == row.makespan);  // dyadic: no rounding
    CHECK(result.max_device_span == row.span);
    CHECK(result.in_flight_until_weight == row.until_weight);
    CHECK(result.in_flight_until_input == row.until_input);
  }
}

TEST_CASE("published vectors: closed forms", "[pipeline]") {
  int exact = 0, bounds = 0;
  for (const Vector& row : read_vectors()) {
    if (row.schedule == Schedule::zb_h1 && row.n < row.pp) continue;
    INFO("row " << row.id << " " << to_string(row.schedule));
    const double form = pipeline_makespan(row.schedule, row.pp, row.v, row.n, row.times);
    const bool equal = row.times.forward == std::vector<double>(row.times.forward.size(), row.times.forward[0]) &&
                       row.times.input_gradient ==
                           std::vector<double>(row.times.forward.size(), row.times.input_gradient[0]);
    const bool no_latency = row.times.hop == 0.0 || row.times.blocking;
    const bool known_exact = row.schedule == Schedule::one_f_one_b || row.schedule == Schedule::zb_h1 ||
                             (equal && no_latency && !row.times.blocking) ||
                             (row.schedule == Schedule::interleaved && equal && !row.times.blocking);
    if (known_exact) {
      CHECK(form == Approx(row.makespan).epsilon(kRounding));
      ++exact;
    } else {
      CHECK(form <= row.makespan * 1.005);
      CHECK(form >= row.makespan * (row.schedule == Schedule::interleaved ? 0.75 : 0.99));
      ++bounds;
    }
  }
  if (exact + bounds > 0) {
    CHECK(exact >= 35);
    CHECK(bounds >= 5);
  }
}

TEST_CASE("1F1B without latency is exact for any stages and any n", "[pipeline]") {
  for (const Family family : kFamilies) {
    const Errors many = compare(Schedule::one_f_one_b, family, 2000, 0, 5);
    const Errors blocking = compare(Schedule::one_f_one_b, family, 500, 0, 5, 0.5, true);
    INFO("family " << static_cast<int>(family) << " high " << many.high << " low " << many.low);
    CHECK(many.exact == many.cases);
    CHECK(blocking.exact == blocking.cases);
  }
}

TEST_CASE("1F1B with latency", "[pipeline]") {
  CHECK(compare(Schedule::one_f_one_b, Family::equal, 1000, 0, 5, 0.5).exact_share() == 1.0);
  for (const Family family : {Family::embedding_and_head, Family::uneven, Family::random}) {
    const Errors e = compare(Schedule::one_f_one_b, family, 1000, 0, 5, 0.5);
    CHECK(e.high < 1e-9);  // a lower bound
    CHECK(e.low > -0.02);
    CHECK(e.mean() < 0.0005);
    CHECK(e.exact_share() > 0.85);
  }
}

TEST_CASE("ZB-H1 against the simulation", "[pipeline]") {
  CHECK(compare(Schedule::zb_h1, Family::equal, 1000, 3, 7).exact_share() == 1.0);
  CHECK(compare(Schedule::zb_h1, Family::embedding_and_head, 1000, 3, 7).exact_share() == 1.0);
  CHECK(compare(Schedule::zb_h1, Family::equal, 500, 3, 7, 0.5).exact_share() == 1.0);
  const Errors uneven = compare(Schedule::zb_h1, Family::uneven, 1000, 3, 7);
  CHECK(uneven.exact_share() > 0.97);
  CHECK(uneven.low > -0.005);
  const Errors random = compare(Schedule::zb_h1, Family::random, 1000, 3, 7);
  CHECK(random.low > -0.035);
  CHECK(random.mean() < 0.002);
  for (const Family family : kFamilies) CHECK(compare(Schedule::zb_h1, family, 500, 1, 3, 0.5).high < 1e-9);
  CHECK(compare(Schedule::zb_h1, Family::random, 1000, 1, 3).low > -0.17);
}

TEST_CASE("interleaving against the simulation", "[pipeline]") {
  CHECK(compare(Schedule::interleaved, Family::equal, 800, 1, 5).exact_share() == 1.0);
  CHECK(compare(Schedule::interleaved, Family::equal, 400, 1, 5, 0.8).exact_share() == 1.0);
  const Errors head = compare(Schedule::interleaved, Family::embedding_and_head, 800, 1, 5);
  CHECK(head.exact_share() > 0.95);
  CHECK(head.low > -0.03);
  for (const Family family : {Family::uneven, Family::random}) {  // slow chunks do not line up: no closed form
    const Errors e = compare(Schedule::interleaved, family, 600, 1, 5);
    CHECK(e.high < 1e-9);
    CHECK(e.low > -0.25);
    CHECK(e.mean() < 0.06);
  }
}

TEST_CASE("DualPipe against the simulation", "[pipeline]") {
  CHECK(compare(Schedule::dualpipe, Family::equal, 1000, 2, 9).exact_share() == 1.0);
  const double lowest[] = {0.0, -0.025, -0.05, -0.05}, mean[] = {0.0, 0.0005, 0.002, 0.004};
  for (int i = 1; i < 4; ++i) {
    const Errors e = compare(Schedule::dualpipe, kFamilies[i], 1000, 2, 9);
    INFO("family " << i << " high " << e.high << " low " << e.low << " mean " << e.mean());
    CHECK(e.high < 1e-9);  // every path of the form is one of the graph
    CHECK(e.low > lowest[i]);
    CHECK(e.mean() < mean[i]);
  }
  for (const Family family : kFamilies) {
    const Errors latency = compare(Schedule::dualpipe, family, 500, 2, 9, 0.5);
    CHECK(latency.mean() < 0.01);
    CHECK(latency.high < 0.07);
    CHECK(latency.low > -0.07);
  }
}

TEST_CASE("DualPipe's equal-stage form", "[pipeline]") {
  // Section 3.1 as published, at F=B=W=1: overlap 0, 0.5 and 1 on 8 devices and 20 micro-batches.
  const std::vector<StageRun> runs{{8, 1.0, 1.0, 1.0}};
  CHECK(pipeline_makespan(Schedule::dualpipe, 8, 1, 20, runs, 0.0) == Approx(66.0).epsilon(kRounding));
  CHECK(pipeline_makespan(Schedule::dualpipe, 8, 1, 20, runs, 0.5) == Approx(59.0).epsilon(kRounding));
  CHECK(pipeline_makespan(Schedule::dualpipe, 8, 1, 20, runs, 1.0) == Approx(52.0).epsilon(kRounding));
}

TEST_CASE("run-length forms equal the expanded ones", "[pipeline]") {
  Random random(7);
  for (const Schedule schedule : {Schedule::one_f_one_b, Schedule::interleaved, Schedule::zb_h1, Schedule::dualpipe})
    for (int i = 0; i < 6000; ++i) {
      int pp = pick(random, 1, 24);
      if (schedule == Schedule::dualpipe) pp = 2 * pick(random, 1, 12);
      const int v = schedule == Schedule::interleaved ? pick(random, 1, 6) : 1;
      const auto runs = i % 2 ? make_long_runs(random, pp * v) : make_runs(random, kFamilies[i / 2 % 4], pp * v);
      const double overlap = uniform(random, 0.0, 1.0);
      const std::int64_t n = pick_n(random, schedule, pp, schedule == Schedule::zb_h1 ? 1 : 0, i % 3 ? 3 : 8);
      const double expanded = pipeline_makespan(schedule, pp, v, n, expand(schedule, runs, overlap));
      const double short_form = pipeline_makespan(schedule, pp, v, n, runs, overlap);
      if (std::abs(short_form / expanded - 1.0) > kRounding) {
        INFO(to_string(schedule) << " case " << i << " pp " << pp << " v " << v << " n " << n << " runs " << runs.size());
        CHECK(short_form == Approx(expanded).epsilon(kRounding));
      }
    }
}

TEST_CASE("what must hold for any schedule", "[pipeline]") {
  Random random(11);
  for (const Schedule schedule : {Schedule::one_f_one_b, Schedule::interleaved, Schedule::zb_h1, Schedule::dualpipe})
    for (int i = 0; i < 300; ++i) {
      const int pp = 2 * pick(random, 1, 6), v = schedule == Schedule::interleaved ? pick(random, 2, 4) : 1;
      auto runs = make_long_runs(random, pp * v);
      const std::int64_t n = pick_n(random, schedule, pp, 2, 6);
      const PipelineTimes times = expand(schedule, runs);
      const double t = pipeline_makespan(schedule, pp, v, n, runs, 0.0);
      // No device finishes before its own work.
      double busiest = 0;
      for (int d = 0; d < pp; ++d) {
        double work = 0;
        for (int s = d; s < pp * v; s += pp) {
          const auto k = static_cast<std::size_t>(s), mirror = static_cast<std::size_t>(pp - 1 - d);
          work += times.forward[k] + times.input_gradient[k] + times.weight_gradient[k];
          if (schedule == Schedule::dualpipe)
            work = (work + times.forward[mirror] + times.input_gradient[mirror] + times.weight_gradient[mirror]) / 2;
        }
        busiest = std::max(busiest, work);
      }
      CHECK(t >= static_cast<double>(n) * busiest * (1.0 - 1e-12));
      // Times scale; a slower part never makes the step faster; more micro-batches take longer.
      auto scaled = runs;
      for (StageRun& run : scaled) run.forward *= 4, run.input_gradient *= 4, run.weight_gradient *= 4;
      CHECK(pipeline_makespan(schedule, pp, v, n, scaled, 0.0) == Approx(4 * t).epsilon(kRounding));
      auto slower = runs;
      slower[random() % slower.size()].forward += 0.5;
      CHECK(simulate_pipeline(schedule, pp, v, n, expand(schedule, slower)).makespan >=
            simulate_pipeline(schedule, pp, v, n, times).makespan);
      CHECK(pipeline_makespan(schedule, pp, v, n + 2 * pp, runs, 0.0) > t);
    }
}

TEST_CASE("one device and few or very many micro-batches", "[pipeline]") {
  const std::vector<StageRun> one{{1, 2.0, 3.0, 1.0}};
  for (const Schedule schedule : {Schedule::one_f_one_b, Schedule::interleaved, Schedule::zb_h1})
    for (const std::int64_t n : {1, 2, 7})
      CHECK(pipeline_makespan(schedule, 1, 1, n, one, 0.0) == Approx(6.0 * static_cast<double>(n)).epsilon(kRounding));

  // n < pp: the ramp is paid, (n + pp - 1) t for equal stages.
  const std::vector<StageRun> equal{{16, 2.0, 3.0, 1.0}};
  CHECK(pipeline_makespan(Schedule::one_f_one_b, 16, 1, 1, equal, 0.0) == Approx(96.0).epsilon(kRounding));
  CHECK(pipeline_makespan(Schedule::one_f_one_b, 16, 1, 5, equal, 0.0) == Approx(120.0).epsilon(kRounding));

  // A billion micro-batches: the published equal-stage forms, in constant time (n steps each would
  // take seconds).
  const std::int64_t n = 1'000'000'000;
  const auto begin = std::chrono::steady_clock::now();
  CHECK(pipeline_makespan(Schedule::one_f_one_b, 16, 1, n, equal, 0.0) == Approx((n + 15) * 6.0).epsilon(kRounding));
  CHECK(pipeline_makespan(Schedule::zb_h1, 16, 1, n, equal, 0.0) == Approx(n * 6.0 + 15 * 4.0).epsilon(kRounding));
  CHECK(pipeline_makespan(Schedule::interleaved, 8, 2, n, equal, 0.0) == Approx((2.0 * n + 7) * 6.0).epsilon(kRounding));
  CHECK(pipeline_makespan(Schedule::dualpipe, 16, 1, n, equal, 0.0) ==
        Approx((n - 10) * 6.0 + 16 * 2 + 10 * 3 + 3 + 21 + 21).epsilon(kRounding));
  PipelineTimes times = expand(Schedule::one_f_one_b, equal);
  times.hop = 0.5;
  CHECK(pipeline_makespan(Schedule::one_f_one_b, 16, 1, n, times) ==
        Approx((n + 15) * 6.0 + (15.0 * (1 + (n - 1) / 16) + std::max<std::int64_t>((n - 1) % 16 - 1, 0)))
            .epsilon(kRounding));
  times.hop = 0.25;
  CHECK(std::isfinite(pipeline_makespan(Schedule::zb_h1, 16, 1, n, times)));
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(2));
}

TEST_CASE("micro-batches in flight are those of the simulated orders", "[pipeline]") {
  for (const Schedule schedule : {Schedule::one_f_one_b, Schedule::interleaved, Schedule::zb_h1, Schedule::dualpipe})
    for (int pp = 1; pp <= 12; ++pp)
      for (int v = 1; v <= (schedule == Schedule::interleaved ? 4 : 1); ++v)
        for (std::int64_t n = 1; n <= 4 * pp; ++n) {
          if (schedule == Schedule::interleaved && n % pp != 0) continue;
          if (schedule == Schedule::dualpipe && (pp % 2 || n % 2 || n < 2 * pp)) continue;
          const auto result = simulate_pipeline(schedule, pp, v, n, expand(schedule, {{pp * v, 1.0, 1.0, 1.0}}));
          for (int d = 0; d < pp; ++d) {
            const double held = in_flight(schedule, pp, v, n, d), deferred = deferred_in_flight(schedule, pp, n, d);
            const auto k = static_cast<std::size_t>(d);
            CHECK(held * v == Approx(result.in_flight_until_input[k]).epsilon(1e-12));
            CHECK((held + deferred) * v == Approx(result.in_flight_until_weight[k]).epsilon(1e-12));
          }
        }
  CHECK(in_flight(Schedule::interleaved, 8, 2, 64, 0) == 11.5);  // pp (1 + 1/v) - 1/v
}

TEST_CASE("what a schedule cannot do is refused", "[pipeline]") {
  const std::vector<StageRun> four{{4, 1.0, 1.0, 1.0}}, eight{{8, 1.0, 1.0, 1.0}};
  auto form = [](Schedule schedule, int pp, int v, std::int64_t n, const std::vector<StageRun>& runs, double rho = 0) {
    return pipeline_makespan(schedule, pp, v, n, runs, rho);
  };
  CHECK_THROWS_AS(form(Schedule::one_f_one_b, 4, 1, 0, four), InputError);
  CHECK_THROWS_AS(form(Schedule::one_f_one_b, 0, 1, 4, four), InputError);
  CHECK_THROWS_AS(form(Schedule::one_f_one_b, 4, 2, 4, eight), InputError);
  CHECK_THROWS_AS(form(Schedule::one_f_one_b, 4, 1, 4, eight), InputError);
  CHECK_THROWS_AS(form(Schedule::one_f_one_b, 4, 1, 4, {}), InputError);
  CHECK_THROWS_AS(form(Schedule::one_f_one_b, 4, 1, 4, {{5, 1, 1, 1}, {-1, 1, 1, 1}}), InputError);
  CHECK_THROWS_AS(form(Schedule::interleaved, 4, 2, 6, eight), InputError);
  CHECK_THROWS_AS(form(Schedule::zb_h1, 4, 1, 3, four), InputError);
  CHECK_THROWS_AS(form(Schedule::dualpipe, 4, 1, 6, four), InputError);
  CHECK_THROWS_AS(form(Schedule::dualpipe, 4, 1, 9, four), InputError);
  CHECK_THROWS_AS(form(Schedule::dualpipe, 3, 1, 8, {{3, 1, 1, 1}}), InputError);
  CHECK_THROWS_AS(form(Schedule::dualpipe, 4, 1, 8, four, 1.5), InputError);
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  CHECK_THROWS_AS(form(Schedule::dualpipe, 4, 1, 8, four, nan), InputError);
  CHECK_THROWS_AS(form(Schedule::one_f_one_b, 4, 1, 8, {{4, nan, 1, 1}}), InputError);
  CHECK_THROWS_AS(form(Schedule::interleaved, 2, 2, 8, {{4, 1, 1, nan}}), InputError);
  CHECK_THROWS_AS(form(Schedule::zb_h1, 4, 1, 8, {{4, 1, inf, 1}}), InputError);

  PipelineTimes times = expand(Schedule::one_f_one_b, four);
  CHECK_THROWS_AS(simulate_pipeline(Schedule::interleaved, 4, 1, 6, times), InputError);
  CHECK_THROWS_AS(simulate_pipeline(Schedule::dualpipe, 4, 1, 8, times), InputError);  // needs both directions
  CHECK_THROWS_AS(simulate_pipeline(Schedule::one_f_one_b, 4, 1, 1'000'000'000, times), InputError);
  times.forward[2] = -1.0;
  CHECK_THROWS_AS(pipeline_makespan(Schedule::one_f_one_b, 4, 1, 4, times), InputError);
  times.forward[2] = 1.0, times.hop = nan;
  CHECK_THROWS_AS(pipeline_makespan(Schedule::one_f_one_b, 4, 1, 4, times), InputError);
}
