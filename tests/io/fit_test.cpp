// Fits against known answers: published refits of public run tables (TESSERA_DATA), and synthetic runs whose
// law is known.
#include "io/fit.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>
#include <set>

#include "io/law_reader.hpp"

using namespace tessera;

namespace {

std::string data_file(const std::string& name) {
  const char* folder = std::getenv("TESSERA_DATA");
  const std::string path =
      (folder && *folder ? std::string(folder) : std::string(TESSERA_SOURCE_DIR) + "/../shared/data") +
      "/laws/" + name;
  if (std::filesystem::exists(path)) return path;
  WARN("skipped: no run table at " << path << " (TESSERA_DATA)");
  return "";
}

RunTable runs_of(const std::string& path, LawForm form, const RunSelection& selection) {
  Law law;
  law.form = form;
  if (form == LawForm::clark) law.convention.size = SizeKind::active;
  return read_runs(path, law, selection);
}

std::size_t index_of(LawForm form, const std::string& name) {
  const auto infos = form_info(form).coefficients;
  for (std::size_t i = 0; i < infos.size(); ++i)
    if (infos[i].name == name) return i;
  FAIL("no coefficient " << name);
  return 0;
}

/// 150 runs on the published coverage of the joint law: rungs, tokens tied to depth, ranges of N, S and
/// D/N_act. Losses are the law's with independent noise of one standard deviation.
RunTable synthetic_runs(const Law& law, double noise, unsigned seed) {
  struct Rung {
    int q;
    std::size_t runs;
    std::vector<double> tokens;
  };
  const std::vector<Rung> rungs{{2, 52, {2.88e9, 3.84e9, 5.76e9, 7.68e9}},
                                {3, 56, {5.76e9, 7.68e9, 11.52e9}},
                                {4, 38, {28.19e9, 56.38e9}},
                                {6, 4, {50e9}}};
  std::mt19937_64 random(seed);  // its bits are the same everywhere; distributions of the library are not
  const auto uniform = [&] { return (static_cast<double>(random() >> 11) + 0.5) / 9007199254740992.0; };
  RunTable table;
  table.file = "synthetic";
  for (const Rung& rung : rungs) {
    std::vector<LawPoint> points;
    for (const int experts : {8, 16, 32, 64, 96, 128, 192, 256, 384, 512})
      for (const int top_k : {1, 2, 4, 8})
        for (const double split : {1, 2, 4, 6, 8})
          for (const double tokens : rung.tokens) {
            if (top_k >= experts || (split == 6 && rung.q % 3 != 0)) continue;  // no whole widths
            LadderRung r;
            r.q = rung.q, r.experts = experts, r.top_k = top_k, r.split = split;
            r.kv_heads = 4;  // divides the 12 heads of q = 3
            const ParameterCount n = count_parameters(ladder(r));
            LawPoint p;
            p.total = static_cast<double>(n.non_embedding_total),
            p.active = static_cast<double>(n.non_embedding_active);
            p.sparsity = n.sparsity(), p.split = split, p.tokens = tokens;
            const double ratio = tokens / p.active;
            if (p.sparsity < 0.499 || p.sparsity > 0.981 || p.total < 0.22e9 || p.total > 79.24e9 ||
                p.active < 0.104e9 || p.active > 2.73e9 || ratio < 10.8 || ratio > 70)
              continue;
            points.push_back(p);
          }
    for (std::size_t i = 0; i < rung.runs; ++i) {  // without repetition
      const auto at = i + static_cast<std::size_t>(uniform() * static_cast<double>(points.size() - i));
      std::swap(points[i], points[at]);
      const double normal = std::sqrt(-2 * std::log(uniform())) * std::cos(2 * std::acos(-1.0) * uniform());
      table.runs.push_back({points[i], loss(law, points[i]) + noise * normal, std::to_string(rung.q), i});
    }
  }
  table.rows = table.runs.size();
  return table;
}

}  // namespace

TEST_CASE("the refit of Epoch: 240 of 245 runs of Hoffmann et al.", "[fit]") {
  const std::string path = data_file("epoch_chinchilla/svg_extracted_data.csv");
  if (path.empty()) return;
  RunSelection selection;
  selection.drop_highest = 5;
  const RunTable table = runs_of(path, LawForm::chinchilla, selection);
  CHECK(table.rows == 245);
  REQUIRE(table.runs.size() == 240);
  FitOptions options;
  options.huber = 1e-3;
  options.bootstrap = Bootstrap::pairs;
  options.resamples = 1000;
  const FitResult fit = fit_law(table, options);
  // The published minimum is that of a grid of starts: ours must not lie above it, and be the same one.
  CHECK(fit.objective <= 0.00101827403462 * (1 + 1e-9));
  CHECK(fit.objective == Approx(0.00101827403462).epsilon(1e-6));
  const std::map<std::string, std::pair<double, double>> published{// value, standard error
                                                                   {"A", {477.84171253, 124.52}},
                                                                   {"B", {2143.86378803, 1293.28}},
                                                                   {"E", {1.81723550, 0.02566}},
                                                                   {"alpha", {0.34731266, 0.01540}},
                                                                   {"beta", {0.36718262, 0.02060}}};
  for (const auto& [name, known] : published) {
    INFO(name);
    const std::size_t i = index_of(LawForm::chinchilla, name);
    CHECK(fit.coefficients[i] == Approx(known.first).epsilon(3e-4));
    REQUIRE(fit.intervals[i]);
    CHECK(fit.intervals[i]->se ==
          Approx(known.second).epsilon(0.12));  // two bootstraps of 1,000 differ by up to that
    CHECK(fit.intervals[i]->low < known.first);
    CHECK(fit.intervals[i]->high > known.first);
  }
}

TEST_CASE("all 245 runs give another law: five runs move B sixfold", "[fit]") {
  const std::string path = data_file("epoch_chinchilla/svg_extracted_data.csv");
  if (path.empty()) return;
  FitOptions options;
  options.huber = 1e-3;
  options.bootstrap = Bootstrap::none;
  const FitResult fit = fit_law(runs_of(path, LawForm::chinchilla, {}), options);
  CHECK(fit.coefficients[index_of(LawForm::chinchilla, "B")] == Approx(12845.6).epsilon(1e-3));
  CHECK(fit.coefficients[index_of(LawForm::chinchilla, "beta")] == Approx(0.4531).epsilon(1e-3));
}

TEST_CASE("routed laws of Clark et al., a router at a time", "[fit]") {
  const std::string path = data_file("clark_routed/final_runs.csv");
  if (path.empty()) return;
  const std::vector<std::tuple<const char*, std::size_t, double, double>> routers{
      // runs, RMSE [nats], Em
      {"S-Base", 58, 0.0183, 238.68},
      {"RL-R", 59, 0.0184, 470.05},
      {"Hash", 56, 0.0173, 427.32}};
  for (const auto& [router, runs, rmse, most] : routers) {
    INFO(router);
    RunSelection selection;
    selection.where = {"router_type=" + std::string(router) + "|Dense", "k=1", "seed=42",
                       "routing_frequency=0.5"};
    FitOptions options;
    options.form = LawForm::clark;
    options.convention.size = SizeKind::active;
    options.huber = 0;
    options.bootstrap = Bootstrap::none;
    const RunTable table = runs_of(path, LawForm::clark, selection);
    REQUIRE(table.runs.size() == runs);
    const FitResult fit = fit_law(table, options);
    CHECK(fit.rmse <= 0.019);
    CHECK(fit.rmse == Approx(rmse).margin(5e-5));
    CHECK(fit.coefficients[index_of(LawForm::clark, "Em")] == Approx(most).epsilon(1e-3));
  }
}

TEST_CASE("synthetic runs of the joint law: beta and eta come back, the rest is a ridge", "[fit]") {
  const Law law = read_law("mosaic");
  const RunTable table = synthetic_runs(law, 0.0075, 1);
  REQUIRE(table.runs.size() == 150);
  FitOptions options;
  options.form = LawForm::mosaic;
  options.convention = law.convention;
  options.huber = 0.1;
  options.resamples = 300;
  const FitResult fit = fit_law(table, options);
  CHECK(fit.rmse ==
        Approx(0.0072).margin(0.001));  // nine to eleven coefficients take their share of the noise
  const auto infos = form_info(LawForm::mosaic).coefficients;
  std::set<std::string> known;
  for (std::size_t i = 0; i < infos.size(); ++i)
    if (fit.identified[i] && !fit.identified[i]->ridge) known.emplace(infos[i].name);
  CHECK(known == std::set<std::string>{"beta", "eta"});
  for (const char* name : {"beta", "eta"}) {
    INFO(name);
    const auto& interval = fit.intervals[index_of(LawForm::mosaic, name)];
    REQUIRE(interval);
    CHECK(interval->low < law.coefficient(name));
    CHECK(interval->high > law.coefficient(name));
  }
  REQUIRE(fit.held_out_rmse);
  CHECK(*fit.held_out_rmse < 0.0125);
}

TEST_CASE("a fit gives the same numbers on every call", "[fit]") {
  const Law law = read_law("mosaic");
  const RunTable table = synthetic_runs(law, 0.0075, 2);
  FitOptions options;
  options.form = LawForm::mosaic;
  options.huber = 0.1;
  options.starts = 8;
  options.resamples = 40;
  const FitResult one = fit_law(table, options), two = fit_law(table, options);
  CHECK(one.coefficients == two.coefficients);
  CHECK(one.members == two.members);
}

TEST_CASE("a fixed coefficient keeps its value, and runs without noise are met", "[fit]") {
  const Law law = read_law("mosaic");
  FitOptions options;
  options.form = LawForm::mosaic;
  options.bootstrap = Bootstrap::none;
  options.fixed["alpha"] = law.coefficient("alpha");
  const FitResult fit = fit_law(synthetic_runs(law, 0, 3), options);
  CHECK(fit.coefficients[index_of(LawForm::mosaic, "alpha")] == law.coefficient("alpha"));
  CHECK_FALSE(fit.identified[index_of(LawForm::mosaic, "alpha")]);
  CHECK(fit.rmse < 1e-4);  // no noise
}
