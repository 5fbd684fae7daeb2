// The plain text that nccl-tests (and rccl-tests) print: all_reduce_perf, all_gather_perf, reduce_scatter_perf, alltoall_perf, sendrecv_perf.
#pragma once
#include <string>
#include <vector>

#include "io/kernel_fit.hpp"

namespace tessera {

/// The out-of-place times of one file, which may hold several tests one after the other, with or without mpirun's line prefixes.
/// Ranks and nodes are counted from the "# Rank .. on HOST device .." lines. The test is named by "# Collective test starting: NAME" (new
/// versions), else by the file's name (all_reduce_perf-8.txt). Throws InputError with the line where a part is missing.
std::vector<CollectiveCell> nccl_cells(const std::string& text, const std::string& file);

}  // namespace tessera
