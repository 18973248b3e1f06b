// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>

#include "core/types.hpp"

namespace tremula::client {

/// What went between this rank and one peer since their link was opened. Counts are
/// exact.
struct Traffic {
  std::uint64_t packages = 0, bytes = 0;
  std::uint64_t copied_bytes = 0;  ///< by this rank's processor, from memory to memory
  double copy_seconds = 0;         ///< packing, unpacking, copying
  double wire_seconds = 0;         ///< producer: from sending a message until it was sent

  Traffic& operator+=(const Traffic& other) noexcept {
    packages += other.packages;
    bytes += other.bytes;
    copied_bytes += other.copied_bytes;
    copy_seconds += other.copy_seconds;
    wire_seconds += other.wire_seconds;
    return *this;
  }
};

/// Of one rank since its stream was opened, or of its last step.
struct Statistics {
  std::uint64_t steps = 0;  ///< complete
  Traffic traffic;          ///< with all peers
  double plan_seconds = 0;
  double wait_seconds = 0;  ///< blocked on the other side
  std::string transport;    ///< of the link opened last

  /// What has come since `earlier`.
  Statistics since(const Statistics& earlier) const {
    Statistics s = *this;
    s.steps -= earlier.steps;
    s.traffic.packages -= earlier.traffic.packages;
    s.traffic.bytes -= earlier.traffic.bytes;
    s.traffic.copied_bytes -= earlier.traffic.copied_bytes;
    s.traffic.copy_seconds -= earlier.traffic.copy_seconds;
    s.traffic.wire_seconds -= earlier.traffic.wire_seconds;
    s.plan_seconds -= earlier.plan_seconds;
    s.wait_seconds -= earlier.wait_seconds;
    return s;
  }
};

/// Of one rank with one rank of the other side.
struct PeerStatistics {
  std::string group;
  core::Rank rank = 0;
  Traffic traffic;
};

}  // namespace tremula::client
