// Closed forms of a step's makespan on part times given one by one, with point-to-point latency; micro-batches in
// flight; the checks both this file and the simulation rely on. Sections are those of the pipeline schedule notes.
#include <cassert>
#include <cmath>
#include <limits>
#include <string>

#include "model/pipeline_detail.hpp"

namespace tessera {
namespace detail {

void check_shape(Schedule schedule, int pp, int v, std::int64_t n, double overlap) {
  if (pp >= 1 && v >= 1 && n >= 1) {
    const bool legal = schedule == Schedule::interleaved ? n % pp == 0
                       : v != 1                          ? false
                       : schedule == Schedule::dualpipe
                           ? pp % 2 == 0 && n % 2 == 0 && n >= 2 * std::int64_t{pp} && overlap >= 0.0 && overlap <= 1.0
                           : true;
    if (legal) return;
  }
  const std::string shape = "pipeline " + std::string(to_string(schedule)) + " with pp " + std::to_string(pp) +
                            ", virtual stages " + std::to_string(v) + ", micro-batches " + std::to_string(n);
  if (pp < 1 || v < 1 || n < 1) throw InputError(shape, "each must be at least 1", "give positive numbers");
  if (schedule == Schedule::interleaved)
    throw InputError(shape, "interleaving walks groups of pp micro-batches",
                     "choose a number of micro-batches that is a multiple of pp");
  if (v != 1)
    throw InputError(shape, "this schedule has one part per device and path",
                     "set virtual stages to 1 or use the interleaved schedule");
  throw InputError(shape + ", overlap " + std::to_string(overlap),
                   "dualpipe feeds both ends: pp and the micro-batches are even, at least 2 * pp micro-batches, and "
                   "overlap is in 0..1",
                   "use more micro-batches, an even pp, or another schedule");
}

namespace {

void check_times(const std::vector<double>& times, std::size_t expected, const char* name) {
  if (times.size() != expected)
    throw InputError("pipeline times: " + std::to_string(times.size()) + " values of " + name,
                     "the schedule has " + std::to_string(expected) + " parts", "give one value per part");
  for (const double time : times)
    if (!(time >= 0.0) || !std::isfinite(time))
      throw InputError("pipeline times: " + std::string(name) + " holds " + std::to_string(time),
                       "a time is finite and not negative", "correct the stage times");
}

}  // namespace

Parts checked_parts(Schedule schedule, int pp, int v, std::int64_t n, const PipelineTimes& times) {
  check_shape(schedule, pp, v, n, times.overlap);
  const std::size_t size = static_cast<std::size_t>(pp) * static_cast<std::size_t>(v) *
                           (schedule == Schedule::dualpipe ? std::size_t{2} : std::size_t{1});
  check_times(times.forward, size, "forward");
  check_times(times.input_gradient, size, "input_gradient");
  check_times(times.weight_gradient, size, "weight_gradient");
  check_times({times.hop}, 1, "hop");
  Parts parts{schedule, pp, times.forward, times.input_gradient, times.weight_gradient, times.hop};
  if (!times.blocking) return parts;
  // Sender-occupied transfers: the sender works for the time of the hop, the receiver waits for the sender's end.
  for (int s = 0; s < static_cast<int>(size); ++s) {
    const auto i = static_cast<std::size_t>(s);
    if (!parts.last_of_path(s) && parts.device(s + 1) != parts.device(s)) parts.forward[i] += times.hop;
    if (!parts.first_of_path(s) && parts.device(s - 1) != parts.device(s)) parts.input_gradient[i] += times.hop;
  }
  parts.hop = 0.0;
  return parts;
}

void check_zb_h1(int pp, std::int64_t n) {
  if (n >= pp) return;
  throw InputError("pipeline zb-h1 with pp " + std::to_string(pp) + ", micro-batches " + std::to_string(n),
                   "the closed form needs a full warm-up: at least pp micro-batches",
                   "use more micro-batches, fewer stages, or simulate_pipeline()");
}

void check_simulation_size(std::size_t parts, std::int64_t n) {
  constexpr std::int64_t kMostNodes = std::int64_t{1} << 27;  // ~10 GB of operations and end times
  if (n > kMostNodes / static_cast<std::int64_t>(parts))
    throw InputError("pipeline simulation of " + std::to_string(parts) + " parts and " + std::to_string(n) +
                         " micro-batches",
                     "its tables grow with parts times micro-batches", "use the closed form, whose cost does not");
}

}  // namespace detail

namespace {

using detail::Parts;

/// Sums, prefix maxima and warm-up of a linear placement. Sums include their index.
struct Chain {
  int p;
  std::int64_t n;
  const std::vector<double>&f, &b;  // b: the gradient that travels up the chain
  double x;                         // latency of a hop
  std::vector<double> sum_f, sum_b, max_f, max_b;

  Chain(int pp, std::int64_t batches, const std::vector<double>& forward, const std::vector<double>& backward,
        double hop)
      : p(pp), n(batches), f(forward), b(backward), x(hop) {
    double sf = 0, sb = 0, mf = 0, mb = 0;
    for (std::size_t i = 0; i < f.size(); ++i) {
      sum_f.push_back(sf += f[i]), sum_b.push_back(sb += b[i]);
      max_f.push_back(mf = std::max(mf, f[i])), max_b.push_back(mb = std::max(mb, b[i]));
    }
  }
  static std::size_t at(int k) { return static_cast<std::size_t>(k); }
  double before_f(int k) const { return sum_f[at(k)] - f[at(k)]; }
  double before_b(int k) const { return sum_b[at(k)] - b[at(k)]; }
  std::int64_t warm_up(int j) const { return std::min<std::int64_t>(p - 1 - j, n - 1); }
  /// Start of the step -> just before the first backward of stage k, for all k (section 3.2, A_k).
  std::vector<double> heads() const {
    std::vector<double> head(f.size());
    double best = 0;
    for (int k = p - 1; k >= 0; --k) {
      best = std::max(best, sum_f[at(k)] + static_cast<double>(warm_up(k)) * max_f[at(k)] + sum_b[at(k)] + 2.0 * k * x);
      head[at(k)] = best - sum_b[at(k)] - k * x;
    }
    return head;
  }
};

/// Section 3.2 with its loop paths. O(p) without latency, O(p^2) with.
double makespan_1f1b(int p, std::int64_t n, const Parts& parts) {
  std::vector<double> full = parts.input_gradient;
  for (std::size_t i = 0; i < full.size(); ++i) full[i] += parts.weight_gradient[i];
  const Chain c(p, n, parts.forward, full, parts.hop);
  const auto at = Chain::at;
  const std::vector<double> head = c.heads();
  double makespan = 0, best_tail = 0;
  for (int k = p - 1; k >= 0; --k) {
    const auto u = static_cast<double>(c.warm_up(k));
    best_tail = std::max(best_tail, c.sum_f[at(k)] + c.sum_b[at(k)] + u * c.max_b[at(k)] + 2.0 * k * c.x);
    const double tail = best_tail - c.sum_f[at(k)] - k * c.x;  // C_k
    const double step = c.f[at(k)] + c.b[at(k)];
    const double last_way_up = c.sum_b[at(k)] + u * c.max_b[at(k)] + k * c.x;
    const std::int64_t steady = n - 1 - c.warm_up(k);
    if (steady < 1) {
      makespan = std::max({makespan, c.sum_f[at(k)] + u * c.max_f[at(k)] + k * c.x + tail, head[at(k)] + last_way_up});
      continue;
    }
    makespan = std::max(makespan, head[at(k)] + static_cast<double>(steady) * step + tail);
    if (c.x == 0.0) continue;
    // With latency the round trip over stages k..j takes longer than the work of one device: count round trips.
    auto loop = [&](int j) { return c.sum_f[at(j)] - c.before_f(k) + c.sum_b[at(j)] - c.before_b(k) + 2.0 * (j - k) * c.x; };
    for (int j = k + 1; j < p; ++j) {
      const std::int64_t length = j - k + 1, loops = (steady - 1) / length, rest = steady - loops * length;
      double end = static_cast<double>(rest) * step;
      if (rest > 1 && k + rest - 2 < p) end = std::max(end, loop(k + static_cast<int>(rest) - 2) + step);
      makespan = std::max(makespan, head[at(k)] + static_cast<double>(loops) * loop(j) + end + tail);
      if (steady % length == 0)
        makespan = std::max(makespan, head[at(k)] + static_cast<double>(steady / length) * loop(j) + last_way_up);
    }
  }
  return makespan;
}

/// Section 3.3 for h = 1. Precondition n >= p, so warm-up is p-1-j and the lag of weight gradients is j everywhere.
class ZbH1 {
 public:
  ZbH1(int p, std::int64_t n, const Parts& parts)
      : c_(p, n, parts.forward, parts.input_gradient, parts.hop), w_(parts.weight_gradient), head_(c_.heads()) {
    double best = -std::numeric_limits<double>::infinity();
    for (int j = 0; j < p; ++j) {  // UP_j: last input gradient up the chain to i, then the weight gradients left there
      best = std::max(best, (j + 1) * w_[at(j)] - c_.before_b(j) - j * c_.x);
      up_.push_back(c_.before_b(j) + j * c_.x + best);
    }
    tail_.resize(up_.size());
    best = 0;
    for (int k = p - 1; k >= 0; --k) {  // E_k: just after the last forward of stage k -> end
      const double left = p - 1 - k;
      best = std::max(best, c_.sum_f[at(k)] + k * c_.x + (left + 1) * c_.b[at(k)] + left * w_[at(k)] + up_[at(k)]);
      tail_[at(k)] = best - c_.sum_f[at(k)] - k * c_.x;
    }
  }

  double makespan() const {
    double longest = 0;
    for (int k = 0; k < c_.p; ++k) longest = std::max({longest, steady_at(k), change_down(k), change_up(k)});
    return longest;
  }

 private:
  static std::size_t at(int k) { return static_cast<std::size_t>(k); }
  double step(int k) const { return c_.f[at(k)] + c_.b[at(k)]; }
  double count_with_weight(std::int64_t from, std::int64_t steps, int k) const {  // steps at or after the lag k
    return static_cast<double>(std::clamp<std::int64_t>(from + steps - k, 0, steps));
  }

  /// Paths that stay on stage k between its first backward and its last forward.
  double steady_at(int k) const {
    const std::int64_t steady = c_.n - 1 - c_.warm_up(k);
    if (steady < 1)
      return std::max(head_[at(k)] + c_.b[at(k)] + up_[at(k)],
                      c_.sum_f[at(k)] + static_cast<double>(c_.warm_up(k)) * c_.max_f[at(k)] + k * c_.x + tail_[at(k)]);
    auto singles = [&](std::int64_t from, std::int64_t steps) {
      return static_cast<double>(steps) * step(k) + count_with_weight(from, steps, k) * w_[at(k)];
    };
    double longest = head_[at(k)] + singles(0, steady) + tail_[at(k)];
    if (c_.x == 0.0) return longest;
    auto loop = [&](int j) {
      return c_.sum_f[at(j)] - c_.before_f(k) + c_.sum_b[at(j)] - c_.before_b(k) + 2.0 * (j - k) * c_.x;
    };
    for (int j = k + 1; j < c_.p; ++j) {  // round trips over stages k..j, each starting one weight gradient later
      const std::int64_t length = j - k + 1, loops = (steady - 1) / length, rest = steady - loops * length;
      const std::int64_t before_lag = std::min<std::int64_t>((k + length - 1) / length, loops);
      double end = singles(loops * length, rest);
      if (rest > 1 && k + rest - 2 < c_.p) {
        const std::int64_t from = loops * length;
        end = std::max(end, loop(k + static_cast<int>(rest) - 2) + count_with_weight(from, 1, k) * w_[at(k)] +
                                singles(from + rest - 1, 1));
      }
      longest = std::max(longest, head_[at(k)] + static_cast<double>(loops) * loop(j) +
                                      static_cast<double>(loops - before_lag) * w_[at(k)] + end + tail_[at(k)]);
    }
    return longest;
  }

  /// Stage k before its first weight gradient, then down to the steady state of a stage a >= k.
  double change_down(int k) const {
    if (c_.n <= c_.p) return 0.0;
    const double start = k == 0 ? c_.f[0] * c_.p : head_[at(k)] + k * step(k);
    double longest = 0;
    for (int a = k; a < c_.p; ++a)
      longest = std::max(longest, start + c_.sum_f[at(a)] - c_.sum_f[at(k)] + (a - k) * c_.x +
                                      static_cast<double>(c_.n - c_.p) * (step(a) + w_[at(a)]) + tail_[at(a)]);
    return longest;
  }

  /// The same, then up the chain of input gradients to the steady state of a stage a < k.
  double change_up(int k) const {
    double longest = 0;
    for (int a = 0; a < k; ++a) {
      const std::int64_t steps = c_.n - c_.p - k + a;
      if (steps < 1) continue;
      longest = std::max(longest, head_[at(k)] + k * step(k) + c_.b[at(k)] + c_.before_b(k) - c_.before_b(a) +
                                      (k - a) * c_.x + static_cast<double>(steps) * (c_.f[at(a)] + w_[at(a)]) +
                                      static_cast<double>(steps - 1) * c_.b[at(a)] + tail_[at(a)]);
    }
    return longest;
  }

  Chain c_;
  const std::vector<double>& w_;
  std::vector<double> head_, up_, tail_;
};

/// Section 3.4, the lower bound LB.
double makespan_interleaved(int p, int v, std::int64_t n, const Parts& parts) {
  std::vector<double> full = parts.input_gradient;
  for (std::size_t i = 0; i < full.size(); ++i) full[i] += parts.weight_gradient[i];
  const auto at = Chain::at;
  const Chain c(p * v, n, parts.forward, full, parts.hop);
  const int size = p * v, last_chunk = (v - 1) * p;
  const double all_f = c.sum_f.back(), all_b = c.sum_b.back();
  double makespan = all_f + all_b + 2.0 * (size - 1) * c.x;
  for (int d = 0; d < p; ++d) {
    double device_f = 0, device_b = 0;
    for (int s = d; s < size; s += p) device_f += c.f[at(s)], device_b += c.b[at(s)];
    const int s = last_chunk + d;
    // Of the first warm_up + 1 slots, (v-1)p hold the chunks before the last, then up to p the last one, then the
    // next group's first chunk (there is none when n == p).
    const int slots = 2 * (p - 1 - d) + 1, of_last = std::min(slots, p), of_first = n == p ? 0 : slots - of_last;
    const double warm_f = p * (device_f - c.f[at(s)]) + of_last * c.f[at(s)] + of_first * c.f[at(d)];
    const double warm_b = p * (device_b - c.b[at(s)]) + of_last * c.b[at(s)] + of_first * c.b[at(d)];
    const double round_trip = (2.0 * size - 2 - s) * c.x;
    const double h1 = c.before_f(d) + d * c.x + (p - 1) * (c.max_f[at(d)] - c.f[at(d)]);
    const double h2 = all_f + all_b - c.sum_b[at(s)] + round_trip - warm_f;
    const double t1 = c.before_b(d) + d * c.x + (p - 1) * (c.max_b[at(d)] - c.b[at(d)]);
    const double t2 = all_b + all_f - c.sum_f[at(s)] + round_trip - warm_b;
    const bool all_warm_up = n == p && slots >= p;  // every forward runs before the first backward
    const double ends = all_warm_up ? std::max(h1 + std::max(t1, t2), std::max(h1, h2) + t1)
                                    : std::max(h1, h2) + std::max(t1, t2);
    makespan = std::max(makespan, static_cast<double>(n) * (device_f + device_b) + ends);
  }
  return makespan;
}

}  // namespace

double pipeline_makespan(Schedule schedule, int pp, int virtual_stages, std::int64_t n, const PipelineTimes& times) {
  const Parts parts = detail::checked_parts(schedule, pp, virtual_stages, n, times);
  switch (schedule) {
    case Schedule::one_f_one_b: return makespan_1f1b(pp, n, parts);
    case Schedule::interleaved: return makespan_interleaved(pp, virtual_stages, n, parts);
    case Schedule::zb_h1: detail::check_zb_h1(pp, n); return ZbH1(pp, n, parts).makespan();
    case Schedule::dualpipe: break;
  }
  return detail::dualpipe_makespan(n, parts, times.overlap);
}

double in_flight(Schedule schedule, int pp, int virtual_stages, std::int64_t n, int stage) {
  assert(pp >= 1 && stage >= 0 && stage < pp && n >= 1 && virtual_stages >= 1);
  if (pp == 1) return 1.0;
  switch (schedule) {
    case Schedule::one_f_one_b:
    case Schedule::zb_h1: return static_cast<double>(std::min<std::int64_t>(pp - stage, n));
    case Schedule::interleaved: {
      const std::int64_t chunks = 2 * (pp - 1 - stage) + std::int64_t{virtual_stages - 1} * pp + 1;
      return static_cast<double>(std::min(chunks, n * virtual_stages)) / virtual_stages;
    }
    case Schedule::dualpipe: return static_cast<double>(std::min<std::int64_t>(pp + 1, n));
  }
  return 0.0;
}

double deferred_in_flight(Schedule schedule, int pp, std::int64_t n, int stage) {
  assert(pp >= 1 && stage >= 0 && stage < pp && n >= 1);
  if (schedule != Schedule::zb_h1) return 0.0;
  return static_cast<double>(std::min<std::int64_t>(pp, n) - std::min<std::int64_t>(pp - stage, n));
}

}  // namespace tessera
