// results.h5 from the segments of a folder: rows in unit order, chunks compressed in parallel (TBB) and written
// as they are. The bytes depend on the study and its evaluations only, not on ranks, threads, interruptions or
// time. docs/results-file.md describes every dataset. Memory stays below 100 MiB at any number of rows.
#pragma once
#include <cstdint>
#include <string>

#include "tessera/space.hpp"
#include "tessera/sweep.hpp"

namespace tessera {

inline constexpr std::uint64_t kChunkRows = 65536;  ///< rows of a chunk of /evaluations

struct MergeReport {
  std::uint64_t rows = 0;    ///< rows of /evaluations
  std::uint64_t bytes = 0;   ///< size of results.h5 [B]
};

/// Writes FOLDER/results.h5 (aside, then renamed). Once it is in place the *.rows files are deleted: results.h5
/// holds their contents. Throws RunError where a unit is missing or damaged or the disk is full.
MergeReport merge_results(const std::string& folder, const Study&, const Space&, const SweepResult&, int threads);

}  // namespace tessera
