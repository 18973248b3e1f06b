// SPDX-License-Identifier: Apache-2.0
#include "client/exchange/memory/lent_arrays.hpp"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <memory>

namespace tremula::client {

namespace {

struct FreeState {
  void operator()(XXH3_state_t* state) const noexcept { XXH3_freeState(state); }
};

/// Of the elements that the rank owns, in the order of memory within each run along the dimension
/// whose elements lie side by side.
std::uint64_t hash_of(const index_calc::LocalPart& part, std::size_t element_bytes,
                      core::BytesView bytes) {
  const std::unique_ptr<XXH3_state_t, FreeState> state(XXH3_createState());
  XXH3_64bits_reset(state.get());
  if (part.elements == 0) return XXH3_64bits_digest(state.get());
  std::size_t side_by_side = 0;
  for (std::size_t d = 0; d < part.dimensions; ++d)
    if (part.stride[d] == 1) side_by_side = d;
  const bool is_run = part.stride[side_by_side] == 1;
  const auto run = static_cast<std::size_t>(is_run ? part.extent[side_by_side] : 1) * element_bytes;
  std::array<core::Index, index_calc::max_dimensions> at{};
  for (bool is_over = false; !is_over;) {
    core::Index offset = part.first;
    for (std::size_t d = 0; d < part.dimensions; ++d) offset += at[d] * part.stride[d];
    XXH3_64bits_update(state.get(), bytes.data() + static_cast<std::size_t>(offset) * element_bytes,
                       run);
    is_over = true;
    for (std::size_t d = part.dimensions; d-- > 0 && is_over;) {
      if (is_run && d == side_by_side) continue;
      is_over = ++at[d] == part.extent[d];
      if (is_over) at[d] = 0;
    }
  }
  return XXH3_64bits_digest(state.get());
}

}  // namespace

void LentArrays::lend(std::uint64_t step, std::size_t field, const index_calc::LocalPart& part,
                      std::size_t element_bytes, core::BytesView bytes) {
  lent_.push_back({step, field, part, element_bytes, bytes, hash_of(part, element_bytes, bytes)});
  if (lent_.size() > most) lent_.pop_front();
}

std::optional<LentArrays::Changed> LentArrays::take_back(std::uint64_t step) {
  std::optional<Changed> changed;
  for (; !lent_.empty() && lent_.front().step <= step; lent_.pop_front()) {
    const Lent& lent = lent_.front();
    if (!changed && hash_of(lent.part, lent.element_bytes, lent.bytes) != lent.hash)
      changed = Changed{lent.step, lent.field};
  }
  return changed;
}

}  // namespace tremula::client
