// Memory at inference against values computed by hand from the published geometries.
#include "tessera/serving.hpp"

#include <catch2/catch.hpp>

using namespace tessera;

namespace {

Architecture gqa(std::int64_t layers, std::int64_t kv_heads, std::int64_t head_dim) {
  Architecture a;
  a.layers = layers, a.kv_heads = kv_heads, a.head_dim = head_dim;
  a.heads = 8 * kv_heads;
  return a;
}

}  // namespace

TEST_CASE("keys and values of grouped queries grow with the context", "[serving]") {
  // Llama 3 70B: 80 layers x 2 x 8 x 128 = 163,840 elements, 327,680 bytes a token in bf16.
  const Architecture a = gqa(80, 8, 128);
  CHECK(cache_elements(a, 1).tokens == 163840);
  CHECK(cache_elements(a, 8192).tokens == 163840.0 * 8192);
  CHECK(cache_elements(a, 8192).states == 0);
  CHECK(cache_elements(a, 0).tokens == 0);
}

TEST_CASE("latent attention keeps the latent and the rotary key", "[serving]") {
  // DeepSeek-V3: 61 layers x (512 + 64) = 35,136 elements a token, whatever the heads.
  Architecture a = gqa(61, 128, 128);
  a.attention = AttentionKind::mla;
  a.kv_lora = 512, a.qk_rope = 64, a.qk_nope = 128, a.v_head = 128;
  CHECK(cache_elements(a, 1).tokens == 35136);
  a.mtp_layers = 1;
  CHECK(cache_elements(a, 1).tokens == 35136);
}

TEST_CASE("layers with a window keep no more than it", "[serving]") {
  // gpt-oss-120b: 36 layers, every other one of 128 tokens; 2 x 8 x 64 = 1,024 elements a token and layer.
  Architecture a = gqa(36, 8, 64);
  a.window = 128, a.window_share = 0.5;
  CHECK(cache_elements(a, 100).tokens == 36 * 1024.0 * 100);
  CHECK(cache_elements(a, 4096).tokens == 18 * 1024.0 * 4096 + 18 * 1024.0 * 128);
}

TEST_CASE("cross-layer attention keeps what layers with projections of their own make", "[serving]") {
  Architecture a = gqa(64, 8, 80);
  a.shared_kv_every = 2;
  CHECK(cache_elements(a, 10).tokens == 32 * 2 * 8 * 80 * 10.0);
}

TEST_CASE("linear attention and Mamba-2 keep a state, not tokens", "[serving]") {
  // MiniMax-Text-01: 70 of 80 layers are linear, 64 heads of 128 x 128.
  Architecture a = gqa(80, 8, 128);
  a.linear_attention_layers = 70;
  for (const std::int64_t context : {1, 1000000}) {
    CHECK(cache_elements(a, context).states == 70 * 64 * 128 * 128.0);
    CHECK(cache_elements(a, context).tokens == 10 * 2 * 8 * 128.0 * static_cast<double>(context));
  }
  // Nemotron-3-Nano: 6 attention layers of 2 x 128; 23 Mamba-2 layers of 64 x 64 x 128 and 3 x (4,096 + 2 x 8
  // x 128).
  Architecture hybrid = gqa(52, 2, 128);
  hybrid.pattern = "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME";
  hybrid.mamba_layers = 23, hybrid.mamba_heads = 64, hybrid.mamba_head_dim = 64, hybrid.mamba_state = 128;
  hybrid.mamba_groups = 8, hybrid.mamba_conv = 4;
  CHECK(cache_elements(hybrid, 1).tokens == 6 * 512);
  CHECK(cache_elements(hybrid, 1).states == 23 * (524288 + 18432));
}

TEST_CASE("memory at inference is weights and caches, and limits compare with both", "[serving]") {
  const Architecture a = gqa(80, 8, 128);
  ParameterCount n;
  n.non_embedding_total = 68'000'000'000, n.non_embedding_active = 68'000'000'000,
  n.all_total = 70'000'000'000;
  ServingLimits limits;
  CHECK_FALSE(above_limits(a, n, limits));
  limits.load = {1, 2, 2, 0, 1};
  CHECK(serving_memory(a, n, limits.load).weights == 70e9);
  CHECK(serving_memory(a, n, limits.load).caches == 0);  // no context
  limits.load.context = 8192, limits.load.batch = 16;
  CHECK(serving_memory(a, n, limits.load).caches == 16 * 8192 * 327680.0);  // 42.9 GB
  CHECK(serving_memory(a, n, limits.load).total() == 70e9 + 42949672960.0);
  limits.most_memory = 113e9;
  CHECK_FALSE(above_limits(a, n, limits));
  limits.most_memory = 112.9e9;
  CHECK(above_limits(a, n, limits));
  limits.most_memory.reset();
  limits.most_total = 68e9;
  CHECK_FALSE(above_limits(a, n, limits));
  limits.most_active = 67.9e9;
  CHECK(above_limits(a, n, limits));
}
