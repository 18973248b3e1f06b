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
  /// Calls move(). Keeps the first core::Error mismatch that any such call throws.
  template <class Move>
  void keep(Move&& move) {
    try {
      move();
    } catch (const core::Error& e) {
      if (e.code() != core::Errc::mismatch) throw;
      if (!kept_) kept_ = std::current_exception();
    }
  }
  /// Notes that a rank of a job has refused its buffers and sends meaningless bytes.
  void keep_refusal_of(core::Rank rank) noexcept {
    if (!refusing_) refusing_ = rank;
  }
  /// Returns the first such rank and forgets it; nullopt if there is none.
  std::optional<core::Rank> take_refusing() noexcept {
    return std::exchange(refusing_, std::nullopt);
  }
  /// Throws the kept error and forgets it; returns if there is none.
  void rethrow() {
    if (kept_) std::rethrow_exception(std::exchange(kept_, nullptr));
  }

  /// Drops the error kept from an earlier move.
  void forget() noexcept { kept_ = nullptr; }

private:
  std::exception_ptr kept_;
  std::optional<core::Rank> refusing_;
};

}  // namespace tremula::client
