// Hand-over to training frameworks: an architecture and a plan as the framework's own arguments. Every field
// of both is mapped; what a framework cannot express is an InputError that names the field, never left out.
//
// Argument names were checked against the frameworks' public sources and documentation:
//   megatron-lm      command line of pretrain_gpt.py (megatron/training/arguments.py, transformer_config.py;
//   core
//                    of August 2026), one argument a line, quoted for a shell: xargs -a FILE torchrun ...
//   megatron-bridge  a Python recipe that returns a ConfigContainer (GPTModelProvider, MLAModelProvider)
//   nemo             a Python recipe for NeMo 2 (run.Partial of llm.pretrain; GPTConfig, MegatronStrategy)
//   torchtitan       the job's TOML of torchtitan 0.2, and the model flavor it names as a Python module
//   deepspeed        the DeepSpeed JSON, and the model as a Hugging Face config.json
// Data, tokenizer, learning rate and the length of the run are not Tessera's to choose: they are left out.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/architecture.hpp"
#include "tessera/cluster.hpp"
#include "tessera/plan.hpp"

namespace tessera {

struct ExportFile {
  std::string name;  ///< suggested file name; the first file's is replaced by the user's choice
  std::string text;
};

struct Export {
  std::string format;
  std::vector<ExportFile> files;   ///< what is launched first, then what it refers to
  std::vector<std::string> notes;  ///< what a person should know: defaults that differ, how to launch
};

/// What is exported. `cluster` gives the number of devices, the node and the stack whose options the plan was
/// costed with (sequence parallelism, overlap, dispatcher).
struct ExportRequest {
  Architecture architecture;
  Cluster cluster;
  Plan plan;
  std::int64_t sequence = 0;  ///< tokens per sequence
};

/// Names of the formats, in the order of the help text.
const std::vector<std::string>& export_formats();

/// Throws InputError: unknown format (names the nearest); a plan whose degrees do not multiply to the devices
/// or whose batch is not whole; an architecture that fails check(); a field the framework has no argument
/// for.
Export export_plan(const ExportRequest&, const std::string& format);

}  // namespace tessera
