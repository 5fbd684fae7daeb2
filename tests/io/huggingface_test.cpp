// Hugging Face configs: each family's file gives the preset of the same model; what is wrong is named.
#include "io/huggingface.hpp"

#include <filesystem>
#include <fstream>

#include <catch2/catch.hpp>
#include <unistd.h>

#include "io/architecture_reader.hpp"
#include "tessera/error.hpp"

using namespace tessera;
using Catch::Contains;

namespace {

/// The geometry alone: where it comes from and what is said about it may differ.
Architecture geometry(Architecture a) {
  a.name = a.source = a.left_out = "";
  return a;
}

struct Case {
  const char* preset;
  const char* json;
};

// Only the keys that matter here, with the names and values the published files have.
const Case kCases[] = {
    {"llama3_8b", R"({"model_type":"llama","num_hidden_layers":32,"hidden_size":4096,"num_attention_heads":32,"num_key_value_heads":8,
      "intermediate_size":14336,"vocab_size":128256,"tie_word_embeddings":false,"attention_bias":false,"mlp_bias":false,"hidden_act":"silu"})"},
    {"mixtral_8x7b", R"({"model_type":"mixtral","num_hidden_layers":32,"hidden_size":4096,"num_attention_heads":32,"num_key_value_heads":8,
      "intermediate_size":14336,"vocab_size":32000,"num_local_experts":8,"num_experts_per_tok":2,"sliding_window":null,"max_position_embeddings":32768})"},
    {"qwen15_moe_a27b", R"({"model_type":"qwen2_moe","num_hidden_layers":24,"hidden_size":2048,"num_attention_heads":16,"num_key_value_heads":16,
      "intermediate_size":5632,"moe_intermediate_size":1408,"shared_expert_intermediate_size":5632,"num_experts":60,"num_experts_per_tok":4,
      "decoder_sparse_step":1,"vocab_size":151936,"sliding_window":32768,"use_sliding_window":false,"max_position_embeddings":8192})"},
    {"qwen2_57b_a14b", R"({"model_type":"qwen2_moe","num_hidden_layers":28,"hidden_size":3584,"num_attention_heads":28,"num_key_value_heads":4,
      "intermediate_size":18944,"moe_intermediate_size":2560,"shared_expert_intermediate_size":20480,"num_experts":64,"num_experts_per_tok":8,
      "decoder_sparse_step":1,"vocab_size":151936,"mlp_only_layers":[]})"},
    {"qwen3_30b_a3b", R"({"model_type":"qwen3_moe","num_hidden_layers":48,"hidden_size":2048,"num_attention_heads":32,"num_key_value_heads":4,"head_dim":128,
      "intermediate_size":6144,"moe_intermediate_size":768,"num_experts":128,"num_experts_per_tok":8,"vocab_size":151936,"mlp_only_layers":[],
      "decoder_sparse_step":1,"attention_bias":false,"sliding_window":null})"},
    {"deepseekmoe_16b", R"({"model_type":"deepseek","num_hidden_layers":28,"hidden_size":2048,"num_attention_heads":16,"num_key_value_heads":16,
      "intermediate_size":10944,"moe_intermediate_size":1408,"n_routed_experts":64,"n_shared_experts":2,"num_experts_per_tok":6,"first_k_dense_replace":1,
      "moe_layer_freq":1,"vocab_size":102400,"attention_bias":false})"},
    {"deepseek_v2", R"({"model_type":"deepseek_v2","num_hidden_layers":60,"hidden_size":5120,"num_attention_heads":128,"num_key_value_heads":128,
      "intermediate_size":12288,"moe_intermediate_size":1536,"n_routed_experts":160,"n_shared_experts":2,"num_experts_per_tok":6,"first_k_dense_replace":1,
      "moe_layer_freq":1,"vocab_size":102400,"q_lora_rank":1536,"kv_lora_rank":512,"qk_nope_head_dim":128,"qk_rope_head_dim":64,"v_head_dim":128,
      "topk_method":"group_limited_greedy"})"},
    {"deepseek_v2_lite", R"({"model_type":"deepseek_v2","num_hidden_layers":27,"hidden_size":2048,"num_attention_heads":16,"num_key_value_heads":16,
      "intermediate_size":10944,"moe_intermediate_size":1408,"n_routed_experts":64,"n_shared_experts":2,"num_experts_per_tok":6,"first_k_dense_replace":1,
      "vocab_size":102400,"q_lora_rank":null,"kv_lora_rank":512,"qk_nope_head_dim":128,"qk_rope_head_dim":64,"v_head_dim":128,"topk_method":"greedy"})"},
    {"deepseek_v3", R"({"model_type":"deepseek_v3","num_hidden_layers":61,"hidden_size":7168,"num_attention_heads":128,"num_key_value_heads":128,
      "intermediate_size":18432,"moe_intermediate_size":2048,"n_routed_experts":256,"n_shared_experts":1,"num_experts_per_tok":8,"first_k_dense_replace":3,
      "moe_layer_freq":1,"vocab_size":129280,"q_lora_rank":1536,"kv_lora_rank":512,"qk_nope_head_dim":128,"qk_rope_head_dim":64,"v_head_dim":128,
      "topk_method":"noaux_tc","num_nextn_predict_layers":1})"},
    {"kimi_k2", R"({"model_type":"kimi_k2","num_hidden_layers":61,"hidden_size":7168,"num_attention_heads":64,"num_key_value_heads":64,
      "intermediate_size":18432,"moe_intermediate_size":2048,"n_routed_experts":384,"n_shared_experts":1,"num_experts_per_tok":8,"first_k_dense_replace":1,
      "moe_layer_freq":1,"vocab_size":163840,"q_lora_rank":1536,"kv_lora_rank":512,"qk_nope_head_dim":128,"qk_rope_head_dim":64,"v_head_dim":128,
      "topk_method":"noaux_tc","num_nextn_predict_layers":0})"},
    {"gpt_oss_20b", R"({"model_type":"gpt_oss","num_hidden_layers":24,"hidden_size":2880,"num_attention_heads":64,"num_key_value_heads":8,"head_dim":64,
      "intermediate_size":2880,"num_local_experts":32,"experts_per_token":4,"num_experts_per_tok":4,"vocab_size":201088,"attention_bias":true,
      "sliding_window":128,"max_position_embeddings":131072,"layer_types":["sliding_attention","full_attention","sliding_attention","full_attention"]})"},
    {"glm_45", R"({"model_type":"glm4_moe","num_hidden_layers":92,"hidden_size":5120,"num_attention_heads":96,"num_key_value_heads":8,"head_dim":128,
      "intermediate_size":12288,"moe_intermediate_size":1536,"n_routed_experts":160,"n_shared_experts":1,"num_experts_per_tok":8,"first_k_dense_replace":3,
      "vocab_size":151552,"attention_bias":true,"use_qk_norm":true,"num_nextn_predict_layers":1})"},
    {"glm_45_air", R"({"model_type":"glm4_moe","num_hidden_layers":46,"hidden_size":4096,"num_attention_heads":96,"num_key_value_heads":8,"head_dim":128,
      "intermediate_size":10944,"moe_intermediate_size":1408,"n_routed_experts":128,"n_shared_experts":1,"num_experts_per_tok":8,"first_k_dense_replace":1,
      "vocab_size":151552,"attention_bias":true,"use_qk_norm":false,"num_nextn_predict_layers":1})"},
    {"olmoe_1b_7b", R"({"model_type":"olmoe","num_hidden_layers":16,"hidden_size":2048,"num_attention_heads":16,"num_key_value_heads":16,
      "intermediate_size":1024,"num_experts":64,"num_experts_per_tok":8,"vocab_size":50304})"},
    {"phi35_moe", R"({"model_type":"phimoe","num_hidden_layers":32,"hidden_size":4096,"num_attention_heads":32,"num_key_value_heads":8,
      "intermediate_size":6400,"num_local_experts":16,"num_experts_per_tok":2,"vocab_size":32064,"attention_bias":true,"lm_head_bias":true,
      "sliding_window":131072,"max_position_embeddings":131072})"},
    {"llama4_scout", R"({"model_type":"llama4","vision_config":{},"text_config":{"model_type":"llama4_text","num_hidden_layers":48,"hidden_size":5120,
      "num_attention_heads":40,"num_key_value_heads":8,"head_dim":128,"intermediate_size":8192,"intermediate_size_mlp":16384,"num_local_experts":16,
      "num_experts_per_tok":1,"interleave_moe_layer_step":1,"vocab_size":202048,"attention_chunk_size":8192}})"},
    {"llama4_maverick", R"({"model_type":"llama4","text_config":{"model_type":"llama4_text","num_hidden_layers":48,"hidden_size":5120,
      "num_attention_heads":40,"num_key_value_heads":8,"head_dim":128,"intermediate_size":8192,"intermediate_size_mlp":16384,"num_local_experts":128,
      "num_experts_per_tok":1,"interleave_moe_layer_step":2,"vocab_size":202048,"attention_chunk_size":8192,"no_rope_layers":[1,1,1,0]}})"},
    {"dbrx", R"({"model_type":"dbrx","n_layers":40,"d_model":6144,"n_heads":48,"vocab_size":100352,"tie_word_embeddings":false,
      "attn_config":{"kv_n_heads":8,"clip_qkv":8},"ffn_config":{"ffn_hidden_size":10752,"moe_num_experts":16,"moe_top_k":4}})"},
    {"grok_1", R"({"model_type":"grok-1","num_hidden_layers":64,"hidden_size":6144,"num_attention_heads":48,"num_key_value_heads":8,
      "intermediate_size":32768,"num_experts":8,"num_experts_per_tok":2,"vocab_size":131072})"},
    {"minimax_text_01", R"({"model_type":"minimax_text_01","num_hidden_layers":80,"hidden_size":6144,"num_attention_heads":64,"num_key_value_heads":8,
      "head_dim":128,"intermediate_size":9216,"num_local_experts":32,"num_experts_per_tok":2,"vocab_size":200064,"attn_type_list":[
      0,0,0,0,0,0,0,1,0,0,0,0,0,0,0,1,0,0,0,0,0,0,0,1,0,0,0,0,0,0,0,1,0,0,0,0,0,0,0,1,0,0,0,0,0,0,0,1,0,0,0,0,0,0,0,1,0,0,0,0,0,0,0,1,
      0,0,0,0,0,0,0,1,0,0,0,0,0,0,0,1]})"},
    {"hunyuan_large", R"({"model_type":"hunyuan","num_hidden_layers":64,"hidden_size":6400,"num_attention_heads":80,"num_key_value_heads":8,
      "intermediate_size":18304,"num_experts":16,"moe_topk":1,"num_shared_expert":1,"vocab_size":128512,"tie_word_embeddings":true,"use_qk_norm":true,
      "use_cla":true,"cla_share_factor":2})"},
    {"nemotron_3_nano", R"({"model_type":"nemotron_h","num_hidden_layers":52,"hidden_size":2688,"num_attention_heads":32,"num_key_value_heads":2,"head_dim":128,
      "intermediate_size":1856,"moe_intermediate_size":1856,"moe_shared_expert_intermediate_size":3712,"n_shared_experts":1,"n_routed_experts":128,
      "num_experts_per_tok":6,"mlp_hidden_act":"relu2","vocab_size":131072,"hybrid_override_pattern":"MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME",
      "mamba_num_heads":64,"mamba_head_dim":64,"ssm_state_size":128,"n_groups":8,"conv_kernel":4,"time_step_limit":[0.0,Infinity]})"},
};

}  // namespace

TEST_CASE("a published config gives the preset of its model", "[huggingface]") {
  for (const Case& each : kCases) {
    INFO(each.preset);
    const Architecture read = geometry(architecture_from_huggingface(each.json, "config.json")), preset = geometry(read_architecture(each.preset));
    const auto got = architecture_json(read), wanted = architecture_json(preset);
    for (const auto& [key, value] : wanted.items()) {
      INFO(key);
      CHECK(got.at(key) == value);
    }
    CHECK(read == preset);
  }
}

TEST_CASE("dense families by the counts of their checkpoints", "[huggingface]") {
  const auto total = [](const char* json) { return count_parameters(architecture_from_huggingface(json, "config.json")).all_total; };
  // gpt2 124M with its 1024 positions; its checkpoint has 124,439,808 parameters.
  CHECK(total(R"({"model_type":"gpt2","n_layer":12,"n_embd":768,"n_head":12,"n_positions":1024,"vocab_size":50257,"n_inner":null})") == 124439808);
  // pythia-70m: 70,426,624 parameters.
  CHECK(total(R"({"model_type":"gpt_neox","num_hidden_layers":6,"hidden_size":512,"num_attention_heads":8,"intermediate_size":2048,"vocab_size":50304})") == 70426624);
  // Qwen2-0.5B: 494,032,768; Qwen3-0.6B: 596,049,920; Mistral-7B: 7,241,732,096; gemma-2b: 2,506,172,416.
  CHECK(total(R"({"model_type":"qwen2","num_hidden_layers":24,"hidden_size":896,"num_attention_heads":14,"num_key_value_heads":2,"intermediate_size":4864,"vocab_size":151936,"tie_word_embeddings":true})") == 494032768);
  CHECK(total(R"({"model_type":"qwen3","num_hidden_layers":28,"hidden_size":1024,"num_attention_heads":16,"num_key_value_heads":8,"head_dim":128,"intermediate_size":3072,"vocab_size":151936,"tie_word_embeddings":true})") == 596049920);
  CHECK(total(R"({"model_type":"mistral","num_hidden_layers":32,"hidden_size":4096,"num_attention_heads":32,"num_key_value_heads":8,"intermediate_size":14336,"vocab_size":32000,"sliding_window":4096,"max_position_embeddings":32768})") == 7241732096);
  CHECK(total(R"({"model_type":"gemma","num_hidden_layers":18,"hidden_size":2048,"num_attention_heads":8,"num_key_value_heads":1,"head_dim":256,"intermediate_size":16384,"vocab_size":256000,"hidden_act":"gelu"})") == 2506172416);
}

TEST_CASE("windows", "[huggingface]") {
  const std::string head = R"({"model_type":"mistral","num_hidden_layers":4,"hidden_size":64,"num_attention_heads":4,"intermediate_size":128,"vocab_size":99,"max_position_embeddings":8192,)";
  CHECK(architecture_from_huggingface(head + R"("sliding_window":4096})", "c").window == 4096);
  CHECK(architecture_from_huggingface(head + R"("sliding_window":4096})", "c").window_share == 1);
  CHECK(architecture_from_huggingface(head + R"("sliding_window":8192})", "c").window == 0);  // as wide as the context
  CHECK(architecture_from_huggingface(head + R"("sliding_window":512,"layer_types":["full_attention","full_attention"]})", "c").window == 0);
  CHECK(architecture_from_huggingface(head + R"("sliding_window":512,"layer_types":["sliding_attention","sliding_attention","sliding_attention","full_attention"]})", "c").window_share == 0.75);
}

TEST_CASE("an unknown model_type is read by field names, and says so", "[huggingface]") {
  const Architecture a = architecture_from_huggingface(
      R"({"model_type":"brand_new","num_hidden_layers":4,"hidden_size":64,"num_attention_heads":4,"num_key_value_heads":2,"intermediate_size":128,
         "vocab_size":99,"num_experts":8,"num_experts_per_tok":2,"moe_intermediate_size":32,"n_shared_experts":1,"first_k_dense_replace":1})", "config.json");
  CHECK_THAT(a.left_out, Contains("brand_new") && Contains("unknown"));
  CHECK(a.experts == 8);
  CHECK(a.shared_ffn == 32);
  CHECK(a.moe_layer_count() == 3);
  CHECK(a.split == 4);
  CHECK_FALSE(architecture_from_huggingface(R"({"model_type":"other","n_layer":4,"n_embd":64,"n_head":4,"n_inner":128,"vocab_size":99,"activation_function":"gelu"})", "c").gated);
  const Architecture list = architecture_from_huggingface(
      R"({"num_hidden_layers":4,"hidden_size":64,"num_attention_heads":4,"intermediate_size":128,"vocab_size":99,"num_experts":8,"num_experts_per_tok":2,
         "moe_intermediate_size":32,"moe_layer_freq":[0,0,1,1]})", "c");
  CHECK(list.dense_layers == 2);
  const Architecture period = architecture_from_huggingface(
      R"({"num_hidden_layers":4,"hidden_size":64,"num_attention_heads":4,"intermediate_size":128,"vocab_size":99,"num_experts":8,"num_experts_per_tok":2,
         "expert_layer_period":2,"expert_layer_offset":1})", "c");
  CHECK(period.moe_layer_count() == 2);
  CHECK(period.dense_ffn == 128);
}

TEST_CASE("parts that are not counted are named", "[huggingface]") {
  CHECK_THAT(architecture_from_huggingface(kCases[15].json, "config.json").left_out, Contains("vision"));
  CHECK_THAT(architecture_from_huggingface(kCases[8].json, "config.json").left_out, Contains("multi-token-prediction"));
  CHECK(architecture_from_huggingface(kCases[0].json, "config.json").left_out.empty());
}

TEST_CASE("bad configs name file and key", "[huggingface][bad]") {
  const std::string llama = R"({"model_type":"llama","num_hidden_layers":4,"hidden_size":64,"num_attention_heads":4,"vocab_size":99)";
  struct Bad {
    std::string json, message;
  };
  const Bad cases[] = {
      {"", "not valid JSON"},
      {"{", "not valid JSON"},
      {"[1, 2]", "it is a JSON array"},
      {"3", "it is a JSON number"},
      {"{}", "num_hidden_layers: missing key"},
      {llama + "}", "intermediate_size: missing key"},
      {R"({"model_type":"llama","num_hidden_layers":"4"})", "num_hidden_layers: wrong type"},
      {R"({"model_type":"llama","num_hidden_layers":4.5})", "num_hidden_layers: wrong type"},
      {R"({"model_type":"llama","num_hidden_layers":18446744073709551615})", "64 bits"},
      {R"({"model_type":7})", "model_type: wrong type"},
      {llama + R"(,"intermediate_size":-8})", "dense_ffn = -8"},
      {llama + R"(,"intermediate_size":1000000000000000000})", "2^40"},
      {llama + R"(,"intermediate_size":8,"num_key_value_heads":3})", "kv_heads = 3"},
      {llama + R"(,"intermediate_size":8,"num_local_experts":4,"num_experts_per_tok":5})", "top_k = 5"},
      {llama + R"(,"intermediate_size":8,"num_local_experts":4})", "num_experts_per_tok: missing key"},
      {llama + R"(,"intermediate_size":8,"decoder_sparse_step":0,"num_experts":4,"num_experts_per_tok":1})", "moe_every = 0"},
      {llama + R"(,"intermediate_size":8,"tie_word_embeddings":"no"})", "tie_word_embeddings: wrong type"},
      {llama + R"(,"intermediate_size":[8,16]})", "layers of different shape"},
      {llama + R"(,"intermediate_size":8,"kv_lora_rank":4})", "qk_nope_head_dim: missing key"},
      {llama + R"(,"intermediate_size":8,"num_experts":4,"num_experts_per_tok":1,"mlp_only_layers":[2]})", "mlp_only_layers"},
      {R"({"model_type":"llama4","text_config":{"model_type":"llama4_text","num_hidden_layers":4}})", "text_config.hidden_size: missing key"},
      {R"({"model_type":"llama4","text_config":3})", "text_config: wrong type"},
      {R"({"model_type":"jamba","num_hidden_layers":4,"attn_layer_period":8})", "attn_layer_period: layers that are no attention"},
      {R"({"model_type":"mamba","num_hidden_layers":4,"state_size":16})", "state_size: layers that are no attention"},
      {llama + R"(,"intermediate_size":8,"num_experts":4,"num_experts_per_tok":1,"expert_layer_period":2,"expert_layer_offset":0})", "expert_layer_offset"},
      {R"({"model_type":"nemotron_h","num_hidden_layers":2})", "hybrid_override_pattern: missing key"},
  };
  for (const Bad& each : cases) {
    INFO(each.json);
    CHECK_THROWS_AS(architecture_from_huggingface(each.json, "config.json"), InputError);
    CHECK_THROWS_WITH(architecture_from_huggingface(each.json, "config.json"), Contains("config.json") && Contains(each.message));
  }
}

TEST_CASE("a folder with a config.json is as good as the file", "[huggingface]") {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / ("tessera-hf-" + std::to_string(::getpid()));
  fs::create_directory(folder);
  std::ofstream(folder / "config.json") << kCases[1].json;
  CHECK(geometry(read_architecture(folder.string())) == geometry(read_architecture("mixtral_8x7b")));
  CHECK(geometry(read_architecture((folder / "config.json").string() + ",experts=16")).experts == 16);
  std::ofstream(folder / "config.json", std::ios::trunc) << std::string("{\0}", 3);
  CHECK_THROWS_WITH(read_architecture(folder.string()), Contains("zero bytes"));
  std::ofstream(folder / "config.json", std::ios::trunc) << "  \n";
  CHECK_THROWS_WITH(read_architecture(folder.string()), Contains("empty"));
  fs::remove_all(folder);
  CHECK_THROWS_WITH(read_architecture((folder / "config.json").string()), Contains("no such file"));
}
