#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# matrix.sh NAME: runs one row of matrix.txt on Debian 12. It installs the packages that the row needs, configures and
# builds build/matrix/NAME, and runs the fast tests. matrix.sh list: prints the names, as JSON. Without an argument:
# prints the table.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
say() { printf '\n== %s\n' "$*"; }
fail() { printf 'matrix: %s\n' "$*" >&2; exit 1; }
rows() { grep -v '^#' deploy/matrix.txt; }
case "${1:-}" in
  "") grep -A 99 '^# name' deploy/matrix.txt && exit ;;
  list) rows | awk '{printf "%s\"%s\"", NR == 1 ? "[" : ", ", $1} END {print "]"}' && exit ;;
esac
read -r name processor compiler build sanitizers mpi ofi fortran netcdf < <(rows | awk -v name="$1" '$1 == name') ||
  fail "expected one of $(rows | awk '{printf "%s ", $1}'), found '$1'"

purposes=(library matrix)
[ "$compiler" != clang ] || purposes+=(fuzz)
[ "$mpi" != mpich ] || purposes+=(mpich)
[ "$processor" = native ] || purposes+=("$processor")
./dev deps "${purposes[@]}"

folder=build/matrix/$name
mkdir -p "$folder"
options=(-DCMAKE_BUILD_TYPE="$build" -DCMAKE_COMPILE_WARNING_AS_ERROR=ON
  -DCMAKE_CXX_FLAGS_DEBUG="-O1 -g1" -DCMAKE_C_FLAGS_DEBUG="-O1 -g1"
  -DTREMULA_WITH_OFI="$ofi" -DTREMULA_WITH_FORTRAN="$fortran" -DTREMULA_WITH_NETCDF="$netcdf"
  -DTREMULA_WITH_CAIRO=OFF -DTREMULA_BUILD_EXAMPLES=OFF
  -DCMAKE_UNITY_BUILD=ON -DTREMULA_PRECOMPILE=ON -DTREMULA_PRECOMPILE_OURS=ON)  # by folder, as the gate
case $processor.$compiler in
  native.gcc) options+=(-DCMAKE_C_COMPILER=gcc-12 -DCMAKE_CXX_COMPILER=g++-12) ;;
  native.clang) options+=(-DCMAKE_C_COMPILER=clang-19 -DCMAKE_CXX_COMPILER=clang++-19) ;;
esac
case $mpi in
  off) options+=(-DTREMULA_WITH_MPI=OFF) ;;
  *) options+=(-DTREMULA_WITH_MPI=ON -DMPI_EXECUTABLE_SUFFIX=".$mpi") ;;
esac
targets=(tests_fast client/all cli/all bindings/all coupling/all)
selection=(--label-regex '^fast$')
# Sanitized builds are optimised less, as in the presets.
case $sanitizers in
  none) targets+=(tremula_headers_alone) ;;
  asan) options+=("-DTREMULA_SANITIZE=address,undefined") ;;
  tsan)
    options+=(-DTREMULA_SANITIZE=thread)
    selection+=(--tests-regex '^(core|transport|contract|server|client)\.')
    ;;
esac
[ "$sanitizers" = none ] ||
  options+=(-DCMAKE_CXX_FLAGS=-D_GLIBCXX_ASSERTIONS -DCMAKE_CXX_FLAGS_RELEASE="-O1 -g1 -DNDEBUG")

# unpack_libraries FOLDER ARCHITECTURE: unpacks Debian's libraries for that architecture into FOLDER/root. It installs
# no package, because some of these libraries cannot be installed next to those of the machine.
unpack_libraries() {
  local root=$PWD/$1/root state=$PWD/$1/apt packages package link place
  local apt=(apt-get -q -y -o Debug::NoLocking=1 -o APT::Architecture="$2" -o APT::Architectures="$2"
    -o APT::Sandbox::User="$(id -un)" -o APT::Install-Recommends=0 -o Dir::State::Lists="$state/lists"
    -o Dir::State::Status="$state/status" -o Dir::Cache="$state/cache")
  rm -rf "$root"
  mkdir -p "$root" "$state/lists/partial" "$state/cache/archives/partial"
  : >"$state/status"  # lists no installed package, so apt also fetches all dependencies
  "${apt[@]}" update
  mapfile -t packages < <(awk '$1 ~ /^(library|matrix)$/ && $2 ~ /^lib.*-dev$/ && !/optional/ {print $2}' \
    deploy/dependencies.txt)
  "${apt[@]}" install --download-only "${packages[@]}"
  for package in "$state"/cache/archives/*.deb; do dpkg-deb --extract "$package" "$root"; done
  find "$root" -type l -lname '/*' -printf '%p %l\n' | while read -r link place; do ln -sfn "$root$place" "$link"; done
}
if [ "$processor" = aarch64 ]; then
  say "Libraries for $processor"
  if [ ! -e "$folder/root.done" ]; then
    unpack_libraries "$folder" arm64
    touch "$folder/root.done"
  fi
  root=$PWD/$folder/root
  export PKG_CONFIG_SYSROOT_DIR=$root
  export PKG_CONFIG_LIBDIR=$root/usr/lib/aarch64-linux-gnu/pkgconfig:$root/usr/share/pkgconfig
  cat >"$folder/toolchain.cmake" <<CMAKE
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc-12)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++-12)
set(CMAKE_SYSROOT "$root")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L "$root")
CMAKE
  options+=(-DCMAKE_TOOLCHAIN_FILE="$PWD/$folder/toolchain.cmake")
  # Tests of other rooms start programs, or examine the source tree or files made for the host's processor.
  targets=(client/all cli/all tests_core tests_index_calc tests_proto tests_server tests_transport tests_fuzz)
  selection+=(--label-regex '^(core|index_calc|proto|server|transport|fuzz)(/|$)')
fi

say "Configuring $name: $processor, $compiler, $build, $sanitizers, MPI $mpi, libfabric $ofi, Fortran $fortran," \
  "NetCDF $netcdf"
if command -v ccache >/dev/null; then options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
cmake -G Ninja -S . -B "$folder" "${options[@]}"
# CMake ignores an option that is on if it does not find what the option needs. A row must then fail.
expect_target() {  # expect_target TARGET VALUE
  local is_here=off
  ! ninja -C "$folder" -t query "$1" >/dev/null 2>&1 || is_here=on
  [ "$is_here" = "$2" ] || fail "expected the target $1 to be $2, found it $is_here"
}
expect_target tremula_ofi "$ofi"
expect_target tremula_fortran "$fortran"
expect_target tremula_weights "$netcdf"
expect_target tremula_mpi "$([ "$mpi" = off ] && echo off || echo on)"

say "Building $name"
cmake --build "$folder" --parallel "${JOBS:-$(nproc)}" --target "${targets[@]}" -- -k 0  # shows all errors

say "Testing $name"
export ASAN_OPTIONS=strict_string_checks=1,detect_stack_use_after_return=1
export LSAN_OPTIONS=suppressions=$PWD/deploy/lsan.supp:print_suppressions=0
export TSAN_OPTIONS=ignore_noninstrumented_modules=1
ctest --test-dir "$folder" --parallel "$(($(nproc) * 2))" --output-on-failure --no-tests=error "${selection[@]}"
