#include "version.hpp"

#include <fmt/format.h>

#include "model/lane_kernel.hpp"

namespace tessera {

std::string version_text() {
#if defined(__clang__)
  const std::string compiler = fmt::format("Clang {}", __clang_version__);
#else
  const std::string compiler = fmt::format("GCC {}", __VERSION__);
#endif
  return fmt::format("tessera {}\nbuild     {}{}\ncompiler  {}\nMPI       {}\nHDF5      {}\nkernel    {}", TESSERA_VERSION,
                     TESSERA_BUILD_TYPE, TESSERA_SANITIZERS, compiler, TESSERA_MPI_VERSION, TESSERA_HDF5_VERSION,
                     lane_kernel().name);
}

}  // namespace tessera
