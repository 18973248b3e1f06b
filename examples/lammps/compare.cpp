// SPDX-License-Identifier: Apache-2.0
// Repeats the comparison of the files that an earlier run left in a folder.
#include <cstdio>
#include <exception>

#include "comparison.hpp"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  try {
    return melt::compare(argv[1]) ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 1;
  }
}
