# SPDX-License-Identifier: Apache-2.0
"""Spack recipe; deploy/README.md states what was tested. Copy it into a repository of your own recipes, as
packages/tremula/package.py, then run `spack install tremula`. Until there is a release, put the path of the source tree
into homepage and git."""
from spack.package import *


class Tremula(CMakePackage):
    """Separately started parallel jobs share distributed arrays, straight from memory to memory."""

    homepage = "file:///path/to/tremula"
    git = "file:///path/to/tremula"
    license("Apache-2.0")

    version("main", branch="main")

    variant("mpi", default=True, description="communicators, the mpi transport, ScaLAPACK's p?gemr2d")
    variant("ofi", default=True, description="libfabric between hosts")
    variant("fortran", default=True, description="the modules tremula and tremula_mpi")
    variant("netcdf", default=True, description="regridding with weight files; with +mpi+fortran the module tremula_oasis")
    variant("cairo", default=True, description="tremula plan --draw FILE.png")
    variant("python", default=False, description="the package tremula, on NumPy arrays")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("fortran", type="build", when="+fortran")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("boost@1.74:")
    depends_on("cli11@2.1:", type="build")
    depends_on("fmt@9:")
    depends_on("openssl@3:")
    depends_on("protobuf@3.21:")
    depends_on("spdlog@1.10:+fmt_external")
    depends_on("xxhash@0.8:")
    depends_on("yaml-cpp@0.7:")
    depends_on("openmpi@4.1:4", when="+mpi")
    depends_on("libfabric@1.17:", when="+ofi")
    depends_on("netcdf-c", when="+netcdf")
    depends_on("cairo+png", when="+cairo")

    extends("python@3.9:", when="+python")
    depends_on("py-numpy", type=("build", "run"), when="+python")

    generator("ninja")
    conflicts("%gcc@:11", msg="needs C++20 as in g++ 12")

    def cmake_args(self):
        return [
            self.define("TREMULA_BUILD_TESTS", False),
            self.define("TREMULA_BUILD_EXAMPLES", False),
            self.define_from_variant("TREMULA_WITH_MPI", "mpi"),
            self.define_from_variant("TREMULA_WITH_OFI", "ofi"),
            self.define_from_variant("TREMULA_WITH_CAIRO", "cairo"),
            self.define_from_variant("TREMULA_WITH_FORTRAN", "fortran"),
            self.define_from_variant("TREMULA_WITH_NETCDF", "netcdf"),
        ]

    @run_after("install", when="+python")
    def install_python(self):
        install_tree("bindings/python/tremula", join_path(python_platlib, "tremula"))

    def setup_run_environment(self, env):
        if self.spec.satisfies("+python"):
            env.set("TREMULA_LIBRARY", self.libs[0])

    @property
    def libs(self):
        return find_libraries("libtremula", root=self.prefix, shared=True, recursive=True)
