# SPDX-License-Identifier: Apache-2.0
# deploy/dependencies.txt lists the packages and the reason for each.
include_guard()

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(Boost 1.74 REQUIRED)
find_package(Protobuf REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(CLI11 REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)

set(TREMULA_HAS_MPI OFF)
if(TREMULA_WITH_MPI)
  if(NOT DEFINED MPI_EXECUTABLE_SUFFIX AND EXISTS /usr/bin/mpicc.openmpi)
    set(MPI_EXECUTABLE_SUFFIX .openmpi)  # Debian's MPICH cannot open ports
  endif()
  find_package(MPI COMPONENTS C)
  if(MPI_C_FOUND)
    set(TREMULA_HAS_MPI ON)
  endif()
endif()

set(TREMULA_HAS_OFI OFF)
if(TREMULA_WITH_OFI)
  pkg_check_modules(libfabric IMPORTED_TARGET libfabric)
  if(libfabric_FOUND)
    set(TREMULA_HAS_OFI ON)
  endif()
endif()

set(TREMULA_HAS_CAIRO OFF)
if(TREMULA_WITH_CAIRO)
  pkg_check_modules(cairo IMPORTED_TARGET cairo)
  if(cairo_FOUND)
    set(TREMULA_HAS_CAIRO ON)
  endif()
endif()

if(TREMULA_BUILD_TESTS)
  find_package(GTest REQUIRED)
endif()
if(TREMULA_BUILD_BENCHMARKS)
  find_package(benchmark REQUIRED)
endif()

message(STATUS "Tremula transports: loopback, ofi ${TREMULA_HAS_OFI}, mpi ${TREMULA_HAS_MPI}")
