// Seconds of the pieces of a layer on one rank and micro-batch, and how they make up a layer. A piece depends on few
// digits of a plan, so a search keeps a table of each: attention and dense FFN (tp, cp, micro-batch), experts
// (tp, cp, ep, etp, micro-batch).
#pragma once
#include <cstdint>

#include "model/seconds.hpp"
#include "tessera/architecture.hpp"
#include "tessera/cluster.hpp"
#include "tessera/plan.hpp"

namespace tessera {

/// What every piece looks at.
struct Setting {
  const Architecture* architecture;
  const Cluster* cluster;
  std::int64_t sequence;
  Precision precision;
};

/// The digits a piece depends on.
struct Shard {
  int tp = 1, cp = 1, ep = 1, etp = 1, micro_batch = 1;
};

/// A piece of a layer with what recomputation and overlap need to know of it.
struct Piece {
  Work work;                  ///< without recomputation, expert exchange and host
  double exchange = 0;        ///< the two all-to-alls of one direction [s] (experts)
  double last_gemm = 0;       ///< forward of the last GEMM [s]: an early stop does not recompute it
  double gemm_forward = 0;    ///< forward GEMMs [s]
  double core_attention = 0;  ///< forward of the scores [s]
  double latent_up = 0;       ///< forward of the MLA up-projections [s]
  double norms = 0;           ///< forward of the piece's norm [s]
  double activation = 0;      ///< forward of the routed experts' activation [s]
  double shared_forward = 0, shared_backward = 0;  ///< GEMMs of the shared expert [s]
  double local_experts = 0;   ///< experts on the rank (host launches)
};

Piece attention_piece(const Setting&, const Shard&);
Piece dense_ffn_piece(const Setting&, const Shard&);
Piece expert_piece(const Setting&, const Shard&);

/// A whole layer: pieces, exposed exchange, recomputation, host (max(GPU, host) + serial share * min for MoE
/// layers; moe-step-time.md section 3). `overlapped`: the schedule hides the expert exchange (DualPipe).
Work layer_work(const Setting&, const Piece& attention, const Piece& ffn, bool moe, unsigned modules, bool overlapped);

/// Embedding (first stage) and final norm, head and loss (last stage, once per output).
Work embedding_work(const Setting&, const Shard&);
Work head_work(const Setting&, const Shard&);

/// Time the device idles per micro-batch and stage because the stack synchronises at every stage boundary while
/// its experts are spread (moe-step-time.md section 4); added to the backward.
double stage_coupling(const Setting&, const Shard&, int pp, const Work& moe_layer);

/// Tokens of a micro-batch on a rank, b*s/cp, and under sequence parallelism.
double local_tokens(const Setting&, const Shard&);
double split_tokens(const Setting&, const Shard&);

/// Vocabulary padded to a multiple of 128*tp, per rank.
double padded_vocabulary(const Architecture&, int tp);

}  // namespace tessera
