// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <exception>
#include <utility>

#include "core/error.hpp"

namespace tremula::client {

/// A value that does not fit its new type harms no more than itself: it is told when everything is
/// in its place and all peers have what they wait for.
class Mismatch {
public:
  /// Calls move() and keeps a core::Error mismatch that it throws, the first one.
  template <class Move>
  void keep(Move&& move) {
    try {
      move();
    } catch (const core::Error& e) {
      if (e.code() != core::Errc::mismatch) throw;
      if (!kept_) kept_ = std::current_exception();
    }
  }
  /// @throws core::Error that was kept, once
  void tell() {
    if (kept_) std::rethrow_exception(std::exchange(kept_, nullptr));
  }

private:
  std::exception_ptr kept_;
};

}  // namespace tremula::client
