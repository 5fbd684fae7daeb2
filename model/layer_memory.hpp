// Parameters and saved tensors of a layer on one rank. memory-and-space.md section A, tensor by tensor.
#pragma once
#include "model/layer_profile.hpp"

namespace tessera {

/// Parameters on a rank. `dense` are divided by tp (norms, router and latent down-projections whole), `expert` by
/// ep*etp.
struct LayerParameters {
  double dense = 0, expert = 0;
  double total() const { return dense + expert; }
};
double expert_parameters(const Architecture&, int ep, int etp);
LayerParameters layer_parameters(const Architecture&, const Shard&, bool moe);

/// Parameters of the embedding (or head) on a rank, vocabulary padded.
double embedding_parameters(const Architecture&, int tp);

/// Bytes of a layer and micro-batch.
struct LayerMemory {
  LayerParameters parameters;
  double saved = 0;           ///< kept from forward to backward in this recomputation mode
  double saved_whole = 0;     ///< the same without recomputation: exists while the layer is recomputed
  double weight_inputs = 0;   ///< what the weight gradients alone need (split backward)
  double backward = 0;        ///< transient of the layer's backward
  double attention_buffers = 0;  ///< of `buffers`, those of attention's weights
  double buffers = 0;         ///< one 16-bit dummy gradient per distinct weight shape (fused accumulation)
};
LayerMemory layer_memory(const Setting&, const Shard&, bool moe, unsigned modules);

/// Working set of the last stage's head and loss.
double head_memory(const Setting&, const Shard&);
/// 16-bit gradient of the embedding before it is accumulated.
double embedding_memory(const Setting&, const Shard&);

}  // namespace tessera
