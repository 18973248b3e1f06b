# SPDX-License-Identifier: Apache-2.0
# What every room shares: one static library tremula_<room>, warnings, sanitizers.
include_guard()

set(TREMULA_SANITIZE "" CACHE STRING "Sanitizers, e.g. address,undefined or thread")

add_library(tremula_options INTERFACE)
target_include_directories(tremula_options INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(tremula_options INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow)
if(TREMULA_SANITIZE)
  target_compile_options(tremula_options INTERFACE
    -fsanitize=${TREMULA_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)  # guesses wrong about instrumented code
  target_link_options(tremula_options INTERFACE -fsanitize=${TREMULA_SANITIZE})
endif()

# tremula_add_room(index_calc SOURCES a.cpp b.cpp [PUBLIC targets...] [PRIVATE targets...])
function(tremula_add_room name)
  cmake_parse_arguments(ARG "" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(tremula_${name} STATIC ${ARG_SOURCES})
  target_link_libraries(tremula_${name} PUBLIC tremula_options ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE})
endfunction()

# tremula_add_test(index_calc.plan SOURCES plan_test.cpp LINK tremula_index_calc [LABELS unit] [TIMEOUT 120])
# One GoogleTest program, one ctest entry.
function(tremula_add_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;LINK;LABELS;ARGS" ${ARGN})
  string(REPLACE "." "_" target ${name}_test)
  add_executable(${target} ${ARG_SOURCES})
  target_link_libraries(${target} PRIVATE tremula_options ${ARG_LINK} GTest::gtest GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${target} ${ARG_ARGS})
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT})
  if(name MATCHES mpi)  # no leak check: see tests/transport/mpi
    set_tests_properties(${name} PROPERTIES ENVIRONMENT_MODIFICATION ASAN_OPTIONS=string_append:,detect_leaks=0)
  endif()
endfunction()
