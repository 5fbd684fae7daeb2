# Spack recipe. Add the folder as a repository and install:
#   mkdir -p repo/packages/tessera && cp jobs/spack/package.py repo/packages/tessera/ && echo "repo: {namespace: tessera}" > repo/repo.yaml
#   spack repo add repo && spack install tessera
# The source is a checkout: `spack develop --path /path/to/checkout tessera@main`.
from spack.package import *


class Tessera(CMakePackage):
    """Finds the cluster-optimal sparse Mixture-of-Experts model for a GPU cluster and a window of time."""

    license("Apache-2.0")
    version("main")

    variant("tests", default=False, description="Build the tests")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("mpi@3:")
    depends_on("hdf5@1.10:+mpi")
    depends_on("tbb")
    depends_on("cli11@2.1:")
    depends_on("tomlplusplus@3.3:")
    depends_on("fmt@9:")
    depends_on("spdlog@1.10:+fmt_external")
    depends_on("nlohmann-json@3.11:")
    depends_on("libdeflate@1.14:")
    depends_on("ceres-solver@2.1:")
    depends_on("eigen@3.4:")
    depends_on("catch2@2.13:2", when="+tests")

    generator("ninja")
    conflicts("%gcc@:11", msg="C++20 as Tessera uses it needs GCC 12 or newer")

    def cmake_args(self):
        return [self.define_from_variant("TESSERA_TESTS", "tests")]
