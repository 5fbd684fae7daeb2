// A cluster: `devices` devices of one kind on a fabric, driven by a software stack. Plain values; presets and
// user files are TOML with the same keys as the members below (io/preset_reader.hpp).
#pragma once
#include <cstdint>
#include <string>
#include <vector>
#include "tessera/operations.hpp"
#include "tessera/plan.hpp"

namespace tessera {

enum class Generation : std::uint8_t { ampere, hopper, blackwell };  ///< whose attention kernels are used

/// Rows and columns of a product that one SM computes at a time.
struct Tile {
  double rows = 0, columns = 0;
};

/// An accelerator. Rates are dense (no structured sparsity).
struct Device {
  std::string name;
  Generation generation = Generation::hopper;
  double peak_bf16 = 0, peak_fp8 = 0, peak_fp4 = 0;  ///< [FLOP/s]; 0: format not available
  double hbm_bandwidth = 0;                          ///< [B/s]
  double capacity = 0;                               ///< [B]
  double sms = 0;                                    ///< streaming multiprocessors (compute units)
  double power = 0;                                  ///< nameplate [W]
  // GEMM (moe-step-time.md section 2.1): tile and wave quantisation under an in-training ceiling.
  double gemm_ceiling = 0;      ///< sustained share of the bf16 peak before tile losses
  double gemm_tile_half = 0;    ///< a0 [elements]: operand traffic of small tiles, a/(a+a0)
  double gemm_depth = 0;        ///< K0 [elements]: prologue and epilogue of a tile
  double gemm_split_seconds = 0;  ///< extra time of a split-K kernel [s]
  std::vector<Tile> gemm_tiles;   ///< output tiles of the library's kernels; the fastest is taken
  Tile grouped_tile;              ///< of grouped GEMMs
  double gemm_depth_step = 0;     ///< [elements] of K that a tile takes at a time
  double fp8_ratio = 1, fp4_ratio = 1;  ///< sustained GEMM rate over bf16
  double power_relief = 0;  ///< GEMM rate gained per share of a layer's time without GEMMs: the clock recovers
  // Flash attention, share of the bf16 peak on half-square FLOP at head width <= 64 and above.
  double attention_forward_64 = 0, attention_forward = 0, attention_backward_64 = 0, attention_backward = 0;
  double attention_half_length = 0;  ///< s0 [tokens]: efficiency s/(s+s0)
  double misaligned_gemm = 0;        ///< share of peak of batched GEMMs whose head width is no multiple of 8
  double hbm_share = 0;              ///< achieved share of HBM bandwidth of point-wise kernels
  double kernel_gap = 0;             ///< idle time between dependent kernels [s]
  double time_error = 1;             ///< expected relative error of a predicted step time on this device
};

/// One level of the network, from the inside out.
struct FabricLevel {
  std::string name;
  double size = 0;         ///< devices that share this level (cumulative); the last level is unbounded
  double bandwidth = 0;    ///< line rate per device and direction [B/s]
  double share = 1;        ///< achieved share of the line rate
  double latency = 0;      ///< per collective [s]
  double peer_latency = 0; ///< per further peer of an all-to-all [s]
  double oversubscription = 1;
};

struct Fabric {
  std::string name;
  std::int64_t node_devices = 8;  ///< devices a scheduler allocates together
  std::string device, stack;      ///< defaults of the cluster preset
  std::vector<FabricLevel> levels;
};

enum class GraphMode : std::uint8_t { none, partial, full };           ///< CUDA-graph capture
enum class Dispatcher : std::uint8_t { all_to_all, deduplicated };     ///< expert token exchange

/// A software stack: what it fuses, overlaps and forbids, and what its host costs; what its operations move and keep. Made by
/// hand it has neutral constants; the preset stacks/base has those of a plain stack.
struct Stack : Operations {
  std::string name;
  // Legality.
  bool folding = true;             ///< expert mesh folded over tp*cp*dp
  bool uneven_stages = false;      ///< layers need not divide the stages
  bool embedding_as_layer = false; ///< embedding and head count as layers when stages are uneven
  bool zero23_with_pp = false;     ///< ZeRO >= 2 may be combined with pp > 1
  bool etp_follows_tp = false;     ///< default etp = tp (else 1)
  std::vector<Schedule> schedules{Schedule::one_f_one_b, Schedule::interleaved};
  int default_zero = 1;
  // Kernels.
  bool flash_attention = true;
  bool sequence_parallel = true;
  bool fp8_attention = false;
  bool fused_experts = false;      ///< grouped expert FFN without per-expert launches
  bool early_stop = false;         ///< checkpoint recomputation stops before the last GEMM
  bool wgrad_fusion = true;        ///< gradient accumulation fused into the GEMM (dummy buffers in memory)
  bool wgrad_buffers_kept = true;  ///< ... and those buffers stay allocated, one for each shape of a weight
  GraphMode graph = GraphMode::none;
  Dispatcher dispatcher = Dispatcher::all_to_all;
  bool expert_overlap = false;     ///< all-to-all overlapped with compute of another micro-batch
  bool shared_overlap = false;     ///< all-to-all runs beside the shared expert
  bool dp_overlap = true;
  bool fp32_weights = false;       ///< sharded fp32 weights without a second 16-bit copy (FSDP2)
  bool cpu_optimizer = false;      ///< optimizer states and update on the host
  bool rank_broadcast = false;     ///< ZeRO-1 broadcasts shard by shard
  bool zero_inside_node = false;   ///< optimizer sharded inside a node only
  bool eight_bit_inputs = false;   ///< 8-bit runs save the inputs of linears in 8 bits
  bool ends_gathered = false;      ///< ZeRO 3: embedding, head and the head's gradient stay gathered
  // Constants (the table of keys with unit and meaning is constant_fields() in model/constants.hpp).
  double attention_ampere = 1, attention_hopper = 1, attention_blackwell = 1;  ///< x device kernel, forward
  double attention_backward_ampere = 1, attention_backward_hopper = 1, attention_backward_blackwell = 1;
  double fp8_attention_rate = 1;
  double pointwise_factor = 1, moe_pointwise_factor = 1;
  double cast_fp8 = 1, cast_mxfp8 = 1, cast_nvfp4 = 1, expert_cast_share = 1;
  double cross_entropy_passes = 0;
  double gradient_bytes = 0, accumulate_share = 1;
  double tp_exposed = 1, tp_forward_units = 0, tp_backward_units = 0;
  double dp_exposed = 1, expert_dp_exposed = 1, dp_buckets = 1;
  double fsdp_contention = 0;
  double p2p_exposed = 1, p2p_exposed_interleaved = 1, chunk_seconds = 0;
  double ring_step_seconds = 0;
  double broadcast_seconds = 0;
  double step_seconds = 0;
  double node_jitter = 0, node_jitter_low_precision = 0, stage_jitter = 0;
  double early_stop_share = 0;
  double host_layer_seconds = 0, host_dense_layer_seconds = 0, host_expert_seconds = 0;
  double host_recompute_layer = 1, host_recompute_expert = 1;  ///< x with full recomputation
  double host_serial_share = 0, graph_host_share = 1, host_coupling_seconds = 0;
  double expert_overlap_share = 0;
  double imbalance = 0;           ///< busiest rank's tokens over the mean, minus 1
  // Memory (memory-and-space.md section A).
  double loss_bytes_per_logit = 0;
  double optimizer_bytes = 0;          ///< [B] of Adam states and master weights per parameter
  double main_gradient_bytes = 0;      ///< [B] of a parameter's accumulated gradient
  double sharded_gradient_bytes = 0;   ///< [B] the same under ZeRO >= 2 (6 where a 16-bit shard is held too)
  double deferred_weight_share = 1;    ///< ZB-H1: share of a layer's linear inputs held for late weight gradients
  double host_memory_bandwidth = 0;    ///< [B/s] per device, of an optimizer on the host
  double memory_constant = 0;     ///< [B] allocated beside the tensors
  double fragmentation = 1, fragmentation_tp = 1, fragmentation_long = 1;
  double activation_fragmentation = 0;  ///< further reserved share of activations and working set
  double activation_offload = 0;  ///< share of the saved activations held in host memory
  double bucket_bytes = 0;        ///< [B] communication buckets that are full while the head's fp32 gradient exists
  double context_bytes = 0;       ///< CUDA context and NCCL [B]
  double buffer_bytes = 0;        ///< symmetric dispatcher buffers outside the allocator [B]
  double time_error = 1;          ///< expected relative error of a predicted step time with this stack
};

struct Cluster {
  std::string name;
  Device device;
  Fabric fabric;
  Stack stack;
  std::int64_t devices = 0;
  double memory_cap = 0;  ///< usable bytes per device; default: device.capacity
  double peak(Precision) const;  ///< FLOP/s per device; 0 where the format is missing
};

}  // namespace tessera
