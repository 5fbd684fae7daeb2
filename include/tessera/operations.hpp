// What the operations of a transformer move and keep, counted op by op: traffic of kernels that stream memory and bytes
// that a training graph saves. Counts, not fits; the values with unit and source are those of the preset stacks/base, which
// every stack extends. Stacks that fuse less scale the traffic (Stack::pointwise_factor, moe_pointwise_factor).
#pragma once

namespace tessera {

struct Operations {
  // Traffic per token and element of the width that is named [B].
  double norm_residual_bytes = 0;       ///< hidden width, a whole layer: two norms, two residual additions; as much backward
  double norm_bytes = 0;                ///< hidden width: one norm forward, where it is recomputed
  double rotary_bytes = 0;              ///< widths of queries and keys, each direction
  double qk_norm_bytes = 0;             ///< the same, of norms on queries and keys
  double latent_bytes = 0;              ///< MLA, latent widths: norms and splits, forward
  double latent_head_bytes = 0;         ///< MLA, widths of all heads: splits and concatenations, forward
  double router_bytes = 0;              ///< experts: logits, top-k and probabilities, forward
  double router_hidden_bytes = 0;       ///< hidden width, once a token: un-permutation and router input, forward
  double permute_bytes = 0;             ///< hidden width, each of the K copies: permutations around the exchange, forward
  double permute_backward = 0;          ///< backward over forward traffic of routing, permutes and latent splits [1]
  double expert_activation_bytes = 0, expert_activation_backward_bytes = 0;      ///< expert width, fused gate
  double stepwise_activation_bytes = 0, stepwise_activation_backward_bytes = 0;  ///< the same, one kernel an operation
  double shared_activation_bytes = 0, shared_activation_backward_bytes = 0;      ///< width of the shared expert
  double cast_bytes = 0;                ///< elements brought to a narrow format: read, row- and column-wise copy written
  double embedding_bytes = 0;           ///< hidden width: gather, write, and the scatter-add backward
  double ring_merge_bytes = 0;          ///< attention output, each step of a context-parallel ring: rescale and add
  double score_bytes = 0, score_backward_bytes = 0;  ///< each score of attention that keeps its scores
  double optimizer_traffic_bytes = 0;   ///< each parameter of an Adam update
  double orthogonal_products = 0;       ///< matrix products of Newton-Schulz iterations (Muon, Scion) [1]
  // Width of a GEMM operand, with the scales of its block [B].
  double operand_bytes_bf16 = 0, operand_bytes_fp8 = 0, operand_bytes_mxfp8 = 0, operand_bytes_nvfp4 = 0;
  // Shares [1].
  double low_precision_gather = 0;      ///< tensor-parallel bytes of an 8-bit run over bf16: 8-bit gathers, bf16 scatters
  double loss_forward_share = 0;        ///< forward part of the loss kernel's passes
  double exchange_floor = 0;            ///< of an expert exchange beside the shared expert: what nothing hides
  // Bytes that a training graph saves.
  double router_saved_bytes = 0;        ///< each expert and token: logits, scores, probabilities; boolean map
  double row_saved_bytes = 0;           ///< each routed row: permuted probability and row map
  double score_saved_bytes = 0;         ///< each score of attention that keeps its scores
  double eight_bit_input_bytes = 0;     ///< an element of a linear's input saved in 8 bits, with its scale
  double long_context_tokens = 0;       ///< tokens on a rank from which Stack::fragmentation_long counts
};

}  // namespace tessera
