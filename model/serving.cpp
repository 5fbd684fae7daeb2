#include "tessera/serving.hpp"

#include <algorithm>

namespace tessera {

CacheElements cache_elements(const Architecture& a, std::int64_t context) {
  const auto real = [](std::int64_t value) { return static_cast<double>(value); };
  const double token = a.attention == AttentionKind::mla ? real(a.kv_lora) + real(a.qk_rope)
                                                         : 2 * real(a.kv_heads) * real(a.head_dim);
  const double share = a.window > 0 ? a.window_share : 0;
  const double windowed = real(std::min(context, a.window));
  CacheElements out;
  out.tokens = real(a.kv_layer_count()) * token * ((1 - share) * real(context) + share * windowed);
  out.states = real(a.linear_attention_layers) * real(a.heads) * real(a.head_dim) * real(a.head_dim);
  const double width = real(a.mamba_heads) * real(a.mamba_head_dim);
  const double convolved = width + 2 * real(a.mamba_groups) * real(a.mamba_state);
  out.states += real(a.mamba_layers) *
                (width * real(a.mamba_state) + std::max(0.0, real(a.mamba_conv) - 1) * convolved);
  return out;
}

ServingMemory serving_memory(const Architecture& a, const ParameterCount& count, const ServingLoad& load) {
  ServingMemory out;
  out.weights = static_cast<double>(count.all_total) * load.weight_bytes;
  if (load.context <= 0) return out;
  const CacheElements kept = cache_elements(a, load.context);
  out.caches =
      static_cast<double>(load.batch) * (kept.tokens * load.cache_bytes + kept.states * load.state_bytes);
  return out;
}

bool above_limits(const Architecture& a, const ParameterCount& count, const ServingLimits& limits) {
  const auto above = [](double value, const std::optional<double>& most) { return most && value > *most; };
  return above(static_cast<double>(count.non_embedding_total), limits.most_total) ||
         above(static_cast<double>(count.non_embedding_active), limits.most_active) ||
         (limits.most_memory && serving_memory(a, count, limits.load).total() > *limits.most_memory);
}

}  // namespace tessera
