// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

namespace tremula::client {

/// How a link treats a step for which it has no room. The numbers are those of wire::WhenFull.
enum class WhenFull : std::uint8_t {
  block = 0,        ///< the step waits
  drop_newest = 1,  ///< the step is left out
  drop_oldest = 2,  ///< an earlier step that no peer has claimed is withdrawn to make room
};

/// Limits on the steps of a link that may be in flight.
struct Queue {
  // NOLINTNEXTLINE(google-explicit-constructor): a depth suffices where nothing is dropped
  Queue(int steps, WhenFull policy = WhenFull::block, bool is_one_of_many = false,
        bool has_newest = false)
      : depth(steps),
        when_full(policy),
        is_shared(is_one_of_many),
        is_latest(has_newest && steps > 0) {}
  int depth;
  WhenFull when_full;
  bool is_shared;  ///< each step goes over one of the links that share the steps
  bool is_latest;  ///< the newest step is kept, however far apart the peers are
  /// Returns the number of steps for which a source has room. If the newest step is kept, there is
  /// room for one more: quick peers may have begun it while others take an earlier one.
  int slots() const noexcept { return is_latest ? depth + 1 : depth > 0 ? depth : 1; }
  /// Returns whether a source keeps each step until its peers claim it, one at a time.
  bool keeps() const noexcept { return when_full == WhenFull::drop_oldest; }
  /// Returns whether a source keeps the application's arrays themselves, not copies: versions of a
  /// state.
  bool lends() const noexcept { return keeps() && depth == 0; }
};

}  // namespace tremula::client
