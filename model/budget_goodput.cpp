// Failures, checkpoints and restarts. With memoryless failures of rate λ every stretch of D seconds of work and w
// seconds of saving ends in success with probability exp(-λ(D+w)) and is tried again after a restart of u
// seconds; its expected time is (1/λ + u)(exp(λ(D+w)) - 1), so goodput is exact and never negative, where the
// first-order form (1 - λ(u + D/2))/(1 + w/D) falls below zero on large machines.
#include <algorithm>
#include <cmath>

#include "tessera/budget.hpp"
#include "tessera/units.hpp"

namespace tessera {

double optimal_interval_root(double a) {
  if (!(a > 0)) return 0;
  // The small-a start is the root of the quadratic expansion, the other the first fixed-point step from 1.
  double x = a < 0.5 ? std::sqrt(2 * a) : 1 - std::exp(-1 - a);
  for (int step = 0; step < 50; ++step) {
    const double tail = std::expm1(-x - a);
    const double next = x + (x + tail) / tail;
    if (std::abs(next - x) <= 1e-15 * next) return next;
    x = next;
  }
  return x;
}

double optimal_interval(double rate, double block_seconds) {
  return optimal_interval_root(rate * block_seconds) / rate;
}

double segment_goodput(double rate, double interval, double block, double restart, bool restart_can_fail) {
  if (rate <= 0) return interval + block > 0 ? interval / (interval + block) : 1;
  const double exponent = rate * (interval + block);
  const double useful = exponent > 0 ? rate * interval / std::expm1(exponent) : 1;
  return restart_can_fail ? useful * std::exp(-rate * restart) : useful / (1 + rate * restart);
}

Goodput goodput(const GoodputModel& model, double devices, double total_parameters) {
  Goodput out;
  if (!model.modelled) {
    out.value = model.constant;
    return out;
  }
  out.checkpoint_bytes = model.bytes_per_parameter * total_parameters;
  double write = model.storage_write;
  if (model.device_write > 0) write = write > 0 ? std::min(write, devices * model.device_write) : devices * model.device_write;
  out.save_seconds = write > 0 ? out.checkpoint_bytes / write : 0;
  const double copy = model.device_copy > 0 ? out.checkpoint_bytes / (devices * model.device_copy) : 0;
  out.block_seconds = model.blocking_seconds + (model.asynchronous ? copy : out.save_seconds);
  out.restart_seconds = model.restart_seconds + (model.storage_read > 0 ? out.checkpoint_bytes / model.storage_read : 0);
  const double rate = (devices * model.failures_per_device_day + model.failures_per_job_day) / kSecondsPerDay;
  if (rate > 0) {
    out.mttf_seconds = 1 / rate;
    out.interval_seconds = optimal_interval(rate, out.block_seconds);
    // A save that runs in the background must end before the next one starts.
    if (model.asynchronous && out.interval_seconds < out.save_seconds) {
      out.interval_seconds = out.save_seconds;
      out.interval_limited = true;
    }
    out.value = segment_goodput(rate, out.interval_seconds, out.block_seconds, out.restart_seconds, model.restart_can_fail);
  }
  out.value *= 1 - model.other_losses;
  return out;
}

}  // namespace tessera
