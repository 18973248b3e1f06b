// SPDX-License-Identifier: Apache-2.0
#include "index_calc/skew/owned_blocks.hpp"

#include <fmt/format.h>

#include <numeric>
#include <string>

#include "core/error.hpp"

namespace tremula::index_calc {

OwnedBlocks::OwnedBlocks(std::vector<BlockCuts> cuts, std::vector<Axis> axes)
    : cuts_(std::move(cuts)), period_(cuts_.size() - 1, 1), blocks_(cuts_.size()) {
  const std::size_t last = dimensions() - 1;
  constexpr Index most = Index{1} << 24;
  const auto expect_at_most = [&](Index count, std::size_t d, Index rows) {
    if (cuts_[d].count() <= count) return;
    const std::string of_tables =
        rows > 1 ? fmt::format(" with {} rows of tables of owners", rows) : "";
    throw core::Error(
        core::Errc::unsupported,
        fmt::format(
            "skewed layout: expected at most {} blocks along dimension {}{}, found {}: take "
            "larger blocks{}",
            count, d, of_tables, cuts_[d].count(), rows > 1 ? " or a smaller table" : ""));
  };
  for (std::size_t d = 0; d <= last; ++d) expect_at_most(most, d, 1);
  for (Axis& axis : axes) add(std::move(axis));
  Index rows = 1;
  for (const Index period : period_) rows = std::min(rows * period, most + 1);
  expect_at_most(most / rows, last, rows);
  for (std::size_t d = 0; d <= last; ++d) sort_blocks(d, d == last ? rows : 1);
}

void OwnedBlocks::add(Axis axis) {
  Owner& owner = owners_.emplace_back(Owner{.rule = std::move(axis.owner), .ranks = axis.ranks});
  if (const auto* const table = std::get_if<OwnerTable>(&owner.rule)) {
    owner.last = dimensions() - 1;
    for (std::size_t d = 0; d < owner.last; ++d)
      period_[d] = std::min(std::lcm(period_[d], table->extents[d]),
                            std::max(cuts_[d].numbers_end(), Index{1}));
    return;
  }
  const auto& expression = std::get<OwnerExpression>(owner.rule);
  owner.is_constant = expression.terms.empty();
  owner.constant = reduced(expression.constant, owner.ranks);
  for (const OwnerTerm& t : expression.terms) owner.last = std::max(owner.last, t.dimension);
}

void OwnedBlocks::sort_blocks(std::size_t dimension, Index rows) {
  auto& blocks = blocks_[dimension];
  const BlockCuts& cuts = cuts_[dimension];
  for (Index row = 0; row < rows; ++row) {
    const auto of_row = static_cast<std::ptrdiff_t>(blocks.size());
    BlockNumbers numbers = first_in_row(row);
    cuts.for_each_between(0, cuts.extent(), [&](Index b) {
      numbers[dimension] = b;
      blocks.push_back({.key = key_of(dimension, added(dimension, numbers), row), .number = b});
    });
    std::ranges::sort(blocks.begin() + of_row, blocks.end(), {},
                      [](const Block& b) { return std::pair(b.key, b.number); });
  }
  for (std::size_t i = 1; i < blocks.size(); ++i)
    if (blocks[i].key == blocks[i - 1].key)
      blocks[i].before = blocks[i - 1].before + cuts.size(blocks[i - 1].number);
}

Index OwnedBlocks::added(const Owner& owner, std::size_t dimension,
                         const BlockNumbers& block) const {
  if (const auto* const table = std::get_if<OwnerTable>(&owner.rule))
    return dimension == owner.last ? table->entry_of(block) : 0;
  Index sum = 0;
  for (const OwnerTerm& t : std::get<OwnerExpression>(owner.rule).terms)
    if (t.dimension == dimension)  // below 2^31 each, as are the ranks
      sum = reduced(sum + t.factor % owner.ranks * (block[dimension] / t.divisor % owner.ranks),
                    owner.ranks);
  return sum;
}

OwnerCoords OwnedBlocks::added(std::size_t dimension, const BlockNumbers& block) const {
  OwnerCoords result{};
  for (std::size_t e = 0; e < owners_.size(); ++e) result[e] = added(owners_[e], dimension, block);
  return result;
}

Index OwnedBlocks::table_row(const BlockNumbers& block) const {
  Index row = 0;
  for (std::size_t d = 0; d < period_.size(); ++d) row = row * period_[d] + block[d] % period_[d];
  return row;
}

BlockNumbers OwnedBlocks::first_in_row(Index row) const {
  BlockNumbers numbers{};
  for (std::size_t d = period_.size(); d-- > 0; row /= period_[d]) numbers[d] = row % period_[d];
  return numbers;
}

Index OwnedBlocks::key_of(std::size_t dimension, const OwnerCoords& added, Index row) const {
  Index key = row;
  for (std::size_t e = 0; e < owners_.size(); ++e)
    if (owners_[e].last == dimension && !owners_[e].is_constant)
      key = key * owners_[e].ranks + added[e];
  return key;
}

OwnerCoords OwnedBlocks::owner_of(const BlockNumbers& block) const {
  OwnerCoords result{};
  for (std::size_t e = 0; e < owners_.size(); ++e) {
    Index sum = owners_[e].constant;
    for (std::size_t d = 0; d < dimensions(); ++d) sum += added(owners_[e], d, block);
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

Index OwnedBlocks::count(const OwnerCoords& owner) const {
  Index sum = 0;
  for_each_row(owner, [&](const BlockNumbers&, Index, std::span<const Block> blocks) {
    sum += std::ssize(blocks);
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
  const auto along = blocks_.with_key(
      last, blocks_.key_of(last, blocks_.added(last, block), blocks_.table_row(block)));
  const auto found = std::ranges::lower_bound(along, block[last], {}, &Block::number);
  return row->before + blocks_.thickness(block) * found->before;
}

}  // namespace tremula::index_calc
