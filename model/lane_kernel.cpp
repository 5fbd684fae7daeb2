#include "model/lane_kernel.hpp"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>

#include "tessera/error.hpp"

namespace tessera {

extern const LaneKernel lane_kernel_portable;
#if defined(TESSERA_X86_KERNELS)
extern const LaneKernel lane_kernel_avx2, lane_kernel_avx512;
#endif

void TimesRows::set(int lane, const Times<double>& t) {
  forward[lane] = t.forward;
  input_gradient[lane] = t.input_gradient;
  weight_gradient[lane] = t.weight_gradient;
  compute[lane] = t.kinds.compute;
  communication[lane] = t.kinds.communication;
  host[lane] = t.kinds.host;
}

void SavedRows::set(int lane, const LayerMemory& m) {
  saved[lane] = m.saved;
  weight_inputs[lane] = std::min(m.weight_inputs, m.saved);
  backward[lane] = m.backward;
}

std::size_t lane_kernels(const LaneKernel* out[3]) {
  std::size_t count = 0;
  out[count++] = &lane_kernel_portable;
#if defined(TESSERA_X86_KERNELS)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2")) out[count++] = &lane_kernel_avx2;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) out[count++] = &lane_kernel_avx512;
#endif
  return count;
}

const LaneKernel& lane_kernel() {
  static const LaneKernel& chosen = []() -> const LaneKernel& {
    const LaneKernel* have[3];
    const std::size_t count = lane_kernels(have);
    const char* wanted = std::getenv("TESSERA_KERNEL");
    if (!wanted || !*wanted) return *have[count - 1];
    for (std::size_t i = 0; i < count; ++i)
      if (std::string_view(wanted) == have[i]->name) return *have[i];
    throw InputError("TESSERA_KERNEL is " + std::string(wanted), "this processor has no such kernel",
                     "use portable, avx2 or avx512, or leave it out for the best one.");
  }();
  return chosen;
}

}  // namespace tessera
