// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>

namespace tremula::client {

/// Of one rank since its stream was opened. Exact.
struct Statistics {
  std::uint64_t steps = 0;     ///< complete
  std::uint64_t packages = 0;  ///< sent or received
  std::uint64_t bytes = 0;     ///< payload sent or received
  double plan_seconds = 0;
  double wait_seconds = 0;  ///< blocked on the other side
  std::string transport;    ///< of the link opened last
};

}  // namespace tremula::client
