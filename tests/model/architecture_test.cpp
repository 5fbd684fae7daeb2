// Counts: the ladder's published figures, formulas by hand, and what each field adds.
#include "tessera/architecture.hpp"

#include <cmath>
#include <functional>
#include <limits>

#include <catch2/catch.hpp>

#include "tessera/error.hpp"

using namespace tessera;
using Catch::Contains;

namespace {

Architecture rung(std::int64_t q, std::int64_t experts, std::int64_t top_k, double split) {
  LadderRung r;
  r.q = q, r.experts = experts, r.top_k = top_k, r.split = split;
  return ladder(r);
}

/// A small MoE model with every width different, so that a swapped one changes the count.
Architecture small() {
  Architecture a;
  a.name = "small";
  a.layers = 6, a.hidden = 40, a.heads = 6, a.kv_heads = 2, a.head_dim = 10;
  a.dense_ffn = 70, a.experts = 8, a.top_k = 2, a.expert_ffn = 14, a.shared_ffn = 22, a.dense_layers = 2;
  a.vocabulary = 1000;
  return a;
}

/// One decimal, as the paper prints billions.
double tenths(std::int64_t count) { return std::round(static_cast<double>(count) / 1e8) / 10; }

}  // namespace

TEST_CASE("the ladder's counts are those the paper prints", "[architecture]") {
  struct Row {
    std::int64_t q, layers, hidden, ffn;
    double total, active, sparsity;
  };
  // arXiv 2608.10605, table of rungs at E 128, K 3, G 4 (q = 12 by its rule: 433.6 and 17.8; it prints 433.7 and 17.9).
  const Row rows[] = {{4, 16, 2048, 5120, 15.5, 0.7, 0.954},    {6, 24, 3072, 7680, 53.2, 2.3, 0.957},
                      {8, 32, 4096, 10240, 127.3, 5.4, 0.958},  {10, 40, 5120, 12800, 250.0, 10.4, 0.958},
                      {12, 48, 6144, 15360, 433.6, 17.8, 0.959}, {14, 56, 7168, 17920, 690.5, 28.2, 0.959},
                      {16, 64, 8192, 20480, 1032.8, 41.9, 0.959}, {18, 72, 9216, 23040, 1472.8, 59.5, 0.960}};
  for (const Row& row : rows) {
    const Architecture a = rung(row.q, 128, 3, 4);
    const ParameterCount n = count_parameters(a);
    INFO("q = " << row.q);
    CHECK(a.layers == row.layers);
    CHECK(a.heads == row.layers);
    CHECK(a.hidden == row.hidden);
    CHECK(a.dense_ffn == row.ffn);
    CHECK(a.expert_ffn * 4 == row.ffn);
    CHECK(tenths(n.non_embedding_total) == row.total);
    CHECK(tenths(n.non_embedding_active) == row.active);
    CHECK(std::abs(n.sparsity() - row.sparsity) < 0.0006);
  }
}

TEST_CASE("further points of the ladder that the paper prints", "[architecture]") {
  struct Row {
    std::int64_t q, experts, top_k;
    double split, total, active, sparsity;
  };
  const Row rows[] = {{12, 96, 2, 4, 327.19, 14.49, 0.9557}, {10, 128, 2, 4, 250.0, 8.46, 0.966}, {10, 128, 2, 8, 126.4, 5.59, 0.956},
                      {10, 32, 2, 4, 66.0, 8.46, 0.872},     {8, 32, 2, 2, 65.8, 7.32, 0.889}};
  for (const Row& row : rows) {
    const ParameterCount n = count_parameters(rung(row.q, row.experts, row.top_k, row.split));
    INFO("q = " << row.q << ", E = " << row.experts << ", G = " << row.split);
    CHECK(std::abs(static_cast<double>(n.non_embedding_total) / 1e9 - row.total) < (row.total == 327.19 ? 0.005 : 0.05));
    CHECK(std::abs(static_cast<double>(n.non_embedding_active) / 1e9 - row.active) < 0.005);
    CHECK(std::abs(n.sparsity() - row.sparsity) < (row.sparsity == 0.9557 ? 0.00005 : 0.0005));
  }
}

TEST_CASE("the ladder's rule, term by term", "[architecture]") {
  const std::int64_t L = 48, d = 6144, f = 15360, e = 3840, E = 96, K = 2, V = 257536;
  const ParameterCount n = count_parameters(rung(12, E, K, 4));
  const std::int64_t attention = 2 * d * d + 2 * d * 8 * 128, expert = 3 * d * e;
  CHECK(n.non_embedding_total == L * attention + 3 * d * f + (L - 1) * (E + 1) * expert);
  CHECK(n.non_embedding_active == L * attention + 3 * d * f + (L - 1) * (K + 1) * expert);
  const std::int64_t router = (L - 1) * d * E, norms = (2 * L + 1) * d;
  CHECK(n.all_total == n.non_embedding_total + router + norms + 2 * V * d);
  CHECK(n.all_active == n.non_embedding_active + router + norms + 2 * V * d);
  CHECK(n.all_active_without_input_embedding == n.all_active - V * d);
  CHECK(n.all_active_without_embedding_and_head == n.all_active - 2 * V * d);
}

TEST_CASE("keys of the ladder move what they name", "[architecture]") {
  LadderRung r;
  r.q = 8, r.layers_per_rung = 2.5, r.heads_per_rung = 2, r.ffn_ratio = 3, r.head_dim = 64, r.kv_heads = 4, r.shared_experts = 2, r.dense_layers = 3, r.split = 2,
  r.vocabulary = 1000, r.tied = true;
  const Architecture a = ladder(r);
  CHECK(a.layers == 20);
  CHECK(a.heads == 16);
  CHECK(a.hidden == 1024);
  CHECK(a.dense_ffn == 3072);
  CHECK(a.expert_ffn == 1536);
  CHECK(a.shared_ffn == 3072);
  CHECK(a.kv_heads == 4);
  CHECK(a.moe_layer_count() == 17);
  CHECK(a.vocabulary == 1000);
  CHECK(a.tied);
  CHECK(a.rung == 8);
  CHECK(a.split == 2);

  r.experts = 0;
  const Architecture dense = ladder(r);
  CHECK_FALSE(dense.is_moe());
  CHECK(dense.shared_ffn == 0);
  CHECK(dense.split == 1);
  CHECK(count_parameters(dense).sparsity() == 0);
}

TEST_CASE("a rung that does not come out whole is refused", "[architecture]") {
  LadderRung r;
  SECTION("split") { r.split = 7; }
  SECTION("no split") { r.split = 0; }
  SECTION("NaN split") { r.split = std::nan(""); }
  SECTION("layers") { r.layers_per_rung = 0.3; }
  SECTION("heads") { r.heads_per_rung = -1; }
  SECTION("ffn") { r.ffn_ratio = 2.50001; }
  SECTION("q") { r.q = 0; }
  SECTION("key/value heads") { r.q = 1; }
  SECTION("top_k") { r.top_k = 97; }
  SECTION("shared") { r.shared_experts = std::int64_t{1} << 39; }
  SECTION("negative experts") { r.experts = -1; }
  SECTION("huge q") { r.q = std::int64_t{1} << 62; }
  SECTION("huge head") { r.head_dim = 1'000'000'000'000'000'000; }
  CHECK_THROWS_AS(ladder(r), InputError);
}

TEST_CASE("what a field adds to the count", "[architecture]") {
  const Architecture base = small();
  const ParameterCount before = count_parameters(base);
  struct Case {
    const char* name;
    std::function<void(Architecture&)> change;
    std::int64_t total, active;  // all_*
    std::int64_t matrices;       // non_embedding_*, of both
  };
  const std::int64_t h = 40, q = 60, kv = 20, moe = 4;
  const Case cases[] = {
      {"qkv_bias", [](Architecture& a) { a.qkv_bias = true; }, 6 * (q + 2 * kv), 6 * (q + 2 * kv), 0},
      {"out_bias", [](Architecture& a) { a.out_bias = true; }, 6 * h, 6 * h, 0},
      {"ffn_bias", [](Architecture& a) { a.ffn_bias = true; }, 2 * (140 + h) + moe * (8 * (28 + h) + 44 + h), 2 * (140 + h) + moe * (2 * (28 + h) + 44 + h), 0},
      {"router_bias", [](Architecture& a) { a.router_bias = true; }, moe * 8, moe * 8, 0},
      {"head_bias", [](Architecture& a) { a.head_bias = true; }, 1000, 1000, 0},
      {"shared_gate", [](Architecture& a) { a.shared_gate = true; }, moe * h, moe * h, 0},
      {"attention_sinks", [](Architecture& a) { a.attention_sinks = true; }, 6 * 6, 6 * 6, 0},
      {"qk_norm per head", [](Architecture& a) { a.qk_norm = QkNorm::per_head; }, 6 * 20, 6 * 20, 0},
      {"qk_norm full width", [](Architecture& a) { a.qk_norm = QkNorm::full_width; }, 6 * (q + kv), 6 * (q + kv), 0},
      {"layer norm", [](Architecture& a) { a.norm = NormKind::layer; }, 13 * h, 13 * h, 0},
      {"four norms", [](Architecture& a) { a.norms_per_layer = 4; }, 12 * h, 12 * h, 0},
      {"learned positions", [](Architecture& a) { a.learned_positions = 128; }, 128 * h, 128 * h, 0},
      {"tied", [](Architecture& a) { a.tied = true; }, -1000 * h, -1000 * h, 0},
      {"extra", [](Architecture& a) { a.extra_parameters = 77; }, 77, 77, 0},
      {"shared K/V", [](Architecture& a) { a.shared_kv_every = 2; }, -3 * 2 * h * kv, -3 * 2 * h * kv, -3 * 2 * h * kv},
      {"linear", [](Architecture& a) { a.linear_attention_layers = 2; }, 2 * (3 * h * q - 2 * h * kv + q), 2 * (3 * h * q - 2 * h * kv + q), 2 * (3 * h * q - 2 * h * kv)},
      {"window", [](Architecture& a) { a.window = 64, a.window_share = 0.5; }, 0, 0, 0},
      {"mtp", [](Architecture& a) { a.mtp_layers = 1; }, 0, 0, 0},
  };
  for (const Case& each : cases) {
    Architecture a = base;
    each.change(a);
    const ParameterCount after = count_parameters(a);
    INFO(each.name);
    CHECK(after.all_total - before.all_total == each.total);
    CHECK(after.all_active - before.all_active == each.active);
    CHECK(after.non_embedding_total - before.non_embedding_total == each.matrices);
    CHECK(after.non_embedding_active - before.non_embedding_active == each.matrices);
  }
}

TEST_CASE("experts, top-k and tying", "[architecture]") {
  Architecture a = small();
  const ParameterCount before = count_parameters(a);
  const std::int64_t expert = 3 * 40 * 14, moe = 4;
  a.experts += 5;
  const ParameterCount more = count_parameters(a);
  CHECK(more.all_total - before.all_total == 5 * moe * (expert + 40));  // and their rows of the router
  CHECK(more.non_embedding_total - before.non_embedding_total == 5 * moe * expert);
  CHECK(more.non_embedding_active == before.non_embedding_active);
  CHECK(more.sparsity() > before.sparsity());

  a.top_k = a.experts;
  const ParameterCount everything = count_parameters(a);
  CHECK(everything.all_active == everything.all_total);
  CHECK(everything.sparsity() == 0);

  a.gated = false;
  CHECK(everything.non_embedding_total - count_parameters(a).non_embedding_total == 40 * (2 * 70 + moe * (22 + 13 * 14)));

  a.tied = true;
  const ParameterCount tied = count_parameters(a);
  CHECK(tied.all_active_without_input_embedding == tied.all_active);  // the matrix works as the head
  CHECK(tied.all_active_without_embedding_and_head == tied.all_active - 40 * 1000);
}

TEST_CASE("latent attention by hand", "[architecture]") {
  Architecture a = small();
  a.attention = AttentionKind::mla;
  a.q_lora = 30, a.kv_lora = 17, a.qk_nope = 8, a.qk_rope = 4, a.v_head = 9;
  const std::int64_t gqa = 2 * 40 * 60 + 2 * 40 * 20;
  const std::int64_t mla = 40 * 30 + 30 * 6 * 12 + 40 * 21 + 17 * 6 * 17 + 6 * 9 * 40;
  const std::int64_t plain = count_parameters(small()).non_embedding_total, latent = count_parameters(a).non_embedding_total;
  CHECK(latent - plain == 6 * (mla - gqa));
  CHECK(count_parameters(a).all_total - count_parameters(small()).all_total == 6 * (mla - gqa + 30 + 17));  // two norms
  a.q_lora = 0;
  CHECK(count_parameters(a).non_embedding_total - latent == 6 * (40 * 6 * 12 - 40 * 30 - 30 * 6 * 12));
}

TEST_CASE("one part a layer: a state-space hybrid by hand", "[architecture]") {
  Architecture a = small();
  a.dense_layers = 0, a.norms_per_layer = 1, a.dense_ffn = 0;
  a.pattern = "MEM*ME", a.mamba_layers = 3;
  a.mamba_heads = 5, a.mamba_head_dim = 16, a.mamba_state = 7, a.mamba_groups = 2, a.mamba_conv = 4;
  const std::int64_t inner = 80, state = 2 * 2 * 7;
  const std::int64_t matrices = 40 * (2 * inner + state + 5) + inner * 40, small_ones = (inner + state) * 5 + 15 + inner;
  const std::int64_t attention = 2 * 40 * 60 + 2 * 40 * 20, moe = 3 * 40 * (22 + 8 * 14);
  const ParameterCount n = count_parameters(a);
  CHECK(n.non_embedding_total == 3 * matrices + attention + 2 * moe);
  CHECK(n.all_total == n.non_embedding_total + 3 * small_ones + 2 * 40 * 8 + 7 * 40 + 2 * 40 * 1000);
  CHECK(a.attention_layer_count() == 1);
  CHECK(a.ffn_layer_count() == 2);
  CHECK(a.moe_layer(1));
  CHECK_FALSE(a.moe_layer(0));
  CHECK(a.attention_layer(3));
  CHECK_FALSE(a.ffn_layer(3));
}

TEST_CASE("layer counts in closed form agree with the layers one by one", "[architecture]") {
  Architecture a = small();
  for (a.layers = 1; a.layers <= 13; ++a.layers)
    for (a.moe_every = 1; a.moe_every <= 5; ++a.moe_every)
      for (a.dense_layers = 0; a.dense_layers <= a.layers; ++a.dense_layers) {
        std::int64_t moe = 0;
        for (std::int64_t i = 0; i < a.layers; ++i) moe += a.moe_layer(i);
        INFO("layers " << a.layers << ", every " << a.moe_every << ", dense " << a.dense_layers);
        REQUIRE(a.moe_layer_count() == moe);
      }
  a.layers = std::int64_t{1} << 39, a.moe_every = 2, a.dense_layers = 0;  // no loop over layers
  CHECK(a.moe_layer_count() == std::int64_t{1} << 38);
}

TEST_CASE("inconsistent geometry is refused and the field is named", "[architecture]") {
  constexpr std::int64_t huge = 1'000'000'000'000'000'000;
  struct Case {
    const char* field;
    std::function<void(Architecture&)> spoil;
  };
  const Case cases[] = {
      {"layers", [](Architecture& a) { a.layers = 0; }},
      {"layers", [](Architecture& a) { a.layers = huge; }},
      {"hidden", [](Architecture& a) { a.hidden = -40; }},
      {"hidden", [](Architecture& a) { a.hidden = huge; }},
      {"heads", [](Architecture& a) { a.heads = 0; }},
      {"kv_heads", [](Architecture& a) { a.kv_heads = 0; }},
      {"kv_heads", [](Architecture& a) { a.kv_heads = 4; }},
      {"head_dim", [](Architecture& a) { a.head_dim = 0; }},
      {"dense_ffn", [](Architecture& a) { a.dense_ffn = 0; }},
      {"experts", [](Architecture& a) { a.experts = -8; }},
      {"experts", [](Architecture& a) { a.experts = 0; }},
      {"experts", [](Architecture& a) { a.dense_layers = 6; }},
      {"top_k", [](Architecture& a) { a.top_k = 9; }},
      {"top_k", [](Architecture& a) { a.top_k = 0; }},
      {"expert_ffn", [](Architecture& a) { a.expert_ffn = 0; }},
      {"shared_ffn", [](Architecture& a) { a.shared_ffn = -1; }},
      {"dense_layers", [](Architecture& a) { a.dense_layers = -1; }},
      {"dense_layers", [](Architecture& a) { a.dense_layers = 7; }},
      {"moe_every", [](Architecture& a) { a.moe_every = 0; }},
      {"vocabulary", [](Architecture& a) { a.vocabulary = 0; }},
      {"vocabulary", [](Architecture& a) { a.vocabulary = huge; }},
      {"kv_lora", [](Architecture& a) { a.attention = AttentionKind::mla; }},
      {"window_share", [](Architecture& a) { a.window_share = 0.5; }},
      {"window_share", [](Architecture& a) { a.window = 8, a.window_share = 1.5; }},
      {"window_share", [](Architecture& a) { a.window = 8, a.window_share = std::nan(""); }},
      {"split", [](Architecture& a) { a.split = std::numeric_limits<double>::infinity(); }},
      {"split", [](Architecture& a) { a.split = 0; }},
      {"linear_attention_layers", [](Architecture& a) { a.linear_attention_layers = 7; }},
      {"pattern", [](Architecture& a) { a.pattern = "EE*"; }},
      {"pattern", [](Architecture& a) { a.dense_layers = 0, a.pattern = "*E*E*X"; }},
      {"mamba_layers", [](Architecture& a) { a.mamba_layers = 1; }},
      {"shared_kv_every", [](Architecture& a) { a.shared_kv_every = 0; }},
  };
  for (const Case& each : cases) {
    Architecture a = small();
    each.spoil(a);
    INFO(each.field);
    CHECK_THROWS_WITH(check(a), Contains(std::string(each.field) + " = "));
    CHECK_THROWS_AS(count_parameters(a), InputError);
  }
}

TEST_CASE("a count that leaves 64 bits is refused, not wrapped", "[architecture]") {
  Architecture a = small();
  a.hidden = a.expert_ffn = std::int64_t{1} << 30;
  CHECK_THROWS_WITH(count_parameters(a), Contains("2^63"));
  a = small();
  a.hidden = std::int64_t{1} << 20, a.expert_ffn = std::int64_t{1} << 20, a.experts = 1 << 20, a.layers = 3;  // 3.5e18: fits
  CHECK(count_parameters(a).all_total > std::int64_t{3} << 60);
}

TEST_CASE("split factor of a geometry", "[architecture]") {
  Architecture a = small();
  CHECK(derived_split(a) == 5);  // 70 / 14
  a.dense_ffn = 0;
  CHECK(derived_split(a) == Approx(2.5 * 40 / 14).epsilon(1e-15));
  a.experts = 0;
  CHECK(derived_split(a) == 1);
  CHECK(derived_split(rung(12, 96, 2, 8)) == 8);
}
