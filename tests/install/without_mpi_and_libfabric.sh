#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# without_mpi_and_libfabric.sh SOURCE BUILD [COMPILER_LAUNCHER]: checks that the library and the program build, install
# and start without MPI and libfabric. BUILD is kept, except for the cache of CMake, so that the next run compiles only
# files that have changed.
set -euo pipefail
source=$1 build=$2 launcher=${3:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --fresh -S "$source" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0 -DCMAKE_UNITY_BUILD=ON \
  -DCMAKE_CXX_COMPILER_LAUNCHER="$launcher" \
  -DTREMULA_WITH_MPI=OFF -DTREMULA_WITH_OFI=OFF -DTREMULA_BUILD_TESTS=OFF -DTREMULA_BUILD_EXAMPLES=OFF |
  grep 'Tremula transports'
cmake --build "$build"
cmake --install "$build" --prefix "$work/prefix" >/dev/null
"$work/prefix/bin/tremula" version
if [ -n "$(find "$work/prefix" -name 'libtremula_ofi*')" ]; then
  echo "FAILED: libtremula_ofi.so is installed, but there is no libfabric" >&2
  exit 1
fi
for header in tremula_mpi.h tremula_scalapack.h; do
  if [ -e "$work/prefix/include/tremula/$header" ]; then
    echo "FAILED: $header is installed, but no library has its functions" >&2
    exit 1
  fi
done
