// Importing a Megatron-LM argument list (a file, a launch script or a string): the architecture, the plan and the
// sequence it trains, with Megatron's own defaults for what is left out (untied only if asked, LayerNorm, learned
// positions, biases, ffn 4h, vocabulary padded to a multiple of 128*tp, expert-tensor degree = tp).
// Source of names and defaults: Megatron-LM, megatron/training/arguments.py (core 0.12 to 0.16).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/architecture.hpp"
#include "tessera/plan.hpp"

namespace tessera {

struct MegatronRun {
  Architecture architecture;
  Plan plan;                  ///< dp from the devices where they are known; else the least that the degrees need
  std::int64_t sequence = 0;  ///< tokens per sequence
  std::int64_t devices = 0;   ///< nnodes * nproc-per-node, or --world-size; 0: not said
  std::vector<std::string> read;     ///< arguments that were used
  std::vector<std::string> ignored;  ///< arguments that change neither geometry nor plan, or that nobody knows
  std::vector<std::string> assumed;  ///< sentences: what was taken for granted or only approximated
};

/// `name` is the file, for messages. Throws InputError: a missing argument that has no default, a value that is
/// no number, a geometry that does not fit together, an argument whose effect no field describes.
MegatronRun parse_megatron_arguments(std::string_view text, const std::string& name);

/// The same from a file; or, where `file_or_text` has "--num-layers" in it and is no file, from that text.
MegatronRun read_megatron_arguments(const std::string& file_or_text);

}  // namespace tessera
