// What `tessera --version` prints.
#pragma once
#include <string>

namespace tessera {

/// Version of the program, build type, compiler, and the versions of the MPI and HDF5 libraries it was built
/// with, one a line.
std::string version_text();

}  // namespace tessera
