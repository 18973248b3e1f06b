// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

namespace tremula::client {

/// What becomes of a step for which a link has no room. The numbers are those of wire::WhenFull.
enum class WhenFull : std::uint8_t {
  block = 0,        ///< it waits
  drop_newest = 1,  ///< it is left out
  drop_oldest = 2,  ///< an earlier one that no peer has claimed is withdrawn for it
};

/// The steps of a link that may be under way.
struct Queue {
  // NOLINTNEXTLINE(google-explicit-constructor): a depth says it all where nothing is dropped
  Queue(int steps, WhenFull policy = WhenFull::block, bool is_one_of_many = false,
        bool has_newest = false)
      : depth(steps),
        when_full(policy),
        is_shared(is_one_of_many),
        is_latest(has_newest && steps > 0) {}
  int depth;
  WhenFull when_full;
  bool is_shared;  ///< each step goes over one of the links that are
  bool is_latest;  ///< the newest step is kept, however far apart the peers are
  /// Steps for which a source has room; where the newest is kept, one more: that which quick peers have
  /// begun while others take an earlier one.
  int slots() const noexcept { return is_latest ? depth + 1 : depth > 0 ? depth : 1; }
  /// A source keeps a step until the peers claim it, one at a time.
  bool keeps() const noexcept { return when_full == WhenFull::drop_oldest; }
  /// What it keeps are the arrays of the application, not copies: versions of a state.
  bool lends() const noexcept { return keeps() && depth == 0; }
};

}  // namespace tremula::client
