// Ranks under MPI. The only door to MPI: its header includes no mpi.h.
#pragma once
#include <memory>

#include "search/context.hpp"

namespace tessera {

/// Was this process started by an MPI launcher (mpiexec, srun with PMI)?
bool started_by_mpi();

/// The context of this process: MPI when a launcher started it, else one process. Initialises MPI; it is finalised
/// with the context. Units are shared by a counter, or cyclically where it does not work or TESSERA_UNITS=cyclic asks for it. Throws InputError where the scheduler started several tasks that do not see each other
/// (each would do the whole sweep in the same folder).
std::unique_ptr<Context> make_context();

}  // namespace tessera
