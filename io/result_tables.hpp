// The tables of results.h5 besides /evaluations: what was asked, the space, and the answer.
#pragma once
#include "io/hdf5_file.hpp"
#include "tessera/space.hpp"
#include "tessera/sweep.hpp"

namespace tessera {

inline constexpr std::int64_t kResultsFormat = 2;  ///< attribute `format` of /study; read by results_reader.hpp

/// Writes /study, /clusters, /architectures, /space, /best, /top, /envelopes and /refused.
void write_tables(Hdf5Writer&, const Study&, const Space&, const SweepResult&);

}  // namespace tessera
