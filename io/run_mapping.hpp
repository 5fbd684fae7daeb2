// From a row of a table of measured runs to what the cost model takes. The rules are data (preset mapping/runs.toml or a
// user's file), the code knows the columns:
//   row_id source framework model_key layers hidden heads kv_heads ffn vocab experts topk gpu n_gpus fabric precision seq_len
//   gbs_seq mbs tp pp dp cp vpp ep etp zero_fsdp recompute step_s step_s_derived tok_s_gpu gflop_per_token_implied
//   peak_mem_gib mem_raw quality notes
// (README and docs/accuracy.md give their meaning.) `dp` is n_gpus/(tp*pp*cp); on MoE rows `ffn` is the expert width.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/csv_table.hpp"
#include "io/preset_reader.hpp"
#include "tessera/architecture.hpp"
#include "tessera/plan.hpp"

namespace tessera {

enum class MemoryKind { none, allocated, reserved, nvidia_smi };
std::string_view to_string(MemoryKind);

struct MappedRun {
  std::string row_id, publisher, source, framework, gpu, model, plan_key;
  Architecture architecture;
  SourcedCluster cluster;
  Plan plan;
  std::int64_t sequence = 0;
  unsigned modules = 0;          ///< RecomputeModule mask
  bool generic = false;          ///< some preset is a fallback
  std::string device, fabric, stack;
  std::optional<double> seconds;  ///< measured step time
  std::optional<double> memory;   ///< measured bytes
  MemoryKind memory_kind = MemoryKind::none;
  double weight = 1;              ///< 1/sqrt(repetitions of the plan)
};

struct MappedRuns {
  std::vector<MappedRun> runs;
  std::size_t rows = 0;
  std::vector<std::pair<std::string, std::size_t>> skipped;  ///< reason, count; most frequent first
  std::size_t complete_rows = 0;  ///< rows with every column the model needs, of the wanted quality
};

class RunMapping {
 public:
  /// `file` empty: the embedded rules.
  RunMapping(const Presets&, const std::string& file = "");
  ~RunMapping();
  /// Maps the rows whose quality is in `qualities` (all where empty). Never throws for the content of a row: what cannot be
  /// used is counted with its reason.
  MappedRuns map(const CsvTable&, const std::vector<std::string>& qualities) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera
