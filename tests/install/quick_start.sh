#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# quick_start.sh SOURCE BUILD MPIEXEC: installs Tremula into a prefix of its own, builds the quick start from a folder
# that knows nothing but this prefix, and runs it as two MPI jobs and a server.
set -euo pipefail
source=$1 build=$2 mpiexec=$3
work=$(mktemp -d)
server=
finish() {
  [ -z "$server" ] || kill "$server" 2>/dev/null || true
  rm -rf "$work"
}
trap finish EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }
prefix=$work/prefix

echo "== install"
cmake --install "$build" --prefix "$prefix" >"$work/install.log" || { cat "$work/install.log"; exit 1; }
# The tree can be moved: nothing in it may know where it was made.
mv "$prefix" "$work/moved"
prefix=$work/moved

echo "== only the C interface and its skins are seen"
find "$prefix/include" -type f | sed "s#$prefix/include/##" | sort | tee "$work/headers"
grep -vE '^tremula/tremula(_mpi|_scalapack|_weights)?\.(h|hpp)$|^tremula/fortran/tremula(_[a-z]+)?\.(mod|[fF]90)$' "$work/headers" && fail "internal headers are installed"
library=$(find "$prefix" -name libtremula.so)
readelf --dynamic "$library" | grep 'NEEDED.*libfabric' &&
  fail "libtremula.so is linked with libfabric; only libtremula_ofi.so may be"

echo "== find_package, from outside of the repository"
cp -r "$source/examples/00_quick_start" "$work/quick_start"
cmake -G Ninja -S "$work/quick_start" -B "$work/quick_start/build" -DCMAKE_PREFIX_PATH="$prefix" \
  >"$work/configure.log" || { cat "$work/configure.log"; exit 1; }
cmake --build "$work/quick_start/build" || fail "the quick start does not compile"

echo "== pkg-config, a C program"
cat >"$work/version.c" <<'C'
#include <stdio.h>
#include <tremula/tremula.h>
int main(void) { return puts(tremula_version()) < 0; }
C
export PKG_CONFIG_PATH
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name tremula.pc)")
# shellcheck disable=SC2046
cc "$work/version.c" -o "$work/version" $(pkg-config --cflags --libs tremula)
version=$(LD_LIBRARY_PATH=$(dirname "$library") "$work/version")
[ "$version" = "$(pkg-config --modversion tremula)" ] || fail "library says $version, tremula.pc something else"

echo "== a program that calls ScaLAPACK, linked again"
mkdir "$work/relink"
cp "$source/tests/scalapack/relink.c" "$work/relink"
cat >"$work/relink/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.25)
project(relink LANGUAGES C)
find_package(tremula REQUIRED COMPONENTS mpi)
add_executable(relink relink.c)
target_link_libraries(relink PRIVATE tremula::scalapack -l:libscalapack-openmpi.so.2.2 tremula::mpi ${CMAKE_DL_LIBS})
CMAKE
cmake -G Ninja -S "$work/relink" -B "$work/relink/build" -DCMAKE_PREFIX_PATH="$prefix" >"$work/configure.log" ||
  { cat "$work/configure.log"; exit 1; }
cmake --build "$work/relink/build" || fail "a program that calls ScaLAPACK does not link"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1
timeout 120 "$mpiexec" --oversubscribe --bind-to none -n 4 "$work/relink/build/relink" || fail "relink"

echo "== a server and two jobs, in every order"
export TREMULA_SERVER=file:$work/port TREMULA_TIMEOUT=60
serve() {
  "$prefix/bin/tremula" serve --port 0 --port-file "$work/port" >"$work/server.log" 2>&1 &
  server=$!
}
start() {  # start PROGRAM RANKS: a job of its own
  # Two mpirun that start at once in one TMPDIR can both want to make the same folder in it, and one then gives up.
  mkdir -p "$work/$1.tmp"
  TMPDIR=$work/$1.tmp timeout 120 "$mpiexec" --oversubscribe --bind-to none -n "$2" \
    "$work/quick_start/build/quick_start_$1" >"$work/$1.log" 2>"$work/$1.errors" &
}
begun() {  # begun PROGRAM: it has joined a server, or says that it waits for one
  for _ in $(seq 600); do
    grep -q waits_for_server "$work/$1.errors" && return
    grep -q "group=$1 " "$work/server.log" 2>/dev/null && return
    sleep 0.1
  done
  cat "$work/$1.errors"; fail "$1 neither joined nor said that it waits"
}
for order in "serve producer consumer" "serve consumer producer" "producer serve consumer" \
             "consumer serve producer" "producer consumer serve" "consumer producer serve"; do
  echo "-- $order"
  rm -f "$work/server.log" "$work/port"
  for what in $order; do
    case $what in
      serve) serve ;;
      producer) start producer 2; producer=$!; begun producer ;;
      consumer) start consumer 3; consumer=$!; begun consumer ;;
    esac
  done
  consumer_status=0 producer_status=0
  wait "$consumer" || consumer_status=$?
  wait "$producer" || producer_status=$?
  cat "$work"/{producer,consumer}.{log,errors}
  [ "$producer_status" = 0 ] || fail "the producer ended with $producer_status"
  [ "$consumer_status" = 0 ] || fail "the consumer ended with $consumer_status"
  # The mean of 0 1 2 ... 799999 is 399999.5; a step adds a million.
  for step in $(seq 0 9); do
    echo "step $step: mean $((step * 1000000 + 399999)).5"
  done | diff - "$work/consumer.log" || fail "the consumer has other numbers than the producer"
  kill "$server"
  wait "$server" || fail "the server ended with $?"
  server=
  [ ! -e "$work/port" ] || fail "the port file is still there"
done
echo "== the README's consumer in Fortran"
mkdir "$work/fortran"
awk '/^```fortran$/ {on = 1; next} /^```$/ {on = 0} on' "$source/README.md" >"$work/fortran/consumer.f90"
cat >"$work/fortran/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.25)
project(fortran LANGUAGES Fortran)
find_package(tremula REQUIRED COMPONENTS mpi)
add_executable(quick_start_fortran consumer.f90)
target_link_libraries(quick_start_fortran PRIVATE tremula::fortran_mpi)
CMAKE
cmake -G Ninja -S "$work/fortran" -B "$work/fortran/build" -DCMAKE_PREFIX_PATH="$prefix" >"$work/configure.log" 2>&1 ||
  { cat "$work/configure.log"; exit 1; }
cmake --build "$work/fortran/build" || fail "the README's consumer in Fortran does not build"
cp "$work/fortran/build/quick_start_fortran" "$work/quick_start/build"
serve
start producer 2; producer=$!
start fortran 3; fortran=$!
wait "$fortran" || { cat "$work/fortran.errors"; fail "the consumer in Fortran"; }
wait "$producer" || fail "the producer of the consumer in Fortran"
for step in $(seq 0 9); do
  echo "step $step, first element $((step * 1000000))"
done | diff - "$work/fortran.log" || fail "the consumer in Fortran has other numbers"
kill "$server"
wait "$server" || fail "the server ended with $?"
server=
echo "== the numbers agree"
