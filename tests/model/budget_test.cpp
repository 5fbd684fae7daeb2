// Budgets against the published check values, and invariants.
#include <catch2/catch.hpp>

#include <cmath>

#include "io/budget_reader.hpp"
#include "tessera/budget.hpp"
#include "tessera/error.hpp"

using namespace tessera;

TEST_CASE("tokens of the paper's window and their bounds", "[budget]") {
  const double tokens = window_tokens(2.25e15, 256, 20 * 86400.0, .1238, 1, 1.449080e10);
  CHECK(tokens == Approx(1.417240e12).epsilon(5e-7));
  CHECK(bound_tokens(tokens, 1.44908e10, {40, 150}).tokens == tokens);
  const auto cut = bound_tokens(1000, 5, {40, 150});
  CHECK(cut.cut);
  CHECK(cut.tokens == 750);
  CHECK(cut.window_used == .75);
  CHECK(bound_tokens(199, 5, {40, 150}).refused);
  CHECK_FALSE(bound_tokens(200, 5, {40, 150}).refused);
  CHECK_FALSE(bound_tokens(1, 5, {}).refused);
  CHECK(bound_tokens(1e9, 5, {}).tokens == 1e9);
}

TEST_CASE("best checkpoint interval: roots of the closed form", "[budget]") {
  CHECK(optimal_interval_root(1e-6) == Approx(.00141354697).epsilon(1e-8));
  CHECK(optimal_interval_root(1.5407e-3) == Approx(.0544880127).epsilon(1e-8));
  CHECK(optimal_interval_root(.1) == Approx(.383183168).epsilon(1e-8));
  CHECK(optimal_interval_root(1) == Approx(.841405660).epsilon(1e-8));
  CHECK(optimal_interval_root(5) == Approx(.997515081).epsilon(1e-8));
  CHECK(optimal_interval_root(0) == 0);
  for (double a = 1e-14; a < 30; a *= 3) {
    const double x = optimal_interval_root(a);
    INFO("a " << a);
    CHECK(x + std::expm1(-x - a) == Approx(0).margin(4e-16));
    CHECK(x > 0);
    CHECK(x < 1);
  }
}

TEST_CASE("goodput of large machines: published values, never negative", "[budget]") {
  struct Row { double gpus, rate, block, restart, interval, best, failing; };
  const Row rows[] = {{16384, 6.5e-3, 10, 300, 353.65, .90374, .90280},   {16384, 6.5e-3, 10, 1200, 353.65, .79797, .78591},
                      {16384, 3.79e-3, 60, 300, 1116.10, .87612, .87581}, {16384, 3.79e-3, 1, 180, 148.54, .97095, .97083},
                      {131072, 6.5e-3, 10, 300, 120.80, .62134, .58801},  {131072, 6.5e-3, 10, 1200, 120.80, .34331, .19391},
                      {2048, 2.34e-3, 1, 300, 536.42, .99421, .99421}};
  for (const auto& row : rows) {
    GoodputModel model;
    model.modelled = true;
    model.failures_per_device_day = row.rate / 8;
    model.blocking_seconds = row.block;
    model.restart_seconds = row.restart;
    const Goodput at = goodput(model, row.gpus, 1e12);
    CHECK(at.interval_seconds == Approx(row.interval).margin(.005));
    CHECK(at.value == Approx(row.best).margin(5e-6));
    model.restart_can_fail = true;
    CHECK(goodput(model, row.gpus, 1e12).value == Approx(row.failing).margin(5e-6));
  }
  GoodputModel llama;
  llama.modelled = true;
  llama.failures_per_device_day = 3.79e-3 / 8;
  CHECK(goodput(llama, 16384, 0).mttf_seconds / 3600 == Approx(3.09).margin(.005));
}

TEST_CASE("the best interval is the best interval", "[budget]") {
  for (const double rate : {1e-6, 1e-4, 1e-2})
    for (const double block : {1.0, 60.0, 600.0}) {
      const double at = optimal_interval(rate, block), best = segment_goodput(rate, at, block, 300, false);
      for (const double factor : {.5, .9, .999, 1.001, 1.1, 2.0}) CHECK(segment_goodput(rate, factor * at, block, 300, false) < best);
      CHECK(best == Approx((1 - rate * at) / (1 + 300 * rate)).epsilon(1e-12));
    }
  CHECK(segment_goodput(0, 60, 30, 300, false) == Approx(2.0 / 3));
}

TEST_CASE("goodput presets are shares, fall with nodes and with stored parameters", "[budget]") {
  for (const auto& name : goodput_names()) {
    const GoodputModel model = read_goodput(name);
    double last = 2;
    for (const double devices : {8.0, 256.0, 4096.0, 131072.0}) {
      const double value = goodput(model, devices, 3e11).value;
      INFO(name << " " << devices);
      CHECK(value > 0);
      CHECK(value <= 1);
      CHECK(value <= last);
      CHECK(goodput(model, devices, 3e12).value <= value);
      last = value;
    }
  }
  CHECK(goodput(read_goodput("none"), 1e6, 1e15).value == 1);
  CHECK(goodput(read_goodput("llama3"), 16384, 405e9).value > .9);  // the paper reports more than 90 %
  const Goodput tuned = goodput(read_goodput("tuned"), 8960, 405e9);
  CHECK(tuned.save_seconds == Approx(51.06).epsilon(.005));
  CHECK(tuned.restart_seconds - 300 == Approx(129.49).epsilon(.005));
  CHECK(tuned.block_seconds == Approx(.59).epsilon(.01));
}

TEST_CASE("a slow storage limits the interval", "[budget]") {
  GoodputModel model = read_goodput("llama3,storage_write=1e9");
  const Goodput slow = goodput(model, 16384, 405e9);
  CHECK(slow.interval_limited);
  CHECK(slow.interval_seconds == slow.save_seconds);
  CHECK(slow.value < goodput(read_goodput("llama3"), 16384, 405e9).value);
}

TEST_CASE("goodput given as text", "[budget]") {
  CHECK(read_goodput("0.95").constant == .95);
  CHECK(read_goodput("llama3,restart_seconds=1200").restart_seconds == 1200);
  CHECK_THROWS_AS(read_goodput("0"), InputError);
  CHECK_THROWS_AS(read_goodput("1.5"), InputError);
  CHECK_THROWS_AS(read_goodput("nan"), InputError);
  CHECK_THROWS_AS(read_goodput("lama3"), InputError);
  CHECK_THROWS_AS(read_goodput("llama3,restart_second=1"), InputError);
  CHECK_THROWS_AS(read_goodput("llama3,restart_seconds"), InputError);
}

TEST_CASE("critical batch: published check values, no reward for small batches", "[budget]") {
  const CriticalBatch moe = read_critical_batch("moe"), dense = read_critical_batch("dense");
  CHECK(batch_multiplier(moe, 2e10, 1048576) == Approx(1.090455).margin(5e-7));
  CHECK(batch_multiplier(moe, 1e12, 16777216) == Approx(1.290717).margin(5e-7));
  CHECK(2e10 / batch_multiplier(moe, 2e10, 1048576) == Approx(1.83410e10).epsilon(3e-6));
  CHECK(batch_multiplier(moe, 1e12, 4e6) == 1);
  CHECK(batch_multiplier(moe, 1e12, 1) == 1);
  CHECK(dense.coefficient * std::pow(2e10, dense.exponent) == Approx(3.11e6).epsilon(.002));
  CHECK(moe.twenty_percent_coefficient * std::pow(3.072e9, .47) == Approx(5.110e5).epsilon(2e-4));
  CHECK(moe.twenty_percent_coefficient * std::pow(1.48e13, .47) == Approx(2.750e7).epsilon(2e-4));
  double last = 1;
  for (double batch = 1e5; batch < 1e9; batch *= 2) {
    const double m = batch_multiplier(moe, 1e12, batch);
    CHECK(m >= last);
    CHECK(batch_multiplier(moe, 1e12, batch, moe.scale_low) >= m);
    last = m;
  }
  CHECK(batch_notes(moe, 1e10, 1e5).empty());
  CHECK(batch_notes(moe, 1e12, 5e7).front().find("strong warning") == 0);
}

TEST_CASE("repeated data: published effective epochs", "[budget]") {
  const Repetition law = read_repetition();
  const std::pair<double, double> rows[] = {{2, 1.9682}, {4, 3.7257}, {8, 6.6241}, {16, 10.5825}, {40, 15.1675}, {100, 16.3630}};
  for (const auto& [epochs, worth] : rows) CHECK(repeated_tokens(law, epochs, 1) == Approx(worth).margin(5e-5));
  CHECK(repeated_tokens(law, 10, 20) == 10);
  CHECK(repeated_tokens(law, 1e6, 1) == Approx(16.387756));
  CHECK(repetition_notes(law, 3e12, 1e12).empty());
  CHECK(repetition_notes(law, 5e12, 1e12).front().find("note") == 0);
  CHECK(repetition_notes(law, 2e13, 1e12).front().find("warning") == 0);
  // The whole published formula with its own coefficients, two values of the authors' notebook.
  auto authors = [&](double n, double d, double u) {
    const double A = std::exp(6.255414), B = std::exp(7.3049974), E = std::exp(.6254804), x = .3526596, rn = 5.309743;
    const double g = std::pow(x * A / (x * B), 1 / (2 * x)), un = std::min(n, u * g * g), r = std::max(n / un - 1, 0.0);
    return E + A / std::pow(un + un * rn * (1 - std::exp(-r / rn)), x) + B / std::pow(repeated_tokens(law, d, u), x);
  };
  CHECK(authors(6.34e9, 242e9, 25e9) == Approx(2.2256440889984477).margin(2e-7));
  CHECK(authors(8.67e9, 178e9, 25e9) == Approx(2.2269634075087867).margin(2e-7));
}

TEST_CASE("over-training flags", "[budget]") {
  const OvertrainingFlags flags = read_overtraining_flags();
  CHECK(overtraining_notes(flags, 40e9, 1e9).empty());
  CHECK(overtraining_notes(flags, 71e9, 1e9).front().find("note") == 0);
  CHECK(overtraining_notes(flags, 641e9, 1e9).front().find("warning") == 0);
  CHECK(overtraining_notes(flags, 9e9, 1e9).front().find("warning") == 0);
}

TEST_CASE("effective tokens never exceed the trained ones and grow with them", "[budget]") {
  TokenValue value;
  CHECK(effective_tokens(value, 1e12, 1e7) == 1e12);
  value.critical_batch = read_critical_batch("moe");
  value.repetition = read_repetition();
  value.unique_tokens = 2e11;
  double last = 0;
  for (double tokens = 1e10; tokens < 1e13; tokens *= 1.5) {
    const double worth = effective_tokens(value, tokens, 3e7);
    CHECK(worth <= tokens);
    CHECK(worth > last);
    last = worth;
  }
}

TEST_CASE("expected maximum of normals and the busiest rank", "[budget]") {
  const std::pair<int, double> rows[] = {{2, .5642}, {4, 1.0294}, {8, 1.4236}, {16, 1.7660}, {32, 2.0697}, {64, 2.3437}, {128, 2.5946}, {256, 2.8269}};
  for (const auto& [ranks, expected] : rows) CHECK(expected_maximum_normal(ranks) == Approx(expected).margin(5.1e-5));
  CHECK(expected_maximum_normal(2) == Approx(1 / std::sqrt(M_PI)).epsilon(1e-12));
  const ImbalanceModel balanced = read_imbalance("loss-free");
  CHECK(busiest_rank(balanced, 8192, 4, 64) == Approx(1.0539).margin(5e-5));
  CHECK(busiest_rank(balanced, 1024, 32, 8) == Approx(1.0159).margin(5e-5));
  CHECK(busiest_rank(balanced, 8192, 1, 8) == Approx(1.0655).margin(5e-5));
  ImbalanceModel wide = balanced;
  wide.spread = .22;
  CHECK(busiest_rank(wide, 8192, 4, 64) == Approx(1.2585).margin(5e-5));
  CHECK(busiest_rank(balanced, 8192, 4, 1) == 1);
}

TEST_CASE("energy and money turn into windows", "[budget]") {
  const PowerModel h100 = read_power("H100-500W");
  CHECK(h100.name == "H100");
  CHECK(h100.node_watts_per_device * 8 == Approx(10200));
  PowerModel llama = h100;
  llama.pue = 1.08;
  CHECK(energy_kwh(llama, 39.3e6) / 1e6 == Approx(41.1).margin(.05));
  CHECK(device_hours_of_energy(h100, energy_kwh(h100, 123)) == Approx(123));
  Price price = read_price("h100");
  CHECK(price.usd_per_device_hour == 2.27);
  price.usd_per_device_hour = 2.0;
  CHECK(window_of_money(price, 5.576e6, 2048) == Approx(2.788e6 / 2048 * 3600));
  CHECK(window_of_energy(h100, energy_kwh(h100, 24.0 * 256), 256) == Approx(86400));
  CHECK_THROWS_AS(read_power("MI300X"), InputError);
  CHECK_THROWS_AS(read_price("GB300"), InputError);
}
