#!/usr/bin/env bash
# Sourced by the scripts: environment for MPI on a workstation, in a container or on a node. Every value can be
# set beforehand; nothing here overrides a site's choice.

# MPICH's launcher, also where another MPI is the default `mpiexec`.
if [ -z "${TESSERA_MPIEXEC:-}" ]; then
  if command -v mpiexec.mpich >/dev/null 2>&1; then TESSERA_MPIEXEC=mpiexec.mpich; else TESSERA_MPIEXEC=mpiexec; fi
fi
export TESSERA_MPIEXEC

# UCX (the transport below MPICH): warnings about absent network devices are noise for a program that sends a
# few bytes per work unit.
export UCX_LOG_LEVEL="${UCX_LOG_LEVEL:-error}"
export UCX_WARN_UNUSED_ENV_VARS="${UCX_WARN_UNUSED_ENV_VARS:-n}"
# Ranks of one machine talk through shared memory and the loopback device; a cluster's jobs set their own
# transports (or leave the choice to UCX) by TESSERA_CLUSTER=1.
if [ -z "${TESSERA_CLUSTER:-}" ]; then
  export HYDRA_IFACE="${HYDRA_IFACE:-lo}"
fi
