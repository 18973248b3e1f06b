// SPDX-License-Identifier: Apache-2.0
#include "index_calc/skew/owned_blocks.hpp"

#include <fmt/format.h>

#include <tuple>

#include "core/error.hpp"

namespace tremula::index_calc {

OwnedBlocks::OwnedBlocks(std::vector<BlockCuts> cuts, std::vector<Axis> axes)
    : cuts_(std::move(cuts)), blocks_(cuts_.size()) {
  for (Axis& axis : axes) {
    Owner owner{.expression = std::move(axis.owner), .ranks = axis.ranks};
    for (const OwnerTerm& t : owner.expression.terms)
      owner.last = std::max(owner.last, t.dimension);
    owners_.push_back(std::move(owner));
  }
  constexpr Index most = Index{1} << 24;
  for (std::size_t d = 0; d < dimensions(); ++d) {
    auto& blocks = blocks_[d];
    if (cuts_[d].count() > most)
      throw core::Error(core::Errc::unsupported,
                        fmt::format("skewed layout: expected at most {} blocks along dimension {}, "
                                    "found {}: take larger blocks",
                                    most, d, cuts_[d].count()));
    cuts_[d].for_each_between(0, cuts_[d].extent(), [&](Index b) {
      blocks.push_back({.key = key_of(d, added(d, b)), .number = b});
    });
    std::ranges::sort(blocks, {}, [](const Block& b) { return std::pair(b.key, b.number); });
    for (std::size_t i = 1; i < blocks.size(); ++i)
      if (blocks[i].key == blocks[i - 1].key)
        blocks[i].before = blocks[i - 1].before + cuts_[d].size(blocks[i - 1].number);
  }
}

Index OwnedBlocks::added(const Owner& owner, std::size_t dimension, Index block) const {
  Index sum = 0;
  for (const OwnerTerm& t : owner.expression.terms)
    if (t.dimension == dimension)  // below 2^31 each, as are the ranks
      sum = reduced(sum + t.factor % owner.ranks * (block / t.divisor % owner.ranks), owner.ranks);
  return sum;
}

OwnerCoords OwnedBlocks::added(std::size_t dimension, Index block) const {
  OwnerCoords result{};
  for (std::size_t e = 0; e < owners_.size(); ++e) result[e] = added(owners_[e], dimension, block);
  return result;
}

Index OwnedBlocks::key_of(std::size_t dimension, const OwnerCoords& added) const {
  Index key = 0;
  for (std::size_t e = 0; e < owners_.size(); ++e)
    if (owners_[e].last == dimension && !owners_[e].expression.terms.empty())
      key = key * owners_[e].ranks + added[e];
  return key;
}

OwnerCoords OwnedBlocks::owner_of(const BlockNumbers& block) const {
  OwnerCoords result{};
  for (std::size_t e = 0; e < owners_.size(); ++e) {
    Index sum = owners_[e].expression.constant;
    for (std::size_t d = 0; d < dimensions(); ++d) sum += added(owners_[e], d, block[d]);
    result[e] = reduced(sum, owners_[e].ranks);
  }
  return result;
}

std::span<const OwnedBlocks::Block> OwnedBlocks::with_key(std::size_t dimension, Index key) const {
  const auto found = std::ranges::equal_range(blocks_[dimension], key, {}, &Block::key);
  return {found.begin(), found.end()};
}

Index OwnedBlocks::thickness(const BlockNumbers& block) const {
  Index result = 1;
  for (std::size_t d = 0; d + 1 < dimensions(); ++d) result *= cuts_[d].size(block[d]);
  return result;
}

Index OwnedBlocks::row_number(const BlockNumbers& block) const {
  Index number = 0;  // computed from elements, so that it fits in 63 bits
  for (std::size_t d = 0; d + 1 < dimensions(); ++d)
    number = number * cuts_[d].extent() + cuts_[d].begin(block[d]);
  return number;
}

Index OwnedBlocks::elements(const OwnerCoords& owner) const {
  Index sum = 0;
  for_each_row(owner, [&](const BlockNumbers&, Index thickness, std::span<const Block> blocks) {
    sum += thickness * (blocks.back().before + cuts_.back().size(blocks.back().number));
  });
  return sum;
}

OwnedBlocks::Places::Places(const OwnedBlocks& blocks, const OwnerCoords& owner) : blocks_(blocks) {
  Index sum = 0;
  blocks.for_each_row(
      owner, [&](const BlockNumbers& numbers, Index thickness, std::span<const Block> row) {
        rows_.push_back({.number = blocks.row_number(numbers), .before = sum});
        sum += thickness * (row.back().before + blocks.cuts_.back().size(row.back().number));
      });
}

Index OwnedBlocks::Places::of(const BlockNumbers& block) const {
  const auto row = std::ranges::lower_bound(rows_, blocks_.row_number(block), {}, &Row::number);
  const std::size_t last = blocks_.dimensions() - 1;
  const auto along = blocks_.with_key(last, blocks_.key_of(last, blocks_.added(last, block[last])));
  const auto found = std::ranges::lower_bound(along, block[last], {}, &Block::number);
  return row->before + blocks_.thickness(block) * found->before;
}

}  // namespace tremula::index_calc
