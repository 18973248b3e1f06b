// SPDX-License-Identifier: Apache-2.0
// Exit code: 0 success, 1 the command failed, 2 the command line is not valid.
#include <cstdio>
#include <exception>

#include "cli/command.hpp"

int main(int argc, char** argv) {
  try {
    return tremula::cli::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tremula: %s\n", error.what());
    return 1;
  }
}
