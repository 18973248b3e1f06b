// SPDX-License-Identifier: Apache-2.0
// Calls a fuzz target with every file of its corpus, in builds without libFuzzer.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

#include "tests/fuzz/fuzz.hpp"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "expected the folder of a corpus\n";
    return 2;
  }
  int inputs = 0;
  for (const auto& file : std::filesystem::directory_iterator(argv[1])) {
    std::ifstream in(file.path(), std::ios::binary);
    const std::vector<char> read(std::istreambuf_iterator<char>(in), {});
    // The copy has exactly the size of the file, so that a sanitizer detects a read beyond the end.
    const std::vector<std::uint8_t> bytes(read.begin(), read.end());
    std::cerr << file.path().filename().string() << '\n';  // the last line names a failing file
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
    ++inputs;
  }
  std::cout << inputs << " inputs\n";
  return inputs > 0 ? 0 : 1;
}
