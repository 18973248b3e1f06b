// SPDX-License-Identifier: Apache-2.0
// Checks layouts from placements against torch's chunks of a list of numbers.
#include "index_calc/layout/placements.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "core/error.hpp"
#include "index_calc/layout/process_grid.hpp"
#include "tests/index_calc/oracle.hpp"
#include "tests/index_calc/random.hpp"

namespace tremula::index_calc {
namespace {

using testing::Random, testing::World;
using Numbers = std::vector<Index>;

/// Returns the chunks of torch.chunk, followed by empty chunks up to `count`.
std::vector<Numbers> chunks(const Numbers& all, Index count) {
  const Index length = (static_cast<Index>(all.size()) + count - 1) / count;
  std::vector<Numbers> result(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < all.size(); ++i)
    result[i / static_cast<std::size_t>(length)].push_back(all[i]);
  return result;
}

/// Returns the elements of one dimension that the rank at `place` holds. The axes of the mesh cut the
/// dimension in turn; `order` lists them, outermost first.
Numbers held(Index extent, const std::vector<Index>& mesh, const std::vector<std::size_t>& order,
             const std::vector<Index>& place) {
  Numbers left(static_cast<std::size_t>(extent));
  std::iota(left.begin(), left.end(), Index{0});
  for (const std::size_t axis : order)
    left = chunks(left, mesh[axis])[static_cast<std::size_t>(place[axis])];
  return left;
}

/// Returns the split factor of an axis: the product of the later axes of the mesh that cut before it.
Index factor_of(std::size_t axis, const std::vector<Index>& mesh,
                const std::vector<std::size_t>& order) {
  Index factor = 1;
  for (const std::size_t before : order) {
    if (before == axis) break;
    if (before > axis) factor *= mesh[before];
  }
  return factor;
}

/// Checks every rank's elements of a one-dimensional array that all axes of a mesh cut in `order`.
void compare(Index extent, const std::vector<Index>& mesh, const std::vector<std::size_t>& order) {
  std::vector<Placement> placements;
  for (std::size_t a = 0; a < mesh.size(); ++a)
    placements.push_back({.dimension = 0, .split_factor = factor_of(a, mesh, order)});
  const Layout layout = layout_on_mesh(std::vector<Index>{extent}, mesh, placements);
  SCOPED_TRACE(to_string(layout));
  ASSERT_EQ(Layout::parse(to_string(layout)), layout);
  if (const auto* splits = std::get_if<Splits>(&layout.grid()->dims[0])) {
    ASSERT_LE(splits->owner.size(), static_cast<std::size_t>(splits->grid));
  }
  const ProcessGrid ranks(layout);
  Rank rank{-1};
  World::for_each_index(mesh, Order::row, [&](const std::vector<Index>& place) {
    const GridCoord c = ranks.coords_of(++rank).value()[0];
    Numbers found;
    for (Index i = 0; i < local_extent(layout.grid()->dims[0], c); ++i)
      found.push_back(to_global(layout.grid()->dims[0], c, LocalIndex{i}).value);
    ASSERT_EQ(found, held(extent, mesh, order, place)) << "rank " << rank.value;
  });
}

TEST(Placements, MatchDTensor) {
  Random random;
  for (int round = 0; round < 3000; ++round) {
    std::vector<Index> shape, mesh;
    for (Index d = random.in(1, 3); d > 0; --d) shape.push_back(random.in(0, 23));
    std::vector<Placement> placements;
    std::vector<std::vector<std::size_t>> orders(shape.size());
    for (Index a = random.in(1, 4); a > 0; --a) {
      mesh.push_back(random.in(1, 4));
      Placement& p = placements.emplace_back();
      if (random.one_in(4)) continue;
      p.dimension = static_cast<std::size_t>(random.in(0, static_cast<Index>(shape.size()) - 1));
      auto& order = orders[*p.dimension];
      order.insert(order.begin() + random.in(0, static_cast<Index>(order.size())),
                   placements.size() - 1);
    }
    for (const auto& order : orders)
      for (const std::size_t axis : order)
        placements[axis].split_factor = factor_of(axis, mesh, order);
    const Layout layout = layout_on_mesh(shape, mesh, placements);
    SCOPED_TRACE(to_string(layout));
    ASSERT_EQ(Layout::parse(to_string(layout)), layout);
    const World world(layout);
    Rank rank{};
    World::for_each_index(mesh, Order::row, [&](const std::vector<Index>& place) {
      std::vector<Numbers> along;
      Index count = 1;
      for (std::size_t d = 0; d < shape.size(); ++d) {
        along.push_back(held(shape[d], mesh, orders[d], place));
        count *= static_cast<Index>(along.back().size());
      }
      // The rank's memory, element by element.
      std::vector<Index> expected;
      std::vector<Index> box;
      for (const Numbers& numbers : along) box.push_back(static_cast<Index>(numbers.size()));
      World::for_each_index(box, Order::row, [&](const std::vector<Index>& at) {
        Index number = 0;
        for (std::size_t d = 0; d < shape.size(); ++d)
          number = number * shape[d] + along[d][static_cast<std::size_t>(at[d])];
        expected.push_back(number);
      });
      ASSERT_EQ(world.buffers.at(rank), expected) << "rank " << rank.value;
      ASSERT_EQ(local_part(layout, rank).elements, count);
      ++rank;
    });
  }
}

TEST(Placements, CutUnevenExtentsOneAxisAfterTheOther) {
  const std::vector<std::vector<Index>> meshes = {{2, 2}, {4, 2}, {2, 4}, {8, 2}, {2, 2, 2}};
  std::vector<Index> extents(200);
  std::iota(extents.begin(), extents.end(), Index{1});
  for (const Index vocabulary : {30522, 32002, 50257, 50258, 128258, 151646, 151669})
    extents.push_back(vocabulary);
  for (const auto& mesh : meshes) {
    std::vector<std::size_t> order(mesh.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    do {
      for (const Index extent : extents) {
        compare(extent, mesh, order);
        if (HasFatalFailure()) return;
      }
    } while (std::ranges::next_permutation(order).found);
  }
}

TEST(Placements, DistributeStridedChunksOfAnEvenExtent) {
  const Index shape[] = {24}, mesh[] = {2, 2};
  const Placement one[] = {{0, 3}, {}};
  EXPECT_EQ(to_string(layout_on_mesh(shape, mesh, one)), "shape=24 mesh=2x2 axes0=0 block=4");
  // Axis 1 makes chunks of 12; each of them consists of two chunks of 6, and axis 0 cuts each chunk
  // of 6.
  const Placement both[] = {{0, 4}, {0}};
  EXPECT_EQ(to_string(layout_on_mesh(shape, mesh, both)),
            "shape=24 mesh=2x2 axes0=1/0 splits0=0/3/6/9/12/15/18/21/24 "
            "owners0=0/1/0/1/2/3/2/3");
}

TEST(Placements, TakeFewBytesForEvenExtents) {
  const Index shape[] = {Index{1} << 40, 4096}, mesh[] = {512, 8, 4};
  const Placement strided[] = {{0, 8}, {0}, {}};
  const Layout layout = layout_on_mesh(shape, mesh, strided);
  EXPECT_EQ(to_string(layout), "shape=1099511627776x4096 mesh=512x8x4 axes0=1/0");
  EXPECT_EQ(rank_count(layout), 512 * 8 * 4);
  EXPECT_EQ(copy_count(layout), 4);
}

TEST(Placements, AreRefusedIfInconsistent) {
  const auto why = [](std::vector<Index> shape, std::vector<Index> mesh,
                      std::vector<Placement> placements) -> std::string {
    try {
      layout_on_mesh(shape, mesh, placements);
    } catch (const core::Error& e) {
      EXPECT_EQ(e.code(), core::Errc::invalid_argument);
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(why({8}, {2, 2}, {{0}}),
            "placements: expected one for each of the 2 axes of the mesh, found 1");
  EXPECT_EQ(why({8}, {2}, {{1}}), "placement of axis 0: expected a dimension from 0 to 0, found 1");
  EXPECT_EQ(why({8}, {2}, {{0, 0}}),
            "placement of axis 0: expected a split factor from 1 to 1048576, found 0");
  EXPECT_EQ(why({8}, {2}, {{{}, 2}}),
            "placement of axis 0: expected no split factor, because it makes copies, found 2");
  EXPECT_EQ(
      why({8}, {3, 3}, {{0, 2}, {0}}),
      "placement of axis 0: expected a split factor that is a product of later axes that cut the "
      "same dimension, found 2, while these make 3 chunks");
  EXPECT_EQ(why({9}, {2}, {{0, 2}}),
            "placements: expected an extent that 4 chunks divide, found 9: for uneven extents "
            "PyTorch versions disagree on a split factor that is not a product of later axes; "
            "redistribute the tensor to Shard() or Replicate() first");
  EXPECT_EQ(why({8}, {0}, {{0}}), "mesh: expected axes of at least 1 rank, found 0");
  EXPECT_EQ(why({8}, {}, {}), "mesh: expected 1 to 16 axes, found 0");
  EXPECT_EQ(why({-1}, {2}, {{0}}), "expected an extent of at least 0, found -1");
  EXPECT_EQ(why({}, {2}, {{}}), "shape: expected 1 to 8 dimensions, found 0");
}

}  // namespace
}  // namespace tremula::index_calc
