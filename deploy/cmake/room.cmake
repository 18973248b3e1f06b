# SPDX-License-Identifier: Apache-2.0
# The common parts of all rooms: one static library tremula_<room>, warnings, sanitizers.
include_guard()

set(TREMULA_SANITIZE "" CACHE STRING "Sanitizers, e.g. address,undefined or thread")

add_library(tremula_options INTERFACE)
target_include_directories(tremula_options INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(tremula_options INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow
  # std::stable_sort of libstdc++ 12 uses its own deprecated get_temporary_buffer; Clang blames the caller.
  $<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations>)
if(CMAKE_UNITY_BUILD)  # unity builds report shadowing across files
  target_compile_options(tremula_options INTERFACE -Wno-shadow $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endif()
if(TREMULA_SANITIZE)
  target_compile_options(tremula_options INTERFACE
    -fsanitize=${TREMULA_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer
    # GCC gives false alarms in instrumented code, and warns of the fences in Boost.Asio, which it does not instrument.
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized;-Wno-tsan>)
  target_link_options(tremula_options INTERFACE -fsanitize=${TREMULA_SANITIZE}
    # Clang links C programs without the sanitizer's C++ part, which our libraries need.
    $<$<LINK_LANG_AND_ID:C,Clang>:-fsanitize-link-c++-runtime>)
  target_link_libraries(tremula_options INTERFACE $<$<LINK_LANG_AND_ID:C,Clang>:stdc++>)
  foreach(sanitizer address thread)  # GCC defines these macros, and so does Clang since version 21
    string(TOUPPER ${sanitizer} name)
    if(TREMULA_SANITIZE MATCHES ${sanitizer})
      target_compile_definitions(tremula_options INTERFACE $<$<CXX_COMPILER_ID:Clang>:__SANITIZE_${name}__=1>)
    endif()
  endforeach()
endif()

# tremula_add_room(index_calc SOURCES a.cpp b.cpp [PUBLIC targets...] [PRIVATE targets...] [PRECOMPILE <header>...])
function(tremula_add_room name)
  cmake_parse_arguments(ARG "" "" "SOURCES;PUBLIC;PRIVATE;PRECOMPILE" ${ARGN})
  add_library(tremula_${name} STATIC ${ARG_SOURCES})
  target_link_libraries(tremula_${name} PUBLIC tremula_options ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE})
  tremula_unite_folders(tremula_${name})
  if("fmt::fmt" IN_LIST ARG_PRIVATE)
    list(APPEND ARG_PRECOMPILE <fmt/format.h>)
  endif()
  tremula_precompile(tremula_${name} ${ARG_PRECOMPILE})
endfunction()

# Compilers spend most of their time on headers of other projects. With TREMULA_PRECOMPILE each target compiles the most
# common of these headers once. Our own headers are not precompiled, so a change to one recompiles only the sources that
# include it. A missing include shows in presets without TREMULA_PRECOMPILE, such as release.
option(TREMULA_PRECOMPILE "Precompile the headers of the standard library and others" OFF)
set(tremula_common_headers <algorithm> <array> <atomic> <chrono> <cstring> <filesystem> <fstream> <functional> <limits> <map>
  <memory> <mutex> <numeric> <optional> <random> <set> <span> <sstream> <string> <thread> <variant> <vector>)
# tremula_precompile(target [<header>...]): precompiles the common headers and the given ones.
function(tremula_precompile target)
  if(TREMULA_PRECOMPILE)
    target_precompile_headers(${target} PRIVATE ${tremula_common_headers} ${ARGN})
  endif()
endfunction()

# With CMAKE_UNITY_BUILD each folder of a room is compiled as one source, together with the folders in it, which takes
# half the time. A name may then be defined only once in such a folder, even in unnamed namespaces. Other builds find
# mistakes that a unity build hides, such as a missing include.
function(tremula_unite_folders target)
  if(NOT CMAKE_UNITY_BUILD)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
  get_target_property(sources ${target} SOURCES)
  foreach(source ${sources})
    cmake_path(GET source PARENT_PATH folder)
    string(REGEX REPLACE "/.*" "" folder "${folder}")
    string(MAKE_C_IDENTIFIER "in_${folder}" group)
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group})
  endforeach()
endfunction()

# tremula_add_test(index_calc.plan SOURCES plan/plan_test.cpp LINK tremula_index_calc
#                  [LABELS unit] [SLOW] [ALSO_UNSANITIZED] [NO_LEAK_CHECK] [FOLDER index_calc/plan] [ARGS ...])
# Adds one GoogleTest program as one ctest entry. Its labels are the suite, `fast` or `slow`, and the folder that it
# tests, by default that of its first source in tests/. A fast test ends within about five seconds and needs no mpirun.
# ALSO_UNSANITIZED: some of its tests cannot run under a sanitizer, e.g. those that count or limit memory.
# NO_LEAK_CHECK: for tests that start MPI jobs; tests/transport/mpi states the reason.
function(tremula_add_test name)
  cmake_parse_arguments(ARG "SLOW;ALSO_UNSANITIZED;NO_LEAK_CHECK" "LABELS;FOLDER" "SOURCES;LINK;ARGS" ${ARGN})
  string(REPLACE "." "_" target ${name}_test)
  add_executable(${target} ${ARG_SOURCES})
  target_link_libraries(${target} PRIVATE tremula_options tremula_test_options ${ARG_LINK} GTest::gtest GTest::gtest_main)
  if("tremula_client" IN_LIST ARG_LINK OR "tremula_server" IN_LIST ARG_LINK)
    target_link_libraries(${target} PRIVATE fmt::fmt)  # for its compile definitions
    target_precompile_headers(${target} REUSE_FROM tremula_job_test_headers)
  else()
    target_precompile_headers(${target} REUSE_FROM tremula_test_headers)
  endif()
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  if(NOT ARG_FOLDER)
    list(GET ARG_SOURCES 0 ARG_FOLDER)
    cmake_path(ABSOLUTE_PATH ARG_FOLDER)
    cmake_path(GET ARG_FOLDER PARENT_PATH ARG_FOLDER)
    cmake_path(RELATIVE_PATH ARG_FOLDER BASE_DIRECTORY ${PROJECT_SOURCE_DIR}/tests)
  endif()
  string(REGEX MATCH "^[^/]*" room ${ARG_FOLDER})
  if(name IN_LIST tremula_left_out_tests)
    set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
  elseif(room IN_LIST TREMULA_ROOMS_TESTED_ELSEWHERE AND NOT ARG_SLOW AND NOT ARG_ALSO_UNSANITIZED)
    set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
    return()
  endif()

  add_test(NAME ${name} COMMAND ${target} ${ARG_ARGS})
  if(ARG_SLOW)
    set(speed slow)
  else()
    set(speed fast)
    tremula_gather_fast_test(${target} ${ARG_FOLDER})
  endif()
  if("large" IN_LIST ARG_LABELS)
    set(seconds 7200)
  else()
    set(seconds 900)  # enough even on a busy machine; a test that hangs is ended
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS};${speed};${ARG_FOLDER}" TIMEOUT ${seconds})
  if(ARG_NO_LEAK_CHECK)
    set_tests_properties(${name} PROPERTIES ENVIRONMENT_MODIFICATION ASAN_OPTIONS=string_append:,detect_leaks=0)
  endif()
endfunction()

# The targets tests_fast, tests_<room> and tests_<room>_<folder> build the fast tests of all rooms, of a room or of a
# folder in it, and nothing else.
function(tremula_gather_fast_test test folder)
  set(gathering tests_fast)
  while(folder)
    string(REPLACE "/" "_" name ${folder})
    list(APPEND gathering tests_${name})
    cmake_path(GET folder PARENT_PATH folder)
  endwhile()
  foreach(target ${gathering})
    if(NOT TARGET ${target})
      add_custom_target(${target})
    endif()
    add_dependencies(${target} ${test})
  endforeach()
endfunction()
