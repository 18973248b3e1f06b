// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <deque>
#include <optional>

#include "core/types.hpp"
#include "index_calc/layout/layout.hpp"

namespace tremula::client {

/// Notices that the application has changed an array before it had it back: by a hash of the
/// elements that the rank owns, not of ghost cells and padding.
/// Cost: a pass over the elements when they are lent, another when they come back.
class LentArrays {
public:
  void lend(std::uint64_t step, std::size_t field, const index_calc::LocalPart& part,
            std::size_t element_bytes, core::BytesView bytes);
  struct Changed {
    std::uint64_t step;
    std::size_t field;
  };
  /// The arrays of all steps up to `step` are the application's again.
  /// @return the first that was changed before, if any
  std::optional<Changed> take_back(std::uint64_t step);
  /// The same when no peer may ask any more what they hold.
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
