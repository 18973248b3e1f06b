// SPDX-License-Identifier: Apache-2.0
// Layouts from placements, judged by torch's chunks of a list of numbers.
#include "index_calc/layout/placements.hpp"

#include <gtest/gtest.h>

#include <map>

#include "core/error.hpp"
#include "index_calc/layout/process_grid.hpp"
#include "tests/index_calc/oracle.hpp"
#include "tests/index_calc/random.hpp"

namespace tremula::index_calc {
namespace {

using testing::Random, testing::World;
using Numbers = std::vector<Index>;

/// torch.chunk, with empty chunks up to `count`.
std::vector<Numbers> chunks(const Numbers& all, Index count) {
  const Index length = (static_cast<Index>(all.size()) + count - 1) / count;
  std::vector<Numbers> result(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < all.size(); ++i)
    result[i / static_cast<std::size_t>(length)].push_back(all[i]);
  return result;
}

/// Indices along one dimension that are left to a place on an axis: Shard and _StridedShard of torch.
Numbers shard(const Numbers& all, Index ranks, Index factor, Index place) {
  const auto pieces = chunks(all, ranks * factor);
  Numbers result;
  for (Index j = 0; j < factor; ++j) {
    const Numbers& piece = pieces[static_cast<std::size_t>(place + j * ranks)];
    result.insert(result.end(), piece.begin(), piece.end());
  }
  return result;
}

TEST(Placements, AreThoseOfDTensor) {
  Random random;
  for (int round = 0; round < 3000; ++round) {
    std::vector<Index> shape, mesh;
    for (Index d = random.in(1, 3); d > 0; --d) shape.push_back(random.in(0, 13));
    std::vector<Placement> placements;
    for (Index a = random.in(1, 4); a > 0; --a) {
      mesh.push_back(random.in(1, 4));
      Placement& p = placements.emplace_back();
      if (random.one_in(4)) continue;
      p.dimension = static_cast<std::size_t>(random.in(0, static_cast<Index>(shape.size()) - 1));
      if (random.one_in(3)) p.split_factor = random.in(1, 4);
    }
    // Now and then what fully sharded data parallel does over tensor parallel.
    if (mesh.size() > 1 && random.one_in(3) && placements[1].dimension) {
      placements[0] = {placements[1].dimension, mesh[1]};
      placements[1].split_factor = 1;
    }
    const Layout layout = layout_on_mesh(shape, mesh, placements);
    SCOPED_TRACE(to_string(layout));
    ASSERT_EQ(Layout::parse(to_string(layout)), layout);
    const World world(layout);
    Rank rank = 0;
    World::for_each_index(mesh, Order::row, [&](const std::vector<Index>& place) {
      std::vector<Numbers> along;
      Index count = 1;
      for (std::size_t d = 0; d < shape.size(); ++d) {
        Numbers& left = along.emplace_back();
        for (Index i = 0; i < shape[d]; ++i) left.push_back(i);
        for (std::size_t a = 0; a < mesh.size(); ++a)
          if (placements[a].dimension == d)
            left = shard(left, mesh[a], placements[a].split_factor, place[a]);
        count *= static_cast<Index>(left.size());
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
      ASSERT_EQ(world.buffers.at(rank), expected) << "rank " << rank;
      ASSERT_EQ(local_part(layout, rank).elements, count);
      ++rank;
    });
  }
}

TEST(Placements, OfEvenExtentsTakeFewBytes) {
  const Index shape[] = {Index{1} << 40, 4096}, mesh[] = {512, 8, 4};
  const Placement strided[] = {{0, 8}, {0}, {}};
  const Layout layout = layout_on_mesh(shape, mesh, strided);
  EXPECT_EQ(to_string(layout), "shape=1099511627776x4096 mesh=512x8x4 axes0=1/0");
  EXPECT_EQ(rank_count(layout), 512 * 8 * 4);
  EXPECT_EQ(copy_count(layout), 4);
}

TEST(Placements, ThatMakeNoSenseAreRefused) {
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
            "placement of axis 0: expected no split factor where it makes copies, found 2");
  EXPECT_EQ(why({8}, {0}, {{0}}),
            "mesh: expected axes of at least 1 rank and fewer than 2^31 in all, found one of 0");
  EXPECT_EQ(why({8}, {}, {}), "mesh: expected 1 to 16 axes, found 0");
  EXPECT_EQ(why({-1}, {2}, {{0}}), "expected an extent of at least 0, found -1");
  EXPECT_EQ(why({}, {2}, {{}}), "expected 1 to 8 dimensions, found 0");
}

}  // namespace
}  // namespace tremula::index_calc
