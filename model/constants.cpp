#include "model/constants.hpp"

namespace tessera {
namespace {

using D = Device;
using L = FabricLevel;
using S = Stack;

constexpr ConstantField<D> kDevice[] = {
    {"peak_bf16", "FLOP/s", &D::peak_bf16, "dense bf16 peak, no structured sparsity", true},
    {"peak_fp8", "FLOP/s", &D::peak_fp8, "dense fp8 peak; 0: no such format"},
    {"peak_fp4", "FLOP/s", &D::peak_fp4, "dense fp4 peak; 0: no such format"},
    {"hbm_bandwidth", "B/s", &D::hbm_bandwidth, "memory bandwidth", true},
    {"capacity", "B", &D::capacity, "memory that programs can use", true},
    {"sms", "1", &D::sms, "streaming multiprocessors or compute units", true},
    {"power", "W", &D::power, "nameplate power"},
    {"gemm_ceiling", "1", &D::gemm_ceiling, "sustained share of the bf16 peak in training, before tile losses"},
    {"gemm_tile_half", "elements", &D::gemm_tile_half, "operand traffic of small tiles: rate a/(a+a0)"},
    {"gemm_depth", "elements", &D::gemm_depth, "prologue and epilogue of a tile, as extra depth"},
    {"gemm_split_seconds", "s", &D::gemm_split_seconds, "extra time of a split-K kernel"},
    {"gemm_big_tile", "1", &D::gemm_big_tile, "1: has 256x256 tiles"},
    {"fp8_ratio", "1", &D::fp8_ratio, "sustained fp8 GEMM rate over bf16"},
    {"fp4_ratio", "1", &D::fp4_ratio, "sustained fp4 GEMM rate over bf16"},
    {"power_relief", "1", &D::power_relief, "GEMM rate gained per share of time without GEMMs (power limit)"},
    {"attention_forward_64", "1", &D::attention_forward_64, "flash attention, share of bf16 peak, head width <= 64"},
    {"attention_forward", "1", &D::attention_forward, "the same, wider heads"},
    {"attention_backward_64", "1", &D::attention_backward_64, "backward, head width <= 64"},
    {"attention_backward", "1", &D::attention_backward, "backward, wider heads"},
    {"attention_half_length", "tokens", &D::attention_half_length, "efficiency s/(s+s0) of flash attention"},
    {"misaligned_gemm", "1", &D::misaligned_gemm, "share of peak of batched GEMMs whose head width is no multiple of 8"},
    {"hbm_share", "1", &D::hbm_share, "achieved share of memory bandwidth of point-wise kernels"},
    {"kernel_gap", "s", &D::kernel_gap, "idle time between dependent kernels"},
    {"time_error", "1", &D::time_error, "expected relative error of step times on this device"},
};

constexpr ConstantField<L> kLevel[] = {
    {"size", "devices", &L::size, "devices that share the level; 0: unbounded"},
    {"bandwidth", "B/s", &L::bandwidth, "line rate per device and direction", true},
    {"share", "1", &L::share, "achieved share of the line rate"},
    {"latency", "s", &L::latency, "per collective"},
    {"peer_latency", "s", &L::peer_latency, "per further peer of an all-to-all"},
    {"oversubscription", "1", &L::oversubscription, "line rate below over line rate above this level"},
};

constexpr ConstantField<S> kStack[] = {
    {"attention_ampere", "1", &S::attention_ampere, "attention kernel over the device table, Ampere, forward"},
    {"attention_hopper", "1", &S::attention_hopper, "the same, Hopper"},
    {"attention_blackwell", "1", &S::attention_blackwell, "the same, Blackwell"},
    {"attention_backward_ampere", "1", &S::attention_backward_ampere, "backward, Ampere; default: forward"},
    {"attention_backward_hopper", "1", &S::attention_backward_hopper, "backward, Hopper; default: forward"},
    {"attention_backward_blackwell", "1", &S::attention_backward_blackwell, "backward, Blackwell; default: forward"},
    {"fp8_attention_rate", "1", &S::fp8_attention_rate, "attention in 8 bits over bf16"},
    {"pointwise_factor", "1", &S::pointwise_factor, "point-wise traffic over the fused count"},
    {"moe_pointwise_factor", "1", &S::moe_pointwise_factor, "the same for routing, permutes and expert activation"},
    {"cast_fp8", "1", &S::cast_fp8, "cast traffic over 4 B an element, per-tensor scaling"},
    {"cast_mxfp8", "1", &S::cast_mxfp8, "the same, MX blocks"},
    {"cast_nvfp4", "1", &S::cast_nvfp4, "the same, NVFP4"},
    {"expert_cast_share", "1", &S::expert_cast_share, "cast traffic of expert inputs relative to dense ones"},
    {"cross_entropy_passes", "1", &S::cross_entropy_passes, "fp32 passes over the logits, forward and backward"},
    {"gradient_bytes", "B", &S::gradient_bytes, "bytes of a gradient on the wire"},
    {"accumulate_share", "1", &S::accumulate_share, "felt share of reading and writing the main gradient"},
    {"tp_exposed", "1", &S::tp_exposed, "exposed share of tensor-parallel collectives"},
    {"tp_forward_units", "1", &S::tp_forward_units, "gathers and scatters of a layer, forward"},
    {"tp_backward_units", "1", &S::tp_backward_units, "the same, backward"},
    {"dp_exposed", "1", &S::dp_exposed, "felt share of hidden data-parallel traffic"},
    {"expert_dp_exposed", "1", &S::expert_dp_exposed, "the same for expert parameters"},
    {"dp_buckets", "1", &S::dp_buckets, "collectives of a data-parallel reduction or gather"},
    {"fsdp_contention", "1", &S::fsdp_contention, "felt share of hidden sharded-parameter traffic"},
    {"p2p_exposed", "1", &S::p2p_exposed, "exposed share of stage hops, 1F1B"},
    {"p2p_exposed_interleaved", "1", &S::p2p_exposed_interleaved, "the same, interleaved"},
    {"chunk_seconds", "s", &S::chunk_seconds, "per part boundary, micro-batch and direction"},
    {"ring_step_seconds", "s", &S::ring_step_seconds, "per step of the context-parallel ring and layer"},
    {"broadcast_seconds", "s", &S::broadcast_seconds, "per shard owner and step, of a broadcast of updated weights"},
    {"step_seconds", "s", &S::step_seconds, "fixed time of a step"},
    {"node_jitter", "1", &S::node_jitter, "slowdown per doubling of eight-device nodes"},
    {"node_jitter_low_precision", "1", &S::node_jitter_low_precision, "further slowdown in 8- and 4-bit runs"},
    {"stage_jitter", "1", &S::stage_jitter, "slowdown per doubling of stages, MoE models"},
    {"early_stop_share", "1", &S::early_stop_share, "share of the last GEMM that recomputation skips"},
    {"host_layer_seconds", "s", &S::host_layer_seconds, "host time of a MoE layer and micro-batch"},
    {"host_dense_layer_seconds", "s", &S::host_dense_layer_seconds, "host time of a dense layer and micro-batch"},
    {"host_expert_seconds", "s", &S::host_expert_seconds, "host time of a local expert, layer and micro-batch"},
    {"host_recompute_layer", "1", &S::host_recompute_layer, "x host time of a layer under full recomputation"},
    {"host_recompute_expert", "1", &S::host_recompute_expert, "x host time of an expert under full recomputation"},
    {"host_serial_share", "1", &S::host_serial_share, "share of the shorter of host and device that is serial, MoE layers"},
    {"graph_host_share", "1", &S::graph_host_share, "host time left by partial graph capture"},
    {"host_coupling_seconds", "s", &S::host_coupling_seconds, "wait per stage and micro-batch of spread experts"},
    {"expert_overlap_share", "1", &S::expert_overlap_share, "share of the expert exchange hidden where it is overlapped"},
    {"imbalance", "1", &S::imbalance, "busiest rank's tokens over the mean, minus 1"},
    {"loss_bytes_per_logit", "B", &S::loss_bytes_per_logit, "memory of the loss kernel per logit"},
    {"optimizer_bytes", "B", &S::optimizer_bytes, "Adam states and master weights per parameter"},
    {"main_gradient_bytes", "B", &S::main_gradient_bytes, "accumulated gradient per parameter"},
    {"sharded_gradient_bytes", "B", &S::sharded_gradient_bytes, "the same under ZeRO >= 2"},
    {"deferred_weight_share", "1", &S::deferred_weight_share, "ZB-H1: share of linear inputs held for late weight gradients"},
    {"host_memory_bandwidth", "B/s", &S::host_memory_bandwidth, "per device, of an optimizer on the host"},
    {"memory_constant", "B", &S::memory_constant, "allocated beside the tensors"},
    {"fragmentation", "1", &S::fragmentation, "reserved over allocated memory, tp 1"},
    {"fragmentation_tp", "1", &S::fragmentation_tp, "the same, tp >= 2"},
    {"fragmentation_long", "1", &S::fragmentation_long, "the same, from 16384 tokens a rank"},
    {"activation_fragmentation", "1", &S::activation_fragmentation, "further reserved share of activations and working set"},
    {"activation_offload", "1", &S::activation_offload, "share of the saved activations held in host memory"},
    {"bucket_bytes", "B", &S::bucket_bytes, "communication buckets full while the head's fp32 gradient exists"},
    {"context_bytes", "B", &S::context_bytes, "device context and communication buffers"},
    {"buffer_bytes", "B", &S::buffer_bytes, "dispatcher buffers outside the allocator"},
    {"time_error", "1", &S::time_error, "expected relative error of step times with this stack"},
};

constexpr FlagField<S> kFlags[] = {
    {"folding", &S::folding, "the expert mesh is folded over tp*cp*dp"},
    {"uneven_stages", &S::uneven_stages, "layers need not divide the stages"},
    {"embedding_as_layer", &S::embedding_as_layer, "embedding and head count as layers of uneven stages"},
    {"zero23_with_pp", &S::zero23_with_pp, "ZeRO >= 2 together with pp > 1"},
    {"etp_follows_tp", &S::etp_follows_tp, "default etp is tp"},
    {"flash_attention", &S::flash_attention, "attention without a score matrix in memory"},
    {"sequence_parallel", &S::sequence_parallel, "point-wise work divided by tp"},
    {"fp8_attention", &S::fp8_attention, "attention in 8 bits"},
    {"fused_experts", &S::fused_experts, "no per-expert launches"},
    {"early_stop", &S::early_stop, "recomputation stops before the last GEMM"},
    {"wgrad_fusion", &S::wgrad_fusion, "gradient accumulation fused into the GEMM"},
    {"expert_overlap", &S::expert_overlap, "expert exchange beside another micro-batch"},
    {"shared_overlap", &S::shared_overlap, "expert exchange beside the shared expert"},
    {"dp_overlap", &S::dp_overlap, "data-parallel traffic beside compute"},
    {"fp32_weights", &S::fp32_weights, "sharded fp32 weights without a 16-bit copy"},
    {"cpu_optimizer", &S::cpu_optimizer, "optimizer on the host"},
    {"rank_broadcast", &S::rank_broadcast, "updated weights are broadcast shard by shard"},
    {"eight_bit_inputs", &S::eight_bit_inputs, "8-bit runs save the inputs of linears in 8 bits"},
    {"ends_gathered", &S::ends_gathered, "ZeRO 3: embedding, head and the head's gradient stay gathered"},
    {"zero_inside_node", &S::zero_inside_node, "optimizer sharded inside a node only"},
};

}  // namespace

std::span<const ConstantField<Device>> device_constants() { return kDevice; }
std::span<const ConstantField<FabricLevel>> level_constants() { return kLevel; }
std::span<const ConstantField<Stack>> stack_constants() { return kStack; }
std::span<const FlagField<Stack>> stack_flags() { return kFlags; }

}  // namespace tessera
