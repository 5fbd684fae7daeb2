// DualPipe's closed form (pipeline_forms.hpp) with different directions, and what latency adds.
#include <algorithm>

#include "model/pipeline_detail.hpp"
#include "model/pipeline_forms.hpp"

namespace tessera::detail {
namespace {

double mean(const std::vector<double>& times) {
  double sum = 0;
  for (const double time : times) sum += time;
  return sum / static_cast<double>(times.size());
}

/// What latency adds: the terms of section 3.1 at the mean stage, with the steady state's term taken over the
/// slowest loop. A chunk is one operation, so a pair of micro-batches that goes to and fro between devices i..j
/// costs the chunks of those devices and two hops an edge; what that is above the slowest device is paid n/2 times.
double dualpipe_latency(std::int64_t n, const Parts& parts, double overlap) {
  const auto p = static_cast<std::size_t>(parts.pp);
  const double x = parts.hop, half = static_cast<double>(p / 2);
  const double f = mean(parts.forward), b = mean(parts.input_gradient), w = mean(parts.weight_gradient);
  std::vector<double> pair(p);  // both overlapped chunks of device d
  for (std::size_t d = 0; d < p; ++d) {
    const std::size_t other = 2 * p - 1 - d;
    pair[d] = overlapped_chunk(parts.forward[d], parts.input_gradient[other] + parts.weight_gradient[other], overlap) +
              overlapped_chunk(parts.forward[other], parts.input_gradient[d] + parts.weight_gradient[d], overlap);
  }
  const double device = *std::max_element(pair.begin(), pair.end());
  double loop = device;
  for (std::size_t i = 0; i < p; ++i) {
    double sum = 0;
    for (std::size_t j = i; j < p; ++j) {
      sum += pair[j];
      const auto hops = static_cast<double>(j - i);
      loop = std::max(loop, (sum + 2.0 * hops * x) / (hops + 1.0));
    }
  }
  const double start = std::max(half * f, (half - 1) * (b + x)) - std::max(half * f, (half - 1) * b);
  const double end = (half - 1) * (std::max(b + x, w) - std::max(b, w));
  return 2.0 * (half - 1) * x + start + end + static_cast<double>(n) / 2.0 * (loop - device);
}

}  // namespace

double dualpipe_makespan(std::int64_t n, const Parts& parts, double overlap) {
  const auto p = static_cast<std::size_t>(parts.pp);
  RunPieces<double> straight(p), reversed(p);
  for (std::size_t i = 0; i < p; ++i) {
    straight.add(1, parts.forward[i], parts.input_gradient[i], parts.weight_gradient[i]);
    reversed.add(1, parts.forward[p + i], parts.input_gradient[p + i], parts.weight_gradient[p + i]);
  }
  const double longest = std::max(DualPipeSide<double>(parts.pp, n, straight, reversed, overlap).makespan(),
                                  DualPipeSide<double>(parts.pp, n, reversed, straight, overlap).makespan());
  return parts.hop == 0.0 ? longest : longest + dualpipe_latency(n, parts, overlap);
}

}  // namespace tessera::detail
