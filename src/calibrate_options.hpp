// What `tessera calibrate` was asked for: options, the check that they make sense together, and the command line that presets record.
#pragma once
#include <string>
#include <vector>

namespace tessera {

struct CalibrateOptions {
  std::string runs, map, presets, out;
  std::vector<std::string> only, quality{"A", "A-"};
  std::string device, rows, into, stack, backend, gemm, grouped, attention, topk, cross_entropy, gaps;
  std::string link, network;
  std::vector<std::string> exchange, collectives, nccl;
  int node_devices = 8;
};

bool has_kernel_table(const CalibrateOptions&);
bool has_collective_table(const CalibrateOptions&);

/// Throws InputError where options contradict each other or one would do nothing, so that a mistyped command does not look like a result.
void check_usage(const CalibrateOptions&);

/// What made the presets. Files by their base names: a preset says nothing of the machine it was made on.
std::string command_line(const CalibrateOptions&);

/// Name of a preset, or of a preset file without its folder and ending.
std::string stem_of(const std::string& spec);

}  // namespace tessera
