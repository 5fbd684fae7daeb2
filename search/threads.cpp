#include "search/threads.hpp"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "tessera/error.hpp"

namespace tessera {
namespace {

// TBB's own upper bound on workers of one process is of this order; more is surely a mistake.
constexpr int kMostThreads = 4096;

/// OMP_NUM_THREADS may be a list, one number per nesting level: the first one counts.
std::optional<int> number_in(const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return std::nullopt;
  int value = 0;
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, value);
  if (error != std::errc() || (stop != end && *stop != ',') || value < 1 || value > kMostThreads)
    throw InputError(std::string("environment variable ") + variable + " is '" + text + "'",
                     "it is to give a number of threads", "set it to a positive number, unset it, or give --threads");
  return value;
}

}  // namespace

ThreadChoice choose_threads(std::optional<int> given, int ranks_on_my_cores) {
  if (given) {
    if (*given < 1 || *given > kMostThreads)
      throw InputError("--threads " + std::to_string(*given), "a rank has from 1 to " + std::to_string(kMostThreads) + " threads",
                       "give a number in that range");
    return {*given, "--threads"};
  }
  for (const char* variable : {"SLURM_CPUS_PER_TASK", "OMP_NUM_THREADS"})
    if (const auto n = number_in(variable)) return {*n, variable};
  const int ranks = std::max(1, ranks_on_my_cores);
  if (const auto n = number_in("NCPUS")) return {std::max(1, *n / ranks), "NCPUS"};
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof(mask), &mask) != 0) return {1, "affinity mask"};
  return {std::max(1, CPU_COUNT(&mask) / ranks), "affinity mask"};
}

}  // namespace tessera
