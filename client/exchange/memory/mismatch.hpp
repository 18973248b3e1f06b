// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <exception>
#include <optional>
#include <utility>

#include "core/error.hpp"
#include "core/types.hpp"

namespace tremula::client {

/// Keeps what a run reports only after it has completed: the first value that does not fit its
/// type, and the first rank that refused its buffers.
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
  /// Notes that a rank of a job has refused its buffers and sends bytes that mean nothing.
  void keep_refusal_of(core::Rank rank) noexcept {
    if (!refusing_) refusing_ = rank;
  }
  /// Returns that rank, the first one; nullopt if there is none. Once.
  std::optional<core::Rank> take_refusing() noexcept {
    return std::exchange(refusing_, std::nullopt);
  }
  /// @throws core::Error that was kept, once
  void tell() {
    if (kept_) std::rethrow_exception(std::exchange(kept_, nullptr));
  }

  /// Drops what was kept of an earlier move.
  void forget() noexcept { kept_ = nullptr; }

private:
  std::exception_ptr kept_;
  std::optional<core::Rank> refusing_;
};

}  // namespace tremula::client
