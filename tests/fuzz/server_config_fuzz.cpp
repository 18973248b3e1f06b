// SPDX-License-Identifier: Apache-2.0
// Reads the configuration file of a server.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/error.hpp"
#include "server/config.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace tremula;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const int file = memfd_create("config", MFD_CLOEXEC);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  fuzz::require(
      ftruncate(file, 0) == 0 && pwrite(file, data, size, 0) == static_cast<ssize_t>(size),
      "there is room for the file");
  try {
    server::load_config(
        {}, [](const char*) { return nullptr; }, path);
  } catch (const core::Error& error) {
    fuzz::require(error.code() == core::Errc::invalid_argument,
                  "a bad file is a mistake of the operator");
  }
  return 0;
}
