// Energy, money and the load of the busiest expert-parallel rank.
#include <cmath>

#include "tessera/budget.hpp"
#include "tessera/units.hpp"

namespace tessera {

double expected_maximum_normal(std::int64_t count) {
  if (count <= 1) return 0;
  // E max = integral of x d(Phi(x)^n). Simpson over ±9 sd: the rest is below 1e-16 for any count up to 1e9.
  const double reach = 9.0, n = static_cast<double>(count);
  constexpr int kIntervals = 3600;
  const double step = 2 * reach / kIntervals;
  double sum = 0;
  for (int i = 0; i <= kIntervals; ++i) {
    const double x = -reach + i * step;
    const double density = std::exp(-x * x / 2) / std::sqrt(2 * M_PI);
    const double below = std::erfc(-x / std::sqrt(2.0)) / 2;
    const double value = x * n * density * std::exp((n - 1) * std::log(below));
    sum += value * (i == 0 || i == kIntervals ? 1 : i % 2 == 1 ? 4 : 2);
  }
  return sum * step / 3;
}

double busiest_rank(const ImbalanceModel& model, double tokens_per_expert, double experts_per_rank, std::int64_t ranks) {
  if (ranks <= 1 || !(tokens_per_expert > 0) || !(experts_per_rank > 0)) return 1;
  const double variance = model.spread * model.spread + model.phi / tokens_per_expert;
  return 1 + expected_maximum_normal(ranks) * std::sqrt(variance / experts_per_rank);
}

double energy_kwh(const PowerModel& power, double device_hours) {
  return device_hours * power.node_watts_per_device * power.load * power.pue / 1000.0;
}
double device_hours_of_energy(const PowerModel& power, double kwh) { return kwh / energy_kwh(power, 1.0); }

double window_of_money(const Price& price, double usd, double devices) {
  return usd / price.usd_per_device_hour / devices * 3600.0;
}
double window_of_energy(const PowerModel& power, double kwh, double devices) {
  return device_hours_of_energy(power, kwh) / devices * 3600.0;
}

}  // namespace tessera
