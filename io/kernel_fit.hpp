// Kernel constants of devices, links and stacks from timing tables: docs/calibration.md. Each table is fitted with its full form
// (what model/kernels.hpp computes, and what exists only around a single timed kernel: launch, events, a cold clock); then the
// constants that hold inside a training step are taken from it.
#pragma once
#include <string>
#include <vector>

#include "io/csv_table.hpp"
#include "io/kernel_fit_terms.hpp"
#include "tessera/cluster.hpp"

namespace tessera {

/// Errors of one class of cells [%].
struct ErrorClass {
  std::string label;
  std::size_t cells = 0;
  double median_abs_pct = 0, p90_abs_pct = 0, bias_pct = 0;
};
ErrorClass error_class(const std::string& label, std::vector<double> relative_errors);

/// A form fitted to a table.
struct TableFit {
  std::string what, file;            ///< "GEMM bf16", base name of the table
  FitForm form;
  std::vector<ErrorClass> errors;    ///< the first one counts every cell of the fit
  std::vector<std::string> notes;    ///< outliers, cells left out and why, checks
};

/// A constant that a fit gives to a preset, in the unit of model/constants.hpp.
struct FittedConstant {
  std::string kind, preset, key, unit, source;  ///< kind: devices, links or stacks
  double value = 0, low = 0, high = 0;          ///< with 10-90 % interval
  double prior_centre = 0, prior_width = 0;
  std::string why;                              ///< how it follows from the table's terms
};

struct KernelFits {
  std::vector<TableFit> fits;
  std::vector<FittedConstant> constants;
};

/// What the tables are of: `device` gives peaks, memory bandwidth, SM count and tile set; `rows` is the name that the tables use
/// for it (compared without case); `stack` is the preset that takes constants of the host ("" : they are only reported).
struct DeviceTables {
  Device device;
  std::string preset, rows, stack;
};

/// Dense GEMM, bf16 and fp8. Columns M N K time_ms_med (or time_ms), dtype, and GPU_MODEL or device. Gives gemm_ceiling, gemm_tile_half,
/// gemm_depth, gemm_split_seconds, hbm_share and fp8_ratio.
void fit_gemm(KernelFits&, const DeviceTables&, const CsvTable&, const std::string& file);
/// Grouped GEMM of experts. Columns device num_gemms tokens_per_expert in_features out_features fwd_ms bwd_ms, distribution.
/// Gives the stack's host_expert_seconds.
void fit_grouped(KernelFits&, const DeviceTables&, const CsvTable&, const std::string& file);
/// Flash attention. Columns device seq_len micro_bs n_q_heads head_dim fwd_time_ms_med bwd_time_ms_med, backend. `backend` "" takes
/// the fastest. Gives attention_forward_64, attention_forward, attention_backward_64, attention_backward, attention_half_length.
void fit_attention(KernelFits&, const DeviceTables&, const CsvTable&, const std::string& file, const std::string& backend);
/// Router top-k. Columns device num_tokens num_experts k dtype profiler_kernel_ms. Gives no preset constant: the model counts
/// its traffic with the router's.
void fit_topk(KernelFits&, const DeviceTables&, const CsvTable&, const std::string& file);
/// Cross-entropy and head. Columns device op m_tokens hidden vocab_padded fwd_ms_p50 bwd_ms_p50 fwd_bwd_ms_p50. Gives the stack's
/// cross_entropy_passes (of an unfused loss).
void fit_cross_entropy(KernelFits&, const DeviceTables&, const CsvTable&, const std::string& file);
/// Chains of dependent kernels. Columns device wall_us_per_kernel gpu_active_us_per_kernel. Gives kernel_gap.
void fit_gaps(KernelFits&, const DeviceTables&, const CsvTable&, const std::string& file);

enum class CollectiveKind { all_to_all, all_gather, reduce_scatter, all_reduce, point_to_point };
std::string_view to_string(CollectiveKind);

/// One timed collective.
struct CollectiveCell {
  CollectiveKind kind = CollectiveKind::all_reduce;
  double ranks = 1, nodes = 1;  ///< ranks of the group, and nodes they are spread over evenly
  double bytes = 0;             ///< of a rank's buffer: sent by an all-to-all, gathered, to be reduced
  double seconds = 0;
  std::string file;
};

/// Columns device group_size inter_node buffer_bytes or payload_bytes, time_ms_p50, and collective (else all-to-all). A group of
/// several nodes no larger than `node_devices` has one rank a node. Throws InputError.
std::vector<CollectiveCell> collective_cells(const CsvTable&, const std::string& file, const std::string& rows, double node_devices);

/// `inside` is the link in a node, `across` the one between nodes: names "" where not asked for. Gives share, latency and (across)
/// peer_latency. Throws InputError where a named link has no cells or cannot have carried them (share above 1).
struct LinkTables {
  FabricLevel inside, across;
  std::string inside_preset, across_preset;
};
void fit_collectives(KernelFits&, const LinkTables&, const std::vector<CollectiveCell>&);

}  // namespace tessera
