#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# embedded.sh SOURCE: a project that contains the sources of Tremula, as docs/start/quick_start.md shows, gets the
# library without the program. Configures, and compiles nothing: Ninja lists what it would do.
set -euo pipefail
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }
shown=$(/usr/bin/python3 "$source/docs/site/blocks.py" "$source/docs/start/quick_start.md" install.embedded)
[ "$(grep -c '^add_subdirectory(tremula)' <<<"$shown")" = 1 ] ||
  fail "expected the page to add one folder, found: $shown"

commands() {  # commands NAME LINES: configures a project with these lines, and prints the commands of its build
  local folder=$work/$1
  mkdir "$folder"
  ln -s "$source" "$folder/tremula"
  printf '%s\n' '#include <tremula/tremula.hpp>' \
    'int main() { return tremula::Layout::parse("shape=4 grid=2").dimensions() - 1; }' >"$folder/my_program.cpp"
  printf '%s\n' 'cmake_minimum_required(VERSION 3.25)' 'project(own LANGUAGES C CXX)' \
    'add_executable(my_program my_program.cpp)' "$2" >"$folder/CMakeLists.txt"
  cmake -G Ninja -S "$folder" -B "$folder/build" -DTREMULA_WITH_OFI=OFF >"$folder/log" 2>&1 ||
    { cat "$folder/log" >&2; fail "the project '$1' does not configure"; }
  ninja -C "$folder/build" -t commands
}
has() {  # has FILE PATTERN: succeeds if a command in the file matches PATTERN
  grep -E -- "$2" "$1" >/dev/null
}
expect_library() {  # expect_library FILE
  has "$1" '-o [^ ]*/libtremula\.so' || fail "expected the library to be linked"
  has "$1" '-o my_program( |$)' || fail "expected the program of the project to be linked"
  ! has "$1" '/tests/CMakeFiles/' || fail "expected the tests to be left out"
}

echo "== as the page shows it"
commands shown "$shown" >"$work/shown.commands"
expect_library "$work/shown.commands"
! has "$work/shown.commands" '/(cli|server)/CMakeFiles/|-o [^ ]*bin/tremula( |$)' ||
  fail "TREMULA_BUILD_PROGRAM is OFF, and the program is built"

echo "== with the program, by FetchContent"
# shellcheck disable=SC2016
fetch='include(FetchContent)\nFetchContent_Declare(tremula SOURCE_DIR ${CMAKE_SOURCE_DIR}/tremula)\n'
fetch+='FetchContent_MakeAvailable(tremula)'
fetched=$(sed "/TREMULA_BUILD_PROGRAM/d; s|^add_subdirectory(tremula).*|$fetch|" <<<"$shown")
commands fetched "$fetched" >"$work/fetched.commands"
expect_library "$work/fetched.commands"
for pattern in '/server/CMakeFiles/' '-o [^ ]*bin/tremula( |$)'; do
  has "$work/fetched.commands" "$pattern" || fail "expected the program to be built unless it is switched off"
done
