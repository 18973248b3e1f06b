// SPDX-License-Identifier: Apache-2.0
#pragma once
// Helper for tests with two concurrent requests.
#include "transport/transport.hpp"

namespace tremula::testing_only {

/// Advances both requests and returns whether both are complete. With && alone, the second request
/// would not advance until the first one is complete.
inline bool both_complete(transport::Request& first, transport::Request& second) {
  const bool first_is_complete = first.test();
  return second.test() && first_is_complete;
}

}  // namespace tremula::testing_only
