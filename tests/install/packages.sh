#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# packages.sh SOURCE BUILD MPIEXEC: checks that programs in C++ and Fortran find an installed Tremula through
# pkg-config, CMake and the manual's link line, and start; and that the pages that Tremula's texts name are installed.
set -euo pipefail
source=$1 build=$2 mpiexec=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }
unset LD_LIBRARY_PATH
prefix=$work/tremula
libraries=$prefix/lib
cmake --install "$build" --prefix "$prefix" >"$work/install.log" || { cat "$work/install.log"; exit 1; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1
configure() {  # configure FOLDER: CMake's output goes to configure.log
  cmake -G Ninja -S "$1" -B "$1/build" -DCMAKE_PREFIX_PATH="$prefix" >"$work/configure.log" 2>&1
}
built() {  # built FOLDER: configures and builds
  configure "$1" || { cat "$work/configure.log"; fail "$1 does not configure"; }
  cmake --build "$1/build" || fail "$1 does not build"
}

echo "== the pages that --help and errors name"
pages=$(cd "$source" &&
  grep -rh --include='*.cpp' --include='*.hpp' -v -e '^ *//' -e '#include' -- \
    cli client core index_calc proto server transport |
  grep -oE '"[^"]*\.md\b' | grep -oE '[A-Za-z_/]+\.md' | sort -u)
[ -n "$pages" ] || fail "expected texts that name pages"
for page in $pages; do
  [ -s "$prefix/$page" ] || fail "texts name $page, which is not in the installed prefix"
done

echo "== the links of the installed manual"
/usr/bin/python3 - "$prefix/share/doc/tremula" <<'PYTHON' || fail "links of the installed manual are dead"
import pathlib, re, sys
root, links, broken = pathlib.Path(sys.argv[1]), 0, []
for page in root.rglob("*.md"):
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
        if not re.match("[a-z]+:", target):
            links += 1
            if not (page.parent / target).exists():
                broken.append(f"{page.relative_to(root)}: {target}")
print(f"{links} links, broken: {broken}")
sys.exit(links < 100 or bool(broken))
PYTHON

echo "== a C++ program, for a compiler whose default is C++17 or older"
mkdir "$work/cpp"
cat >"$work/cpp/program.cpp" <<'CPP'
#include <cstdio>
#include <tremula/tremula.hpp>
int main() { std::puts(tremula::Layout::parse("shape=4 grid=2").text().c_str()); }
CPP
export PKG_CONFIG_PATH=$libraries/pkgconfig
# shellcheck disable=SC2046
c++ "$work/cpp/program.cpp" -o "$work/cpp/program" $(pkg-config --cflags --libs tremula_cpp) -Wl,-rpath,"$libraries" ||
  fail "a C++ program does not build with pkg-config tremula_cpp"
[ "$("$work/cpp/program")" = "shape=4 grid=2" ] || fail "the program built with pkg-config does not run"
cat >"$work/cpp/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.25)
project(cpp LANGUAGES CXX)
set(CMAKE_CXX_STANDARD 17)
find_package(tremula REQUIRED)
add_executable(program program.cpp)
target_link_libraries(program PRIVATE tremula::tremula)
CMAKE
built "$work/cpp"
"$work/cpp/build/program" || fail "the program built with CMake does not run"

echo "== a project in Fortran alone"
mkdir "$work/fortran"
cat >"$work/fortran/program.f90" <<'FORTRAN'
program main
  use, intrinsic :: iso_c_binding
  use mpi
  implicit none
  interface
    integer(c_int) function tremula_layout_parse(text, layout) bind(c)
      import
      character(kind=c_char), intent(in) :: text(*)
      type(c_ptr), intent(out) :: layout
    end function
    subroutine tremula_redistribution_free(redistribution) bind(c)
      import
      type(c_ptr), value :: redistribution
    end subroutine
  end interface
  type(c_ptr) :: layout
  integer :: error
  call mpi_init(error)
  if (tremula_layout_parse('shape=4 grid=2'//c_null_char, layout) /= 0) error stop 'no layout'
  call tremula_redistribution_free(c_null_ptr)
  call mpi_finalize(error)
end program
FORTRAN
cat >"$work/fortran/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.25)
project(fortran LANGUAGES Fortran)
find_package(tremula REQUIRED COMPONENTS mpi)
add_executable(program program.f90)
target_link_libraries(program PRIVATE tremula::mpi)
CMAKE
built "$work/fortran"
timeout 60 "$mpiexec" --oversubscribe --bind-to none -n 2 "$work/fortran/build/program" || fail "the Fortran program"

echo "== pkg-config tremula_weights"
cat >"$work/regrid.c" <<'C'
#include <stdio.h>
#include <tremula/tremula_weights.h>
int main(void) {
  tremula_weights* none = NULL;
  const tremula_status status = tremula_weights_open(NULL, "weights.nc", NULL, NULL, &none);
  printf("%d %s\n", status, tremula_last_error());
  return status != TREMULA_INVALID_ARGUMENT;
}
C
# shellcheck disable=SC2046
cc -std=c99 "$work/regrid.c" -o "$work/regrid" $(pkg-config --cflags --libs tremula_weights) -Wl,-rpath,"$libraries" ||
  fail "a C program does not build with pkg-config tremula_weights"
said=$("$work/regrid") || fail "the program with tremula_weights: $said"
[[ "$said" == *"session: expected a pointer; found NULL"* ]] ||
  fail "an error of libtremula_weights.so has no text: $said"

echo "== pkg-config tremula_mpi, for MPI's compiler"
mpicc=mpicc mpif90=mpif90
! command -v mpif90.openmpi >/dev/null || { mpicc=mpicc.openmpi; mpif90=mpif90.openmpi; }
cat >"$work/one_job.c" <<'C'
#include <stdio.h>
#include <tremula/tremula_mpi.h>
int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  tremula_redistribution* none = NULL;
  const tremula_status status = tremula_redistribution_make(MPI_COMM_WORLD, NULL, 1, 0, &none);
  printf("%d %s\n", status, tremula_last_error());
  MPI_Finalize();
  return status != TREMULA_INVALID_ARGUMENT;
}
C
# shellcheck disable=SC2046
"$mpicc" "$work/one_job.c" -o "$work/one_job" $(pkg-config --cflags --libs tremula_mpi) -Wl,-rpath,"$libraries" ||
  fail "a C program with MPI does not build with pkg-config tremula_mpi"
said=$(timeout 60 "$mpiexec" --oversubscribe --bind-to none -n 1 "$work/one_job") ||
  fail "the program with tremula_mpi: $said"
[[ "$said" == *"updates: expected a pointer; found NULL"* ]] || fail "an error of libtremula_mpi.so has no text: $said"

echo "== a libtremula.so of another version"
cat >"$work/other.c" <<'C'
#include <stdio.h>
static int fail(int status, const char* text) { printf("%s\n", text); return status; }
static const struct { const char* version; int (*fail)(int, const char*); } other = {"9.9.9", fail};
const void* tremula_private_interface(void) { return &other; }
C
cc -shared -fPIC "$work/other.c" -o "$work/other.so"
said=$(timeout 60 "$mpiexec" --oversubscribe --bind-to none -n 1 -x LD_PRELOAD="$work/other.so" "$work/one_job" || true)
[[ "$said" == *"expected libtremula.so of the same version, found version 9.9.9"* ]] ||
  fail "libtremula_mpi.so works with another version: $said"

echo "== no MPI: find_package says why"
mkdir "$work/none"
cat >"$work/none/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.25)
project(none LANGUAGES NONE)
find_package(tremula REQUIRED COMPONENTS mpi)
CMAKE
configure "$work/none" && fail "expected that no MPI is found without a language"
tr -s ' \n' ' ' <"$work/configure.log" | grep -q "component mpi: expected an MPI for C, C++ or Fortran" ||
  { cat "$work/configure.log"; fail "find_package does not say why there is no component mpi"; }

echo "== find_package takes each target as a component, and says which it does not know"
mkdir "$work/all" "$work/unknown" "$work/no_fortran"
cat >"$work/all/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.25)
project(all LANGUAGES C CXX Fortran)
foreach(component mpi fortran fortran_mpi fortran_weights weights scalapack oasis)
  find_package(tremula REQUIRED COMPONENTS ${component})
  if(NOT TARGET tremula::${component})
    message(FATAL_ERROR "expected the target tremula::${component}")
  endif()
endforeach()
find_package(tremula REQUIRED OPTIONAL_COMPONENTS no_such_component)
CMAKE
configure "$work/all" || { cat "$work/configure.log"; fail "a component is not found"; }
cat >"$work/unknown/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.25)
project(unknown LANGUAGES C)
find_package(tremula REQUIRED COMPONENTS no_such_component)
CMAKE
configure "$work/unknown" && fail "expected that a component of no such name is refused"
tr -s ' \n' ' ' <"$work/configure.log" | grep -q "component no_such_component: expected one of mpi, fortran," ||
  { cat "$work/configure.log"; fail "find_package does not say which components there are"; }
sed 's/no_such_component/fortran_mpi/' "$work/unknown/CMakeLists.txt" >"$work/no_fortran/CMakeLists.txt"
configure "$work/no_fortran" && fail "expected that fortran_mpi is refused in a project without Fortran"
tr -s ' \n' ' ' <"$work/configure.log" |
  grep -q "component fortran_mpi: expected Fortran among the languages of this project (C)" ||
  { cat "$work/configure.log"; fail "find_package does not say that the project lacks Fortran"; }

echo "== the manual's link line for a program that calls ScaLAPACK"
mkdir "$work/relink"
cd "$work/relink"
"$mpicc" -c -I"$prefix/include" "$source/tests/scalapack/relink.c" -o program.o
# The distribution's ScaLAPACK may be installed without the link for compilers.
ln -s "$("$mpicc" -print-file-name=libscalapack-openmpi.so.2.2)" libscalapack-openmpi.so
page=$source/docs/howto/scalapack.md
line=$(/usr/bin/python3 "$source/docs/site/blocks.py" "$page" install.packages | grep '^mpif90 program.o ') ||
  fail "$page has no link line that begins with mpif90 program.o"
HOME=$work LIBRARY_PATH=$PWD bash -xc "$mpif90 ${line#mpif90 } -ltremula" || fail "the manual's line does not link"
timeout 120 "$mpiexec" --oversubscribe --bind-to none -n 4 ./a.out || fail "the program that it links does not run"
