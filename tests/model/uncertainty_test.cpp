// Uncertainty against the published test values (T1 to T8) and its invariants.
#include <catch2/catch.hpp>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <numeric>

#include "io/law_reader.hpp"
#include "tessera/error.hpp"
#include "tessera/uncertainty.hpp"

using namespace tessera;

namespace {

std::string ensemble_path() {
  const char* given = std::getenv("TESSERA_DATA");
  return (given ? given : std::string(TESSERA_SOURCE_DIR) + "/../shared/data") + "/laws/mosaic_ensemble.csv";
}

struct Row { const char* key; double total, active, sparsity, split, mfu; };
constexpr Row kTable[] = {{"q12 E96 K2 G4", 3.271919e+11, 1.449080e+10, 0.95571163, 4, 0.1238},
                          {"q10 E48 K2 G2", 1.905721e+11, 1.421476e+10, 0.92541009, 2, 0.1689},
                          {"q12 E48 K2 G4", 1.675147e+11, 1.449080e+10, 0.91349539, 4, 0.1514},
                          {"q12 E128 K2 G4", 4.336433e+11, 1.449080e+10, 0.96658361, 4, 0.1069},
                          {"q14 E96 K2 G8", 2.639434e+11, 1.490990e+10, 0.94351100, 8, 0.1134},
                          {"q10 E96 K2 G2", 3.745972e+11, 1.421476e+10, 0.96205322, 2, 0.1362}};

/// 32 nodes of 8 B200 over 20 days.
std::vector<Candidate> table() {
  std::vector<Candidate> out;
  for (const auto& row : kTable) {
    Candidate c;
    c.key = row.key;
    c.point.total = row.total, c.point.active = row.active, c.point.sparsity = row.sparsity, c.point.split = row.split;
    c.active_parameters = row.active;
    c.mfu = row.mfu;
    c.window_tokens = window_tokens(2.25e15, 256, 1728000, row.mfu, 1, row.active);
    out.push_back(c);
  }
  return out;
}

Uncertainty published() {
  Uncertainty u;
  u.law = read_law("mosaic");
  u.replicates = 1;
  return u;
}

Losses run(const Uncertainty& u, std::span<const Candidate> candidates) {
  Losses out = make_losses(u, candidates);
  simulate(u, candidates, 0, std::max<std::size_t>(1, u.members.size()), out);
  return out;
}

bool have_ensemble() {
  if (std::filesystem::exists(ensemble_path())) return true;
  WARN("skipped: no " << ensemble_path() << " (set TESSERA_DATA)");
  return false;
}

constexpr double kPrinted = 2e-6;  // tolerance of the published values

}  // namespace

TEST_CASE("T1: decision on given losses", "[uncertainty]") {
  Losses losses;
  losses.candidates = 3, losses.draws = 4;
  losses.values = {1.0, 1.0, 1.2, 1.0, 1.1, .9, 1.1, 1.3, 1.2, 1.3, 1.0, 1.1};
  const Decision d = decide(losses);
  const double best[] = {.5, .25, .25}, mean[] = {1.05, 1.10, 1.15}, regret[] = {.075, .125, .175};
  for (int i = 0; i < 3; ++i) {
    CHECK(d.verdicts[i].best == best[i]);
    CHECK(d.verdicts[i].mean == Approx(mean[i]).epsilon(1e-14));
    CHECK(d.verdicts[i].regret == Approx(regret[i]).epsilon(1e-13));
  }
  CHECK(d.least_mean == Approx(.975));
  CHECK(d.choice == 0);
  CHECK(d.ninety_set == std::vector<std::size_t>{0, 1, 2});
  // Believing each draw: .5·1.05 + .25·1.10 + .25·1.15 obtained against .975 promised.
  CHECK(d.optimism == Approx(.1125).epsilon(1e-12));
}

TEST_CASE("published losses of the candidate table", "[uncertainty]") {
  const double expected[] = {1.389832, 1.392611, 1.392694, 1.393882, 1.393992, 1.393917};
  const auto losses = nominal_losses(published(), table());
  for (int i = 0; i < 6; ++i) CHECK(losses[i] == Approx(expected[i]).margin(kPrinted));
}

TEST_CASE("T2 and T3: law only, four and 512 members", "[uncertainty]") {
  if (!have_ensemble()) return;
  Uncertainty u = published();
  const Members all = read_ensemble(ensemble_path(), u.law);
  REQUIRE(all.size() == 512);
  u.members.assign(all.begin(), all.begin() + 4);
  const double rows[4][6] = {{1.400932, 1.405822, 1.406026, 1.403931, 1.404960, 1.404846},
                             {1.378115, 1.380383, 1.380929, 1.382120, 1.382909, 1.381442},
                             {1.369869, 1.367591, 1.369557, 1.375899, 1.375280, 1.372025},
                             {1.410227, 1.415329, 1.415288, 1.412700, 1.414537, 1.413948}};
  const Losses few = run(u, table());
  for (int m = 0; m < 4; ++m)
    for (int i = 0; i < 6; ++i) CHECK(few.at(i, m) == Approx(rows[m][i]).margin(kPrinted));
  CHECK(decide(few).verdicts[0].best == .75);
  CHECK(decide(few).verdicts[1].best == .25);

  u.members = all;
  const Decision d = decide(run(u, table()));
  const double best[] = {.82422, .14062, .03320, 0, .00195, 0}, mean[] = {1.389947, 1.392843, 1.392852, 1.394018, 1.394032, 1.394137},
               regret[] = {.000265, .003162, .003170, .004336, .004350, .004455}, low[] = {0, -.001944, -.001020, .002188, .002046, .001484},
               high[] = {0, .007510, .006624, .005952, .005949, .007137};
  for (int i = 0; i < 6; ++i) {
    CHECK(d.verdicts[i].best == Approx(best[i]).margin(5.1e-6));
    CHECK(d.verdicts[i].mean == Approx(mean[i]).margin(kPrinted));
    CHECK(d.verdicts[i].regret == Approx(regret[i]).margin(kPrinted));
    CHECK(d.verdicts[i].paired_low == Approx(low[i]).margin(kPrinted));
    CHECK(d.verdicts[i].paired_high == Approx(high[i]).margin(kPrinted));
  }
  CHECK(d.choice == 0);
  CHECK(d.near_ties == 3);
}

TEST_CASE("T4: random numbers by counter", "[uncertainty]") {
  CHECK(splitmix64(0) == 16294208416658607535ull);
  CHECK(splitmix64(1) == 10451216379200822465ull);
  const auto w = fnv1a("q12 E96 K2 G4"), v = fnv1a("q10 E48 K2 G2");
  CHECK(w == 13835186061706333955ull);
  CHECK(v == 6329417871011068228ull);
  struct Draw { DrawStream stream; std::uint64_t m, r, key; double u, z; };
  const Draw rows[] = {{DrawStream::common, 0, 0, 0, .129645618299747, -1.128067918624},
                       {DrawStream::individual, 0, 0, w, .248989137348565, -.677674221454},
                       {DrawStream::individual, 0, 0, v, .631298303122908, .335293901365},
                       {DrawStream::individual, 511, 7, w, .557933637694485, .145732296513}};
  for (const auto& d : rows) {
    CHECK(uniform_draw(1, d.stream, d.m, d.r, d.key) == Approx(d.u).margin(1e-15));
    CHECK(normal_draw(1, d.stream, d.m, d.r, d.key) == Approx(d.z).margin(1e-12));
  }
  const double factors[] = {.917793215, .975304955, .858431404, .969137184, 1.005900020, .964689525};
  for (int i = 0; i < 6; ++i) {
    const double z = .04 * normal_draw(1, DrawStream::common, 0, 0, 0) + .06 * normal_draw(1, DrawStream::individual, 0, 0, fnv1a(kTable[i].key));
    CHECK(std::exp(z) == Approx(factors[i]).margin(1e-9));
  }
  // The quantile inverts the distribution, far into both tails.
  for (const double u : {1e-300, 1e-20, 1e-6, .02, .3, .5, .8, .999}) CHECK(std::erfc(-normal_quantile(u) / std::sqrt(2.0)) / 2 == Approx(u).epsilon(1e-12));
}

TEST_CASE("T5 and T6: law and time error, without and with a token cap", "[uncertainty]") {
  if (!have_ensemble()) return;
  Uncertainty u = published();
  u.members = read_ensemble(ensemble_path(), u.law);
  u.replicates = 8;
  u.time.common = .04, u.time.individual = .06;
  const Decision d = decide(run(u, table()));
  const double best[] = {.43652, .15601, .14575, .09375, .09253, .07544}, regret[] = {.002144, .005083, .005011, .006256, .006301, .006376},
               mean[] = {1.389951, 1.392890, 1.392818, 1.394063, 1.394107, 1.394183}, low[] = {0, -.006141, -.005703, -.003955, -.004070, -.004077},
               high[] = {0, .011546, .011241, .012398, .012261, .012436};
  for (int i = 0; i < 6; ++i) {
    CHECK(d.verdicts[i].best == Approx(best[i]).margin(5.1e-6));
    CHECK(d.verdicts[i].regret == Approx(regret[i]).margin(kPrinted));
    CHECK(d.verdicts[i].mean == Approx(mean[i]).margin(kPrinted));
    CHECK(d.verdicts[i].paired_low == Approx(low[i]).margin(kPrinted));
    CHECK(d.verdicts[i].paired_high == Approx(high[i]).margin(kPrinted));
  }
  u.bounds.high = 150;
  const Decision capped = decide(run(u, table()));
  const double capped_best[] = {.44702, .13379, .14990, .09570, .09497, .07861}, capped_regret[] = {.002048, .005234, .004915, .006160, .006204, .006279};
  for (int i = 0; i < 6; ++i) {
    CHECK(capped.verdicts[i].best == Approx(capped_best[i]).margin(5.1e-6));
    CHECK(capped.verdicts[i].regret == Approx(capped_regret[i]).margin(kPrinted));
  }
}

TEST_CASE("T7: properties", "[uncertainty]") {
  Uncertainty u = published();
  auto candidates = table();
  const Decision certain = decide(run(u, candidates));
  CHECK(certain.choice == 0);
  CHECK(certain.verdicts[0].best == 1);
  CHECK(certain.verdicts[0].regret == 0);

  u.replicates = 4096;
  u.time.common = .04;
  CHECK(decide(run(u, candidates)).verdicts[0].best == 1);  // a common error does not reorder

  u.members = ensemble_members(u.law, 64, 1);
  u.replicates = 8;
  u.time.individual = .12;
  u.time.slope = .8;
  u.form.split_offset = .004;
  u.form.flat_probability = .5;
  const Losses losses = run(u, candidates);
  const Decision d = decide(losses);
  double sum = 0;
  for (const auto& v : d.verdicts) {
    CHECK(v.regret >= 0);
    CHECK(v.paired_low <= v.paired_median);
    CHECK(v.paired_median <= v.paired_high);
    sum += v.best;
  }
  CHECK(sum == Approx(1).epsilon(1e-14));
  CHECK(d.optimism > 0);

  // A duplicate with the same key has the same draws: no regret changes.
  auto doubled = candidates;
  doubled.push_back(candidates[2]);
  const Decision twice = decide(run(u, doubled));
  for (int i = 0; i < 6; ++i) CHECK(twice.verdicts[i].regret == d.verdicts[i].regret);
  CHECK(twice.verdicts[6].regret == d.verdicts[2].regret);
  CHECK(twice.verdicts[6].best == 0);  // a tie in a draw goes to the lower index

  const std::vector<Candidate> reversed(candidates.rbegin(), candidates.rend());
  const Losses mirrored = run(u, reversed);
  for (std::size_t i = 0; i < 6; ++i)
    for (std::size_t draw = 0; draw < losses.draws; ++draw) REQUIRE(mirrored.at(5 - i, draw) == losses.at(i, draw));

  // Disjoint ranges of members give the same numbers as one call.
  Losses parts = make_losses(u, candidates);
  simulate(u, candidates, 40, 64, parts);
  simulate(u, candidates, 0, 40, parts);
  CHECK(parts.values == losses.values);
}

TEST_CASE("T8: level and slope coordinates", "[uncertainty]") {
  const Law law = read_law("mosaic");
  const double expected[] = {2.179507, -2.414241, -1.838611, -3.085826, -3.78816, -2.255702, -1.575036, -2.080242, -0.585729, -1.770781, -0.049926};
  const auto u = to_level_slope(law.coefficients, *law.level_slope);
  REQUIRE(u);
  for (int i = 0; i < 11; ++i) CHECK((*u)[i] == Approx(expected[i]).margin(6e-7));
  const auto back = from_level_slope(*u, *law.level_slope);
  REQUIRE(back);
  for (int i = 0; i < 11; ++i) CHECK((*back)[i] == Approx(law.coefficients[i]).epsilon(1e-12));
}

TEST_CASE("the compact ensemble reproduces the spread of the full one", "[uncertainty]") {
  Uncertainty u = published();
  u.members = ensemble_members(u.law, 4096, 1);
  REQUIRE(u.members.size() == 4096);
  CHECK(ensemble_members(u.law, 10, 1) == Members(u.members.begin(), u.members.begin() + 10));
  CHECK(ensemble_members(u.law, 1, 2) != Members(u.members.begin(), u.members.begin() + 1));
  const Losses losses = run(u, table());
  const Decision d = decide(losses);
  double variance = 0, paired = 0, shift = 0;
  for (std::size_t m = 0; m < losses.draws; ++m) shift += losses.at(1, m) - losses.at(0, m);
  shift /= static_cast<double>(losses.draws);
  for (std::size_t m = 0; m < losses.draws; ++m) {
    variance += std::pow(losses.at(0, m) - d.verdicts[0].mean, 2);
    paired += std::pow(losses.at(1, m) - losses.at(0, m) - shift, 2);
  }
  // Published: sd .0129, P(choice) .822 against .828 among 129 candidates; here six. Monte-Carlo error of P: .006.
  CHECK(std::sqrt(variance / 4096) == Approx(.0129).margin(.0004));
  CHECK(d.verdicts[0].best == Approx(.824).margin(.02));
  CHECK(std::sqrt(paired / 4096) < .004);
  CHECK(d.choice == 0);
}

TEST_CASE("sources alone, hours of regret and the margin of candidates", "[uncertainty]") {
  Uncertainty u = published();
  u.members = ensemble_members(u.law, 256, 1);
  u.replicates = 8;
  u.time = {.common = .04, .individual = .06};
  u.form.split_offset = .004;
  const auto candidates = table();
  std::map<std::string, double> regret;
  for (const auto& [name, sources] : std::initializer_list<std::pair<const char*, Sources>>{
           {"none", {false, false, false}}, {"law", {true, false, false}}, {"time", {false, true, false}}, {"form", {false, false, true}}, {"all", {true, true, true}}}) {
    const Decision d = decide(run(only(u, sources), candidates));
    regret[name] = d.verdicts[d.choice].regret;
  }
  CHECK(regret["none"] == 0);
  CHECK(regret["law"] > 0);
  CHECK(regret["law"] < regret["form"]);  // order of the published table: law < offset .004 < time 6 %
  CHECK(regret["form"] < regret["time"]);
  CHECK(regret["time"] < regret["all"]);
  // b/D^beta = .2696 and beta = .207 at the choice: .0558 nats for all of the GPU-hours.
  CHECK(regret_in_hours(u, candidates[0], .0022) == Approx(.0022 / .0558).epsilon(.002));
  CHECK(candidate_margin(u, candidates[0], .0073) == Approx(.0347).epsilon(.02));
}

TEST_CASE("a thousand candidates, 512 members and 8 draws take less than the second promised", "[uncertainty]") {
  Uncertainty u = published();
  u.members = ensemble_members(u.law, 512, 1);
  u.replicates = 8;
  u.time = {.common = .04, .individual = .12};
  std::vector<Candidate> many;
  for (int i = 0; i < 1000; ++i) {
    Candidate c = table()[i % 6];
    c.key += " copy " + std::to_string(i);
    c.window_tokens *= 1 + 1e-4 * i;
    many.push_back(c);
  }
  const auto start = std::chrono::steady_clock::now();
  const Decision d = decide(run(u, many));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  WARN("1000 candidates x 512 members x 8 draws on one thread: " << seconds << " s");
  CHECK(d.verdicts.size() == 1000);
  CHECK(seconds < 10);  // a bound no loaded machine exceeds; the figure above is the measurement
}

TEST_CASE("uncertainty refuses what it cannot rank", "[uncertainty]") {
  Uncertainty u = published();
  CHECK_THROWS_AS(make_losses(u, {}), InputError);
  auto candidates = table();
  candidates[0].window_tokens = 0;
  CHECK_THROWS_AS(make_losses(u, candidates), InputError);
  u.law = read_law("ling2025_EL");
  CHECK_THROWS_AS(make_losses(u, table()), InputError);
}
