// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <deque>
#include <optional>

#include "core/types.hpp"
#include "index_calc/layout/layout.hpp"

namespace tremula::client {

/// Detects that the application changed an array while it was lent, by a hash of the elements that
/// the rank owns, without ghost cells and padding.
/// Cost: one pass over the elements when they are lent, another when they are taken back.
class LentArrays {
public:
  void lend(std::uint64_t step, std::size_t field, const index_calc::LocalPart& part,
            std::size_t element_bytes, core::BytesView bytes);
  struct Changed {
    std::uint64_t step;
    std::size_t field;
  };
  /// Checks the arrays of all steps up to and including `step`, which belong to the application
  /// again.
  /// @return the first array that was changed while it was lent; nullopt if none was
  std::optional<Changed> take_back(std::uint64_t step);
  /// Drops all records without a check, because peers no longer read the arrays.
  void forget() noexcept { lent_.clear(); }

private:
  struct Lent {
    std::uint64_t step;
    std::size_t field;
    index_calc::LocalPart part;
    std::size_t element_bytes;
    core::BytesView bytes;
    std::uint64_t hash;
  };
  static constexpr std::size_t most = 65536;  // of an application that asks for none back
  std::deque<Lent> lent_;                     // in the order of steps
};

}  // namespace tremula::client
