// SPDX-License-Identifier: Apache-2.0
#include "index_calc/layout/placements.hpp"

#include <algorithm>

#include "index_calc/basics/check.hpp"

namespace tremula::index_calc {
namespace {

/// A cut of the current dimension among the ranks of an axis or, without an axis, into chunks of
/// which every rank gets a part.
struct Cut {
  std::optional<std::size_t> axis{};
  Index ranks = 1, split_factor = 1;
};

/// Returns the cuts from the outermost to the innermost: an axis cuts inside the later axes whose
/// ranks multiply to its split factor.
/// @throws core::Error invalid_argument if the factor ends in the middle of an axis
std::vector<Cut> nesting_of(std::span<const Cut> cuts) {
  std::vector<Cut> order;
  for (auto cut = cuts.rbegin(); cut != cuts.rend(); ++cut) {
    Index chunks = 1;
    auto at = order.begin();
    while (chunks < cut->split_factor && at != order.end()) chunks *= at++->ranks;
    check(cut->split_factor % chunks == 0,
          "placement of axis {}: expected a split factor that is a product of later axes that cut "
          "the same dimension, found {}, while these make {} chunks",
          cut->axis.value_or(0), cut->split_factor, chunks);
    if (chunks < cut->split_factor) {
      at = order.insert(at, Cut{.axis = {}, .ranks = cut->split_factor / chunks});
      ++at;
    }
    order.insert(at, *cut);
  }
  return order;
}

/// Appends the intervals into which `cuts` divide [begin, end). The outermost cut is first; each
/// divides as torch.chunk does.
void cut(Index begin, Index end, std::span<const Cut> cuts, Index owner, Splits& to) {
  if (begin == end) return;
  if (cuts.empty()) {
    const bool goes_on = !to.owner.empty() && to.owner.back() == owner;
    if (goes_on) to.bounds.pop_back();
    if (!goes_on) to.owner.push_back(owner);
    to.bounds.push_back(end);
    return;
  }
  const Index ranks = cuts.front().ranks, chunk = plain_block(end - begin, ranks);
  for (Index k = 0; begin < end; ++k) {
    const Index next = begin + std::min(chunk, end - begin);
    cut(begin, next, cuts.subspan(1), cuts.front().axis ? owner * ranks + k : owner, to);
    begin = next;
  }
}

/// Returns whether each interval i belongs to coordinate i and has `block` elements, or at most
/// `block` if it is the last.
bool is_plain(const Splits& splits, Index block) {
  for (std::size_t i = 0; i < splits.owner.size(); ++i) {
    const Index length = splits.bounds[i + 1] - splits.bounds[i];
    const bool is_last = i + 1 == splits.owner.size();
    if (splits.owner[i] != static_cast<Index>(i) || length > block || (length < block && !is_last))
      return false;
  }
  return true;
}

/// Returns the shortest description of a dimension that `order` cuts among `grid` ranks.
Distribution cut_all(Index extent, Index grid, std::span<const Cut> order) {
  constexpr Index most = Index{1} << 24;
  Index chunks = 1;
  for (const Cut& each : order)
    check(!__builtin_mul_overflow(chunks, each.ranks, &chunks),
          "placements: expected fewer than 2^63 chunks of a dimension, found more: use a smaller "
          "mesh "
          "or split factor");
  const bool is_even = extent % chunks == 0;
  const Index block = plain_block(extent, chunks);
  const BlockCyclic dealt{.extent = extent, .block = block, .grid = grid};
  const auto is_virtual = [](const Cut& each) { return !each.axis && each.ranks > 1; };
  const auto deals_all = std::ranges::find_if(order, is_virtual);
  if (deals_all == order.end()) {
    if (is_even || order.size() <= 1) return dealt;
  } else {
    check(is_even,
          "placements: expected an extent that {} chunks divide, found {}: for uneven extents "
          "PyTorch versions disagree on a split factor that is not a product of later axes; "
          "redistribute the tensor to Shard() or Replicate() first",
          chunks, extent);
    if (order.size() == 2 && deals_all == order.begin()) return dealt;
  }
  check(
      chunks <= most,
      "expected an extent that its {} ranks divide, or at most {} chunks to list, found an extent "
      "of {} and {} chunks",
      grid, most, extent, chunks);
  Splits splits{.bounds = {0}, .owner = {}, .grid = grid};
  cut(0, extent, order, 0, splits);
  if (is_plain(splits, block)) return dealt;
  return splits;
}

}  // namespace

Layout layout_on_mesh(std::span<const Index> shape, std::span<const Index> mesh,
                      std::span<const Placement> placements) {
  check(placements.size() == mesh.size(),
        "placements: expected one for each of the {} axes of the mesh, found {}", mesh.size(),
        placements.size());
  Grid result;
  for (const Index ranks : mesh) result.axes.push_back({.ranks = ranks});
  validate(result.axes);
  for (const Index extent : shape)
    check(extent >= 0, "expected an extent of at least 0, found {}", extent);
  for (std::size_t a = 0; a < mesh.size(); ++a) {
    const Placement& p = placements[a];
    check(!p.dimension || *p.dimension < shape.size(),
          "placement of axis {}: expected a dimension from 0 to {}, found {}", a, shape.size() - 1,
          p.dimension.value_or(0));
    constexpr Index most = Index{1} << 20;
    check(p.split_factor >= 1 && p.split_factor <= most,
          "placement of axis {}: expected a split factor from 1 to {}, found {}", a, most,
          p.split_factor);
    check(p.dimension || p.split_factor == 1,
          "placement of axis {}: expected no split factor, because it makes copies, found {}", a,
          p.split_factor);
  }
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::vector<Cut> cuts;
    Index grid = 1;
    for (std::size_t a = 0; a < mesh.size(); ++a)
      if (placements[a].dimension == d) {
        cuts.push_back({.axis = a, .ranks = mesh[a], .split_factor = placements[a].split_factor});
        grid *= mesh[a];
      }
    const std::vector<Cut> order = nesting_of(cuts);
    std::size_t level = 0;
    for (const Cut& each : order)
      if (each.axis) result.axes[*each.axis].use = Along{.dimension = d, .level = level++};
    result.dims.push_back(cut_all(shape[d], grid, order));
  }
  return Layout(std::move(result));
}

}  // namespace tremula::index_calc
