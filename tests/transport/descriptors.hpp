// SPDX-License-Identifier: Apache-2.0
#pragma once
// Counts the descriptors of this process.
#include <sys/socket.h>

#include <filesystem>
#include <iterator>
#include <string>

namespace tremula::testing_only {

inline std::size_t open_files() {
  return static_cast<std::size_t>(std::distance(
      std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator()));
}

inline int listening_sockets() {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    int listens = 0;
    socklen_t bytes = sizeof listens;
    const int descriptor = std::stoi(entry.path().filename());
    if (getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes) == 0) count += listens;
  }
  return count;
}

}  // namespace tremula::testing_only
