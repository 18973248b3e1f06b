// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstdint>

#include "core/deadline.hpp"
#include "core/types.hpp"

namespace tremula::client {

/// Traffic between this rank and one peer since their link was opened. Counts are exact.
struct Traffic {
  std::uint64_t packages = 0, bytes = 0;
  std::uint64_t copied_bytes = 0;  ///< copied by this rank's processor, from memory to memory
  std::uint64_t chunks = 0;        ///< chunks sent, or put into a ring
  std::uint64_t proved_bytes = 0;  ///< sink: bytes of parts with the hash that the source has sent
  std::uint64_t growths = 0;       ///< reallocations for changing fields; only in sums over peers
  double copy_seconds = 0;         ///< packing, unpacking, copying
  double wire_seconds = 0;         ///< source: while messages are sent, or read by the sink

  Traffic& operator+=(const Traffic& other) noexcept {
    packages += other.packages;
    bytes += other.bytes;
    copied_bytes += other.copied_bytes;
    chunks += other.chunks;
    proved_bytes += other.proved_bytes;
    growths += other.growths;
    copy_seconds += other.copy_seconds;
    wire_seconds += other.wire_seconds;
    return *this;
  }
};

inline double seconds_since(core::Deadline::Clock::time_point start) {
  return core::Deadline::Seconds(core::Deadline::Clock::now() - start).count();
}

/// Adds the seconds of its lifetime to a sum.
class Stopwatch {
public:
  explicit Stopwatch(double& seconds) : seconds_(seconds) {}
  ~Stopwatch() { seconds_ += seconds_since(start_); }
  Stopwatch(const Stopwatch&) = delete;

private:
  double& seconds_;
  core::Deadline::Clock::time_point start_ = core::Deadline::Clock::now();
};

}  // namespace tremula::client
