// Seconds of single kernels on a device. Forms: moe-step-time.md section 2, dense-step-time.md section 4.
#pragma once
#include "tessera/cluster.hpp"

namespace tessera {

/// Achieved HBM rate of streaming kernels [B/s].
double streaming_rate(const Device&);

/// Sustained GEMM rate of a format over the bf16 rate.
double format_ratio(const Device&, Precision);

/// Bytes per element of a GEMM operand in a format.
double operand_bytes(const Stack&, Precision);

/// Dense GEMM [M,K]x[K,N]: the slower of tile- and wave-quantised compute (tiles, split-K) and operand traffic,
/// plus the gap between kernels. M, N, K >= 1 elements. Section 2.1 with the in-training ceiling.
double gemm_seconds(const Device&, double m, double n, double k, double ratio, double bytes_per_element);

/// Seconds per FLOP of grouped_gemm_seconds() where every tile and wave is full: its lower bound.
double grouped_flop_seconds(const Device&, double ratio);

/// `groups` GEMMs of the same shape in one launch (local experts), tiles pooled over the groups.
/// `accumulated_bytes` is what one output element of a weight gradient moves (read and write of the main
/// gradient); 0 for activations (2 B written).
double grouped_gemm_seconds(const Device&, double groups, double m, double n, double k, double ratio,
                            double bytes_per_element, double accumulated_bytes);

struct AttentionSeconds {
  double forward, backward;
};
/// Flash attention. `flop` is the forward work of the causal half square [FLOP] per rank, `local_length` the tokens
/// of a sequence on one context-parallel rank, `head_width` the value width.
AttentionSeconds flash_attention_seconds(const Device&, const Stack&, double flop, double local_length, double head_width,
                                         bool low_precision);

/// Attention with the score matrix in memory (before flash kernels): batched GEMMs of the full square plus passes
/// over `elements` = batch * heads * s^2 scores.
AttentionSeconds unfused_attention_seconds(const Device&, const Stack&, double elements, double head_width);

}  // namespace tessera
