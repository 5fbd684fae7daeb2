// Megatron argument lists: geometry, plan and defaults; what is ignored is listed, what is wrong is named.
#include "io/megatron_arguments.hpp"

#include <algorithm>

#include <catch2/catch.hpp>

#include "io/architecture_reader.hpp"
#include "io/launch_words.hpp"
#include "tessera/error.hpp"

using namespace tessera;
using Catch::Contains;

namespace {

bool contains(const std::vector<std::string>& list, const std::string& part) {
  return std::any_of(list.begin(), list.end(), [&](const std::string& item) { return item.find(part) != std::string::npos; });
}

Architecture geometry(Architecture a) {
  a.name = a.source = a.left_out = "";
  return a;
}

const char* const kLlama2 =
    "--num-layers 32 --hidden-size 4096 --ffn-hidden-size 11008 --num-attention-heads 32 --seq-length 4096 --max-position-embeddings 4096 "
    "--swiglu --normalization RMSNorm --disable-bias-linear --untie-embeddings-and-output-weights --use-rotary-position-embeddings "
    "--vocab-size 32000 --make-vocab-size-divisible-by 1 --tensor-model-parallel-size 1 --pipeline-model-parallel-size 1 "
    "--micro-batch-size 2 --global-batch-size 128 --bf16 --use-distributed-optimizer --nproc_per_node 8 --lr 3e-4 --no-gradient-accumulation-fusion";

}  // namespace

TEST_CASE("Llama-2-7B from plain arguments", "[megatron]") {
  const MegatronRun run = parse_megatron_arguments(kLlama2, "args");
  CHECK(count_parameters(run.architecture).all_total == 6738415616);  // the checkpoint's
  CHECK(run.sequence == 4096);
  CHECK(run.devices == 8);
  CHECK(run.plan.dp == 8);
  CHECK(run.plan.micro_batch == 2);
  CHECK(run.plan.batch == 128);
  CHECK(run.plan.zero == 1);
  CHECK(run.plan.recompute == Recompute::none);
  CHECK(run.plan.precision == Precision::bf16);
  CHECK(contains(run.ignored, "--lr"));
  CHECK(contains(run.ignored, "--no-gradient-accumulation-fusion"));
  CHECK_FALSE(contains(run.ignored, "--hidden-size"));
  CHECK(contains(run.read, "--hidden-size"));
}

TEST_CASE("DeepSeek-V3 is the preset of that name", "[megatron]") {
  const MegatronRun run = parse_megatron_arguments(
      "--num-layers 61 --hidden-size 7168 --ffn-hidden-size 18432 --num-attention-heads 128 --seq-length 4096 --swiglu --normalization RMSNorm "
      "--disable-bias-linear --untie-embeddings-and-output-weights --position-embedding-type rope --vocab-size 129280 "
      "--multi-latent-attention --q-lora-rank 1536 --kv-lora-rank 512 --qk-head-dim 128 --qk-pos-emb-head-dim 64 --v-head-dim 128 --qk-layernorm "
      "--num-experts 256 --moe-router-topk 8 --moe-ffn-hidden-size 2048 --moe-shared-expert-intermediate-size 2048 --moe-layer-freq ([0]*3+[1]*58) "
      "--moe-router-enable-expert-bias --mtp-num-layers 1 --tensor-model-parallel-size 2 --expert-model-parallel-size 64 --expert-tensor-parallel-size 1 "
      "--pipeline-model-parallel-size 16 --micro-batch-size 1 --global-batch-size 15360 --fp8-format hybrid --fp8-recipe blockwise "
      "--recompute-granularity selective --recompute-modules mla_up_proj moe_act layernorm --use-distributed-optimizer --sequence-parallel --world-size 2048",
      "args");
  CHECK(geometry(run.architecture) == geometry(read_architecture("deepseek_v3")));
  CHECK(run.plan.tp == 2);
  CHECK(run.plan.pp == 16);
  CHECK(run.plan.ep == 64);
  CHECK(run.plan.etp == 1);
  CHECK(run.plan.dp == 64);
  CHECK(run.plan.precision == Precision::fp8);
  CHECK(run.plan.recompute == Recompute::super_selective);
}

TEST_CASE("Megatron's own defaults", "[megatron]") {
  const MegatronRun run = parse_megatron_arguments("--num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 --max-position-embeddings 2048 "
                                                   "--tokenizer-type GPT2BPETokenizer --tensor-model-parallel-size 4 --micro-batch-size 4", "args");
  const Architecture& a = run.architecture;
  CHECK(a.dense_ffn == 4096);
  CHECK_FALSE(a.gated);
  CHECK(a.tied);
  CHECK(a.learned_positions == 2048);
  CHECK(a.norm == NormKind::layer);
  CHECK((a.qkv_bias && a.out_bias && a.ffn_bias));
  CHECK(a.vocabulary == 50688);  // 50257 to a multiple of 512
  CHECK(contains(run.assumed, "50688"));
  CHECK(run.plan.zero == 0);
  CHECK(run.plan.dp == 1);
  CHECK(run.plan.batch == 4);
  CHECK(contains(run.assumed, "devices"));

  const Architecture gated = parse_megatron_arguments("--num-layers 2 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 --swiglu --vocab-size 1 --tokenizer-type NullTokenizer", "args").architecture;
  CHECK(gated.dense_ffn == 2688);  // two thirds of 4096, down to a multiple of 64
  CHECK(gated.vocabulary == 128);
}

TEST_CASE("the expert-tensor degree follows tp unless it is given", "[megatron]") {
  const std::string base = "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 64 --vocab-size 128 --num-experts 8 --disable-bias-linear "
                           "--tensor-model-parallel-size 2 --expert-model-parallel-size 4 ";
  const MegatronRun run = parse_megatron_arguments(base, "args");
  CHECK(run.plan.etp == 2);
  CHECK(run.plan.dp == 4);  // the mesh is 8 devices
  CHECK(run.plan.devices() == 8);
  CHECK(contains(run.assumed, "expert-tensor-parallel-size"));
  CHECK(run.architecture.top_k == 2);
  CHECK(run.architecture.expert_ffn == 256);
  CHECK(parse_megatron_arguments(base + "--expert-tensor-parallel-size 1", "args").plan.dp == 2);
}

TEST_CASE("virtual stages, sharding, recomputation, formats", "[megatron]") {
  const std::string base = "--num-layers 32 --hidden-size 64 --num-attention-heads 4 --seq-length 64 --vocab-size 128 --pipeline-model-parallel-size 4 ";
  const auto plan = [&](const std::string& more) { return parse_megatron_arguments(base + more, "args").plan; };
  CHECK(plan("--num-layers-per-virtual-pipeline-stage 2").virtual_stages == 4);
  CHECK(plan("--num-layers-per-virtual-pipeline-stage 2").schedule == Schedule::interleaved);
  CHECK(plan("--num-virtual-stages-per-pipeline-rank 8").virtual_stages == 8);
  CHECK(plan("").schedule == Schedule::one_f_one_b);
  CHECK(plan("--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads").zero == 2);
  CHECK(plan("--use-torch-fsdp2").zero == 3);
  CHECK(plan("--recompute-activations").recompute == Recompute::selective);
  CHECK(plan("--recompute-granularity selective --recompute-modules core_attn moe_act").recompute == Recompute::selective);
  CHECK(plan("--recompute-granularity full --recompute-method uniform --recompute-num-layers 1").recompute == Recompute::full);
  CHECK(contains(parse_megatron_arguments(base + "--recompute-granularity full --recompute-method block --recompute-num-layers 4", "args").assumed, "block"));
  CHECK(plan("--fp8-format e4m3").precision == Precision::fp8);
  CHECK(plan("--fp8-format e4m3 --fp8-recipe mxfp8").precision == Precision::mxfp8);
  CHECK(plan("--fp4-format e2m1").precision == Precision::nvfp4);
  CHECK(plan("--optimizer muon").optimizer == Optimizer::muon);
  CHECK(plan("--nnodes 2 --nproc-per-node 8").dp == 4);
  CHECK(plan("--nnodes $SLURM_NNODES --nproc-per-node 8").dp == 1);  // unknown until the job runs
  CHECK(plan("--micro-batch-size 2 --micro-batch-size 8").micro_batch == 8);  // the last one counts
}

TEST_CASE("which layers are MoE", "[megatron]") {
  const std::string base = "--num-layers 8 --hidden-size 64 --num-attention-heads 4 --seq-length 64 --vocab-size 128 --num-experts 4 --moe-layer-freq ";
  const auto read = [&](const std::string& freq) { return parse_megatron_arguments(base + freq, "args").architecture; };
  CHECK(read("1").moe_layer_count() == 8);
  CHECK(read("2").moe_layer_count() == 4);
  CHECK(read("[0]+[1]*7").dense_layers == 1);
  CHECK(read("([0,1]*4)").moe_every == 2);
  CHECK(read("'([0, 0]+[1]*6)'").dense_layers == 2);
  for (const char* bad : {"3", "0", "[1,0]*4", "[1]*7", "[0]*8", "[2]*8", "x", "[1]*99999999999"}) {
    INFO(bad);
    CHECK_THROWS_AS(read(bad), InputError);
  }
}

TEST_CASE("a launch script: variables, arrays, quotes, comments, YAML", "[megatron]") {
  const char* script = R"script(#!/bin/bash
# runs on --num-layers 99 nodes
TP=2
LAYERS=32   # a comment
GPUS_PER_NODE=8
export NCCL_DEBUG=INFO
DISTRIBUTED_ARGS=(
    --nproc_per_node $GPUS_PER_NODE
    --nnodes 4
)
MODEL_ARGS=(--num-layers ${LAYERS} --hidden-size=4096 \
    --num-attention-heads "32" --seq-length ${SEQ:-4096}
    --moe-layer-freq "([0]*2+[1]*30)" --num-experts 8 --vocab-size 32000)
MORE="
    --tensor-model-parallel-size $TP \
    --micro-batch-size 1
    --bf16
"
torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py ${MODEL_ARGS[@]} $MORE --global-batch-size 256
)script";
  const MegatronRun run = parse_megatron_arguments(script, "run.sh");
  CHECK(run.architecture.layers == 32);
  CHECK(run.architecture.hidden == 4096);
  CHECK(run.architecture.dense_layers == 2);
  CHECK(run.sequence == 4096);
  CHECK(run.plan.tp == 2);
  CHECK(run.devices == 32);
  CHECK(run.plan.dp == 16);
  CHECK(run.plan.batch == 256);

  const MegatronRun yaml = parse_megatron_arguments("MODEL_ARGS:\n  --num-layers: 4\n  --hidden-size: 64\n  --num-attention-heads: 4\n  --seq-length: 64\n"
                                                    "  --vocab-size: 128\n  --swiglu: true\n  --untie-embeddings-and-output-weights: false\n", "args.yaml");
  CHECK(yaml.architecture.layers == 4);
  CHECK(yaml.architecture.gated);
  CHECK(yaml.architecture.tied);
}

TEST_CASE("words of a launch script", "[megatron]") {
  using Words = std::vector<std::string>;
  CHECK(launch_words("--a 1 --b=2 --c: 3", "x") == Words{"--a", "1", "--b", "2", "--c", "3"});
  CHECK(launch_words("A=5 --x $A ${A} ${B:-7} $C", "x") == Words{"--x", "5", "5", "7", "$C"});
  CHECK(launch_words("--x 'a $A b' \"c\"'d' # e", "x") == Words{"--x", "a $A b", "cd"});
  CHECK(launch_words("L=\"--x 1 --y 2\" run $L", "x") == Words{"--x", "1", "--y", "2", "run"});
  CHECK(launch_words("", "x").empty());
  CHECK_THROWS_WITH(launch_words("--x 'abc", "run.sh"), Contains("run.sh") && Contains("quote"));
}

TEST_CASE("bad arguments name file and argument", "[megatron][bad]") {
  const std::string base = "--num-layers 32 --hidden-size 64 --num-attention-heads 4 --seq-length 64 --vocab-size 128 ";
  const std::pair<std::string, const char*> cases[] = {
      {"--hidden-size 64", "--seq-length: missing"},
      {"--seq-length 64 --hidden-size 64", "--num-layers: missing"},
      {"--seq-length 64 --num-layers 2 --hidden-size 64", "--num-attention-heads: missing"},
      {"--seq-length 64 --num-layers 2 --hidden-size 64 --num-attention-heads 4", "--vocab-size: missing"},
      {base + "--hidden-size x", "--hidden-size: 'x' is not a whole number"},
      {base + "--hidden-size", "--hidden-size: no value"},
      {base + "--hidden-size -64", "hidden = -64"},
      {base + "--hidden-size 1000000000000000000", "2^40"},
      {base + "--hidden-size 9223372036854775807", "2^40"},
      {base + "--seq-length 0", "--seq-length"},
      {base + "--tensor-model-parallel-size 0", "--tensor-model-parallel-size = 0"},
      {base + "--tensor-model-parallel-size 99999999999", "--tensor-model-parallel-size = 99999999999"},
      {base + "--tensor-model-parallel-size 3 --nproc-per-node 8", "does not divide"},
      {base + "--num-experts 4 --moe-router-topk 5", "top_k = 5"},
      {base + "--pipeline-model-parallel-size 5 --num-layers-per-virtual-pipeline-stage 2", "not whole virtual stages"},
      {base + "--pipeline-model-parallel-size 8 --num-layers-per-virtual-pipeline-stage 3", "not whole virtual stages"},
      {base + "--global-batch-size 0", "--global-batch-size = 0"},
      {base + "--recompute-granularity some", "--recompute-granularity = some"},
      {base + "--optimizer lamb", "--optimizer = lamb"},
      {base + "--normalization Batch", "--normalization = Batch"},
      {base + "--hybrid-override-pattern M*", "--hybrid-override-pattern"},
      {base + "--use-megatron-fsdp --data-parallel-sharding-strategy all", "--data-parallel-sharding-strategy = all"},
  };
  for (const auto& [text, message] : cases) {
    INFO(text);
    CHECK_THROWS_AS(parse_megatron_arguments(text, "args"), InputError);
    CHECK_THROWS_WITH(parse_megatron_arguments(text, "args"), Contains("args") && Contains(message));
  }
  CHECK_THROWS_WITH(read_megatron_arguments("no/such/file.sh"), Contains("no such file"));
  CHECK(read_megatron_arguments(kLlama2).plan.dp == 8);
}
