#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# quick_start.sh SOURCE BUILD MPIEXEC: installs Tremula into a separate prefix, builds the quick start against this
# prefix alone, and runs it as two MPI jobs and a server.
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

# ---- the page ----
# Runs the manual's commands in a folder that contains only the programs of the source tree, with three differences:
# `dev` builds nothing, since BUILD exists; mpirun may oversubscribe cores; the Python package is the source tree's.
commands_of() {  # commands_of NUMBER: prints the commands of that block of the page
  /usr/bin/python3 "$source/docs/site/blocks.py" "$source/docs/start/quick_start.md" install.quick_start "$1"
}
command_of() {  # command_of NUMBER WORDS: prints the one line of that block that contains WORDS, adapted to this build
  local found
  found=$(commands_of "$1" | grep -F -- "$2") || fail "expected a command with '$2' in the page"
  [ "$(wc -l <<<"$found")" = 1 ] || fail "expected one command with '$2' in the page, found: $found"
  sed "s|^mpirun |$mpiexec --oversubscribe |; s|python3 |/usr/bin/python3 |" <<<"$found"
}
export HOME=$work/made
mkdir -p "$HOME"
cd "$work"
mkdir examples
cp -r "$source/examples/00_quick_start" examples/00_quick_start

echo "== install"
command=$(command_of 1 'cmake --install')
[[ "$command" == "./dev build release && cmake --install build/release "* ]] || fail "the page installs with: $command"
command=${command#./dev build release && }
bash -c "${command/build\/release/$build}" >"$work/install.log" || { cat "$work/install.log"; exit 1; }
# The tree can be moved: no file in it may depend on the folder of its installation.
HOME=$work
mv "$work/made/tremula" "$work/tremula"
rmdir "$work/made"
prefix=$work/tremula

echo "== only the C interface and its wrappers are installed"
find "$prefix/include" -type f | sed "s#$prefix/include/##" | sort | tee "$work/headers"
grep -vE '^tremula/tremula(_mpi|_scalapack|_weights)?\.(h|hpp)$|^tremula/fortran/tremula(_[a-z]+)?\.(mod|[fF]90)$' "$work/headers" && fail "internal headers are installed"
library=$(find "$prefix" -name libtremula.so)
readelf --dynamic "$library" | grep 'NEEDED.*libfabric' &&
  fail "libtremula.so is linked with libfabric; only libtremula_ofi.so may be"

echo "== the programs, in C, C++ and Fortran"
bash -c "$(command_of 1 'examples/00_quick_start')" >"$work/configure.log" 2>&1 ||
  { cat "$work/configure.log"; fail "the quick start does not compile"; }

echo "== find_package, in a user's project"
mkdir "$work/own"
cp examples/00_quick_start/producer.cpp "$work/own/my_program.cpp"
{
  printf 'cmake_minimum_required(VERSION 3.25)\nproject(own LANGUAGES CXX)\nadd_executable(my_program my_program.cpp)\n'
  commands_of 4
} >"$work/own/CMakeLists.txt"
cmake -G Ninja -S "$work/own" -B "$work/own/build" -DCMAKE_PREFIX_PATH="$prefix" >"$work/configure.log" 2>&1 ||
  { cat "$work/configure.log"; exit 1; }
cmake --build "$work/own/build" || fail "a user's project does not compile"

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
[ "$version" = "$(pkg-config --modversion tremula)" ] ||
  fail "the library has version $version, but tremula.pc has another version"

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
  eval "$(command_of 2 'tremula serve')" '--port 0 --port-file "$work/port" >"$work/server.log" 2>&1 &'
  server=$!
}
start() {  # start JOB COMMAND: starts it in the background as a separate job
  # Two mpiruns that start together in one TMPDIR can both try to create the same folder in it, and one then gives up.
  mkdir -p "$work/$1.tmp"
  TMPDIR=$work/$1.tmp timeout 120 bash -c "exec $2" >"$work/$1.log" 2>"$work/$1.errors" &
}
begun() {  # begun PROGRAM: checks that it has joined a server, or says that it waits for one
  for _ in $(seq 600); do
    grep -q waits_for_server "$work/$1.errors" && return
    grep -q "group=$1 " "$work/server.log" 2>/dev/null && return
    sleep 0.1
  done
  cat "$work/$1.errors"; fail "$1 neither joined nor reported that it waits"
}
for order in "serve producer consumer" "serve consumer producer" "producer serve consumer" \
             "consumer serve producer" "producer consumer serve" "consumer producer serve"; do
  echo "-- $order"
  rm -f "$work/server.log" "$work/port"
  for what in $order; do
    case $what in
      serve) serve ;;
      producer) start producer "$(command_of 2 quick_start_producer)"; producer=$!; begun producer ;;
      consumer) start consumer "$(command_of 2 quick_start_consumer)"; consumer=$!; begun consumer ;;
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
echo "== each language with another one"
export PYTHONPATH=$source/bindings/python PYTHONDONTWRITEBYTECODE=1 TREMULA_LIBRARY=$library
job() {  # job ROLE LANGUAGE: prints the command of the page
  case $2 in
    cpp) command_of 2 "quick_start_$1" ;;
    c | fortran) command_of 2 "quick_start_$1" | sed "s|quick_start_$1|&_$2|" ;;
    python) command_of 3 "$1.py" ;;
  esac
}
grep -q 'quick_start_producer_c.*quick_start_consumer_c' "$source/docs/start/quick_start.md" || fail "the page names no programs in C"
grep -q 'quick_start_producer_fortran' "$source/docs/start/quick_start.md" || fail "the page names no programs in Fortran"
serve
for pair in "c fortran" "fortran python" "python c" "cpp python"; do
  read -r from to <<<"$pair"
  echo "-- $from to $to"
  start producer "$(job producer "$from")"; producer=$!
  start consumer "$(job consumer "$to")"; consumer=$!
  wait "$consumer" || { cat "$work"/{producer,consumer}.errors; fail "the consumer in $to"; }
  wait "$producer" || { cat "$work/producer.errors"; fail "the producer in $from"; }
  for step in $(seq 0 9); do
    echo "step $step: mean $((step * 1000000 + 399999)).5"
  done | diff - "$work/consumer.log" || fail "the consumer in $to has other numbers than the producer in $from"
done

echo "== without MPI, in Python"
commands_of 5 >analysis.py
start producer "$(job producer cpp)"; producer=$!
timeout 120 bash -c "$(command_of 6 analysis.py); wait" >"$work/analysis.log" 2>&1 || { cat "$work/analysis.log"; fail "analysis.py"; }
wait "$producer" || fail "the producer of analysis.py"
# Both ranks write to one log, so words of their lines may be interleaved.
means=$(grep -oE '9(399|400)[0-9]{3}\.[0-9]' "$work/analysis.log" | cut -c1-4 | sort | xargs)
[ "$means" = "9399 9400" ] ||
  { cat "$work/analysis.log"; fail "expected the means of step 9, 9399... of rank 0 and 9400... of rank 1, found $means"; }
kill "$server"
wait "$server" || fail "the server ended with $?"
server=
echo "== the numbers agree"
