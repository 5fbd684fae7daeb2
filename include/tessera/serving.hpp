// A model where it is served: memory of its weights and of its caches, and the limits that a planner puts on
// both. Caches are counted from what each kind of layer has to keep of the tokens it has seen. The sizes of
// the formats come from a preset (io/serving_reader.hpp).
#pragma once
#include <cstdint>
#include <optional>

#include "tessera/architecture.hpp"

namespace tessera {

/// How a model is served.
struct ServingLoad {
  double weight_bytes = 0;   ///< [B] of a stored weight, its share of scales included; 0: not stated
  double cache_bytes = 0;    ///< [B] of an element of a key, value or latent
  double state_bytes = 0;    ///< [B] of an element of a recurrent state
  std::int64_t context = 0;  ///< tokens of a sequence that are kept; 0: no cache is counted
  std::int64_t batch = 1;    ///< sequences that are served at once
  bool stated() const { return weight_bytes > 0; }
  bool operator==(const ServingLoad&) const = default;
};

/// Elements that one sequence keeps over all layers. Multi-token-prediction modules are left out.
struct CacheElements {
  double tokens = 0;  ///< keys, values or latents of tokens: grows with the context
  double states = 0;  ///< recurrent states: whatever the context
};
/// Softmax layers keep for each token: GQA 2 kv_heads head_dim (keys and values), MLA kv_lora + qk_rope (the
/// latent and the shared rotary key). The share of layers with a window keeps at most `window` tokens; with
/// cross-layer attention only layers with projections of their own keep any. Linear attention keeps heads
/// head_dim^2; Mamba-2 heads head_dim state and (conv - 1)(heads head_dim + 2 groups state). Sources:
/// DeepSeek-V2 (arXiv 2405.04434, table 1) for GQA and MLA; vLLM's state shapes for linear attention and
/// Mamba-2.
CacheElements cache_elements(const Architecture&, std::int64_t context);

struct ServingMemory {
  double weights = 0;  ///< [B] every stored weight
  double caches = 0;   ///< [B] of `batch` sequences of `context` tokens; 0 without a context
  double total() const { return weights + caches; }
};
/// One copy of the model, over all devices that hold it together. What tensor parallelism beyond kv_heads
/// copies, activations and the runtime's own memory come on top.
ServingMemory serving_memory(const Architecture&, const ParameterCount&, const ServingLoad&);

/// Architectures above any of them are left out.
struct ServingLimits {
  std::optional<double> most_total, most_active;  ///< non-embedding parameters
  std::optional<double> most_memory;              ///< [B] serving_memory().total()
  ServingLoad load;
  bool operator==(const ServingLimits&) const = default;
};
bool above_limits(const Architecture&, const ParameterCount&, const ServingLimits&);

}  // namespace tessera
