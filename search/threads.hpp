// How many evaluating threads a rank takes.
#pragma once
#include <optional>
#include <string>

namespace tessera {

struct ThreadChoice {
  int threads = 1;
  std::string source;  ///< what decided: "--threads", a variable's name or "affinity mask"
};

/// First of: the number given; SLURM_CPUS_PER_TASK; OMP_NUM_THREADS (which PBS sets from ompthreads or ncpus);
/// NCPUS (PBS) over the ranks on these processors; the affinity mask over the ranks that share it.
/// Throws InputError for a number below 1 or a variable that is no number.
ThreadChoice choose_threads(std::optional<int> given, int ranks_on_my_cores);

}  // namespace tessera
