#include "model/kernels.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace tessera {
namespace {

// Next whole number; std::ceil is a call where the instruction set has no rounding. Precondition: 0 <= x < 2^62.
double up(double x) {
  const double whole = double(static_cast<std::int64_t>(x));
  return whole < x ? whole + 1 : whole;
}

double tile_rate(const Device& d, double rows, double columns) {
  const double a = rows * columns / (rows + columns);
  return a / (a + d.gemm_tile_half);
}

}  // namespace

double streaming_rate(const Device& d) { return d.hbm_bandwidth * d.hbm_share; }

double format_ratio(const Device& d, Precision p) {
  switch (p) {
    case Precision::bf16: return 1.0;
    case Precision::nvfp4: return d.fp4_ratio;
    default: return d.fp8_ratio;
  }
}

double operand_bytes(const Stack& s, Precision p) {
  switch (p) {
    case Precision::bf16: return s.operand_bytes_bf16;
    case Precision::fp8: return s.operand_bytes_fp8;
    case Precision::mxfp8: return s.operand_bytes_mxfp8;
    case Precision::nvfp4: return s.operand_bytes_nvfp4;
  }
  return s.operand_bytes_bf16;
}

double gemm_seconds(const Device& d, double m, double n, double k, double ratio, double bytes_per_element) {
  const double per_sm = d.peak_bf16 / d.sms * d.gemm_ceiling * ratio;
  const double stream = streaming_rate(d);
  double best = std::numeric_limits<double>::infinity();
  for (const Tile& tile : d.gemm_tiles) {
    const double count = up(m / tile.rows) * up(n / tile.columns);
    const double rate = per_sm * tile_rate(d, tile.rows, tile.columns);
    for (double split = 1; split <= 8; split *= 2) {
      const double depth = up(k / split / d.gemm_depth_step) * d.gemm_depth_step + d.gemm_depth;
      double t = up(count * split / d.sms) * 2 * tile.rows * tile.columns * depth / rate;
      if (split > 1) t += d.gemm_split_seconds + m * n * 8 * split / stream;
      best = std::min(best, t);
      if (count >= 2 * d.sms) break;  // splitting K cannot help a grid of several waves
    }
  }
  const double bytes = (m * k + k * n) * bytes_per_element + 2 * m * n;
  return std::max(best, bytes / stream) + d.kernel_gap;
}

double grouped_flop_seconds(const Device& d, double ratio) {
  return 1 / (d.peak_bf16 * d.gemm_ceiling * ratio * tile_rate(d, d.grouped_tile.rows, d.grouped_tile.columns));
}

double grouped_gemm_seconds(const Device& d, double groups, double m, double n, double k, double ratio,
                            double bytes_per_element, double accumulated_bytes) {
  const Tile tile = d.grouped_tile;
  const double rate = d.peak_bf16 / d.sms * d.gemm_ceiling * ratio * tile_rate(d, tile.rows, tile.columns);
  const double count = groups * up(m / tile.rows) * up(n / tile.columns);
  const double depth = up(k / d.gemm_depth_step) * d.gemm_depth_step + d.gemm_depth;
  const double compute = up(count / d.sms) * 2 * tile.rows * tile.columns * depth / rate;
  const double output = accumulated_bytes > 0 ? accumulated_bytes : 2.0;
  const double bytes = groups * ((m * k + k * n) * bytes_per_element + output * m * n);
  return std::max(compute, bytes / streaming_rate(d)) + d.kernel_gap;
}

AttentionSeconds flash_attention_seconds(const Device& d, const Stack& s, double flop, double local_length,
                                         double head_width, bool low_precision) {
  double forward_rate = s.attention_hopper, backward_rate = s.attention_backward_hopper;
  if (d.generation == Generation::ampere) forward_rate = s.attention_ampere, backward_rate = s.attention_backward_ampere;
  if (d.generation == Generation::blackwell)
    forward_rate = s.attention_blackwell, backward_rate = s.attention_backward_blackwell;
  if (low_precision && s.fp8_attention) forward_rate *= s.fp8_attention_rate, backward_rate *= s.fp8_attention_rate;
  const bool narrow = head_width <= 64;
  const double padded = 16 * up(head_width / 16);
  const double ramp = local_length / (local_length + d.attention_half_length) * head_width / padded;
  const double forward = (narrow ? d.attention_forward_64 : d.attention_forward) * forward_rate * ramp;
  const double backward = (narrow ? d.attention_backward_64 : d.attention_backward) * backward_rate * ramp;
  constexpr double kBackwardWork = 2.5;  // five GEMMs against two
  return {flop / (d.peak_bf16 * forward) + d.kernel_gap, kBackwardWork * flop / (d.peak_bf16 * backward) + d.kernel_gap};
}

AttentionSeconds unfused_attention_seconds(const Device& d, const Stack& s, double elements, double head_width) {
  const bool aligned = std::fmod(head_width, 8.0) == 0.0;
  const double share = aligned ? d.gemm_ceiling * tile_rate(d, 128, 128) * head_width / (head_width + d.gemm_depth)
                               : d.misaligned_gemm;
  const double rate = d.peak_bf16 * share, stream = streaming_rate(d);
  return {4 * elements * head_width / rate + elements * s.score_bytes / stream,
          8 * elements * head_width / rate + elements * s.score_backward_bytes / stream};
}

}  // namespace tessera
