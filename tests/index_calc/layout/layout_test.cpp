// SPDX-License-Identifier: Apache-2.0
#include "index_calc/layout/layout.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <set>

#include "core/error.hpp"
#include "tests/index_calc/random.hpp"

namespace tremula::index_calc {
namespace {

using testing::Random;

/// Runs `action` and expects an invalid_argument whose text contains `part`.
void expect_refused(const std::function<void()>& action, const std::string& part) {
  try {
    action();
    ADD_FAILURE() << "expected an error with: " << part;
  } catch (const core::Error& e) {
    EXPECT_EQ(e.code(), core::Errc::invalid_argument);
    EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
  }
}

TEST(Layout, LocalPartPlacesGhostCellsAndLeading) {
  Layout layout = Layout::parse("shape=10x9 grid=2x2 ghost=1x2");
  LocalPart part = local_part(layout, Rank{0});  // 5 x 5 in a box of 7 x 9
  EXPECT_EQ(part.dimensions, 2U);
  EXPECT_EQ(part.extent[0], 5);
  EXPECT_EQ(part.extent[1], 5);
  EXPECT_EQ(part.stride[0], 9);
  EXPECT_EQ(part.stride[1], 1);
  EXPECT_EQ(part.first, 11);
  EXPECT_EQ(part.elements, 25);
  EXPECT_EQ(part.allocated, 63);
  const auto ghost = layout.storage().ghost;
  layout = layout.with(Storage{.order = Order::column, .ghost = ghost, .leading = 10});
  part = local_part(layout, Rank{3});  // 5 x 4 in a box of 10 x 8
  EXPECT_EQ(part.stride[0], 1);
  EXPECT_EQ(part.stride[1], 10);
  EXPECT_EQ(part.first, 21);
  EXPECT_EQ(part.elements, 20);
  EXPECT_EQ(part.allocated, 80);
  layout = layout.with(Storage{.order = Order::column, .ghost = ghost, .leading = 6});
  expect_refused(
      [&] { local_part(layout, Rank{3}); },
      "leading: rank 3 needs at least 7 elements along its fastest dimension 0, found 6");
}

TEST(Layout, RankWithoutElementsNeedsNoBuffer) {
  const Layout layout = Layout::parse("shape=4x6 grid=3x1 block=2x6 ghost=1x1 leading=8");
  const LocalPart part = local_part(layout, Rank{2});
  EXPECT_EQ(part.extent[0], 0);
  EXPECT_EQ(part.extent[1], 6);
  EXPECT_EQ(part.elements, 0);
  EXPECT_EQ(part.allocated, 0);
}

TEST(Layout, ImportsScalapackDescriptor) {
  const int desc[9] = {1, 42, 100, 90, 30, 45, 1, 0, 64};
  const Layout expected =
      Layout::parse("shape=100x90 grid=2x3 block=30x45 source=1x0 store=column leading=64");
  EXPECT_EQ(Layout::from_scalapack(desc, 2, 3), expected);
  EXPECT_EQ(Layout::from_scalapack(desc, 2, 3, Order::column).ranks().order, Order::column);
  const auto refused = [](std::size_t field, int value, const char* text) {
    int bad[9] = {1, 42, 100, 90, 30, 45, 1, 0, 64};
    bad[field] = value;
    expect_refused([&] { Layout::from_scalapack(bad, 2, 3); }, text);
  };
  refused(0, 501, "ScaLAPACK descriptor: expected desc[0] = 1 (dense matrix), found 501");
  refused(2, -1, "ScaLAPACK descriptor: dimension 0: expected an extent of at least 0, found -1");
  refused(5, 0,
          "ScaLAPACK descriptor: dimension 1: expected a block of at least 1 element, found 0");
  refused(6, 2,
          "ScaLAPACK descriptor: dimension 0: expected a source coordinate from 0 to 1, found 2");
  refused(8, 0, "expected a leading dimension desc[8] of at least 1, found 0");
  expect_refused([&] { Layout::from_scalapack(desc, 0, 3); },
                 "expected a grid of at least 1 coordinate, found 0");
}

TEST(Layout, NamesTheBrokenConditionOfItsParts) {
  using D = BlockCyclic;
  const Grid good({D{.extent = 10, .block = 5, .grid = 2}, D{.extent = 9, .block = 5, .grid = 2}});
  const auto of_grid = [](const char* text, std::vector<Distribution> dims) {
    expect_refused([&] { Layout{Grid(dims)}; }, text);
  };
  of_grid("expected 1 to 8 dimensions, found 0", {});
  of_grid("expected 1 to 8 dimensions, found 9", std::vector<Distribution>(9, D{.extent = 1}));
  of_grid("dimension 1: expected a block", {D{.extent = 1}, D{.extent = 1, .block = -3}});
  of_grid("expected at most 2^63 - 1 elements",
          {D{.extent = Index{1} << 32}, D{.extent = Index{1} << 32}});
  of_grid("grid: expected at most 2147483647 ranks", {D{.grid = 1 << 16}, D{.grid = 1 << 16}});
  const auto of_storage = [&](const char* text, const Storage& storage) {
    expect_refused([&] { Layout(good, {}, storage); }, text);
  };
  of_storage("ghost: expected one width for each of the 2 dimensions", {.ghost = {1}});
  of_storage("ghost: expected widths of at least 0, found -1", {.ghost = {1, -1}});
  of_storage("leading: expected at least 1 element", {.leading = -1});
  const auto of_members = [&](const char* text, const std::vector<RankRange>& members) {
    expect_refused([&] { Layout(good, {.members = members}); }, text);
  };
  of_members("members: expected 4 ranks, one for each cell of the grid, found 3", {{{0}, 3}});
  of_members("members: expected every rank once, found rank 1 twice", {{{1}, 2}, {{0}, 2}});
  of_members("found 0 ranks beginning with 4", {{{0}, 4}, {{4}, 0}});
  of_members("found 4 ranks beginning with -1", {{{-1}, 4}});
  of_members("found 4 ranks beginning with 2147483645",
             {{{std::numeric_limits<RankCount>::max() - 2}, 4}});
}

TEST(Layout, NamesTheBrokenConditionOfItsKind) {
  const auto refused = [](LayoutKind kind, const char* text, Ranks ranks = {},
                          Storage storage = {}) {
    expect_refused([&] { Layout(std::move(kind), std::move(ranks), std::move(storage)); }, text);
  };
  const BlockCyclic dim{.extent = 10, .block = 5, .grid = 2}, whole{.extent = 9, .block = 9};
  const auto grid = [&](std::vector<MeshAxis> axes) { return Grid({dim, whole}, std::move(axes)); };
  refused(grid({}), "mesh: expected 1 to 16 axes, found 0");
  refused(grid({{.ranks = 2}}), "found 2");  // one coordinate, not two
  refused(grid({{.ranks = 2, .use = Along{.dimension = 0, .level = 1}}}),
          "mesh: expected level 0 once for dimension 0, found level 1");
  refused(grid({{.ranks = 2, .use = Along{}}, {.ranks = 1, .use = Along{}}}),
          "mesh: expected level 1 once for dimension 0, found level 0");
  refused(grid({{.ranks = 3, .use = Along{}}}),
          "mesh: expected 3 coordinates along dimension 0, the product of its axes, found 2");
  refused(grid({{.ranks = 2, .use = Along{}}, {.use = Along{.dimension = 2}}}),
          "mesh: expected axes that split dimensions 0 to 1, and no owners");
  refused(grid({{.ranks = 2, .use = Along{}}, {.use = OwnerExpression{}}}),
          "mesh: expected axes that split dimensions 0 to 1, and no owners");

  const std::vector<BlockCuts> cuts{BlockCuts::cyclic(10, 5, 0)};
  const MeshAxis owner{.ranks = 2, .use = OwnerExpression{}};
  refused(Skewed{cuts, {{.ranks = 2}}},
          "owner: expected owners for 1 to 8 axes of the mesh, found 0");
  refused(Skewed{cuts, std::vector<MeshAxis>(9, MeshAxis{.use = OwnerExpression{}})},
          "owner: expected owners for 1 to 8 axes of the mesh, found 9");
  refused(Skewed{cuts, {owner, {.use = Along{}}}},
          "owner: expected no axis that splits a dimension with owners, found axis 1");
  refused(Skewed{{BlockCuts::at({1, 5})}, {owner}}, "splits0: expected ascending bounds");
  refused(Skewed{{BlockCuts::at({0, 3, 2, 5})}, {owner}}, "splits0: expected ascending bounds");
  const MeshAxis table{.ranks = 2, .use = OwnerTable{.extents = {2}, .entries = {0, 2}}};
  refused(Skewed{cuts, {table}}, "owner0: expected coordinates from 0 to 1");
  refused(Skewed{cuts, {owner}}, "owner: expected no ghost or leading", {}, {.leading = 9});

  const Listed listed{.shape = {10}, .ranks = 2};
  refused(listed, "lists: expected no ghost, leading or store", {}, {.order = Order::column});
  refused(listed, "lists: expected no ranks=column", {.order = Order::column});
  refused(Listed{.shape = {10}, .elements = 3, .allocated = 3},
          "lists: expected the sizes of the list of this rank, found 3 elements in a buffer of 3");

  const BlockCyclic dealt{.grid = 2};
  const auto changing = [&](Distribution d, std::size_t dimension) {
    return Changing{.grid = Grid({std::move(d), whole}), .dimension = dimension};
  };
  refused(changing(dealt, 2), "shape: expected a dimension from 0 to 1, found 2");
  refused(changing(dealt, 1), "shape: expected dimension 1 in blocks, with extent 0");
  refused(changing(Splits{.bounds = {0}, .owner = {}, .grid = 2}, 0), "in blocks, with extent 0");
  refused(changing(BlockCyclic{.block = 2, .grid = 2}, 0), "if it is even, block 1");
  Changing by_key = changing(dealt, 0);
  by_key.key = "id";
  by_key.ranges = {-5};
  refused(by_key, "ranges: expected ascending numbers of at least 0");
  by_key.ranges = {5};
  EXPECT_EQ(to_string(Layout(by_key)), "shape=*x9 grid=2x1 key=id ranges=5");
}

TEST(Layout, HasAnEmptyDimensionByDefault) { EXPECT_EQ(Layout(), Layout::parse("shape=0 grid=1")); }

TEST(Layout, IsTheSameForAMeshThatIsAGrid) {
  const Layout mesh = Layout::parse("shape=8x6 mesh=2x3 axes0=0 axes1=1"),
               grid = Layout::parse("shape=8x6 grid=2x3");
  EXPECT_EQ(mesh, grid);
  EXPECT_EQ(fingerprint(mesh), fingerprint(grid));
  EXPECT_EQ(to_string(mesh), "shape=8x6 grid=2x3");
}

TEST(Layout, ValidateForGroupNamesBothNumbers) {
  const Layout all = Layout::parse("shape=10x9 grid=2x2"),
               some = Layout::parse("shape=10x9 grid=2x2 members=0-2/6");
  EXPECT_NO_THROW(validate_for_group(all, 4));
  expect_refused([&] { validate_for_group(all, 5); },
                 "grid has 4 cells, but the group has 5 ranks");
  EXPECT_NO_THROW(validate_for_group(some, 7));
  expect_refused([&] { validate_for_group(some, 6); },
                 "rank 6 takes part, but the group has only 6 ranks, 0 to 5");
}

TEST(Layout, LocalPartBeyond63BitsIsRefused) {
  expect_refused(
      [] {
        local_part(Layout::parse("shape=3000000000x3000000000 grid=1x1 ghost=9000000000x0"),
                   Rank{0});
      },
      "the local part has more than 2^63 - 1 elements");
}

TEST(Layout, FingerprintCoversAllThatTheOtherSideNeeds) {
  const char* texts[] = {"shape=10x9 grid=2x2",
                         "shape=9x10 grid=2x2",
                         "shape=10x9 grid=4x1",
                         "shape=10x9 grid=2x2 block=3x3",
                         "shape=10x9 grid=2x2 source=1x0",
                         "shape=10x9 grid=2x2 cut=1x0",
                         "shape=10x9 grid=2x2 cut=0x1",
                         "shape=10x9 grid=2x2 ranks=column",
                         "shape=10x9 grid=2x2 store=column",
                         "shape=10x9 grid=2x2 members=1-4",
                         "shape=10x9 grid=2x2 splits0=0/5/10",
                         "shape=10x9 grid=2x2 splits0=0/5/10 owners0=1/0",
                         "shape=10x9 grid=2x2 splits0=0/6/10",
                         "shape=10x9 mesh=2x2 axes0=0",
                         "shape=10x9 mesh=2x2 axes0=1",
                         "shape=10x9 mesh=2x2 axes0=0 sum=1",
                         "shape=10x9 mesh=2x2 axes0=0/1",
                         "shape=10x9 mesh=2x2 axes0=1/0",
                         "shape=10x9 mesh=2x2 owner0=b0",
                         "shape=10x9 mesh=2x2 owner0=b0 equal=1x1",
                         "shape=10x9 mesh=2x2 owner0=b1",
                         "shape=10x9 mesh=2x2 owner1=b0",
                         "shape=10x9 mesh=2x2 owner0=b0 sum=1",
                         "shape=10x9 lists=4",
                         "shape=10x9 lists=4 partial=yes",
                         "shape=10x9 lists=4 copies=yes",
                         "shape=0x9 grid=4x1",
                         "shape=*x9 grid=4x1",
                         "shape=*x9 grid=4x1 block=1x9",
                         "shape=*x9 grid=4x1 key=id",
                         "shape=*x9 grid=4x1 key=name",
                         "shape=*x9 grid=4x1 key=id sorted=yes",
                         "shape=*x9 grid=4x1 key=id ranges=1/2/3"};
  std::set<std::uint64_t> fingerprints;
  for (const char* text : texts) fingerprints.insert(fingerprint(Layout::parse(text)));
  EXPECT_EQ(fingerprints.size(), std::size(texts));
  EXPECT_EQ(fingerprint(Layout::parse("grid=2x2 shape=10x9 block0=5 ghost=1x1 leading=20")),
            fingerprint(Layout::parse(texts[0])));
}

TEST(Layout, CountsItsBytesIn63Bits) {
  const Layout large = Layout::parse("shape=1000000000000x1000000 grid=10x10");
  EXPECT_EQ(bytes_of(large, 8), 8'000'000'000'000'000'000);
  EXPECT_EQ(bytes_of(Layout::parse("shape=1000000000000x0x1000000000000 grid=1x1x1"), 16), 0);
  try {
    bytes_of(large, 16);
    FAIL() << "expected an error";
  } catch (const core::Error& e) {
    EXPECT_EQ(e.code(), core::Errc::invalid_argument);
    EXPECT_NE(std::string(e.what()).find("16 bytes for each element"), std::string::npos);
  }
}

TEST(Layout, CountsTheMemoryOfTheRangesOfItsKeys) {
  const Layout few = Layout::parse("shape=* grid=3 key=id ranges=1/2");
  Changing many = *Layout::parse("shape=* grid=1001 key=id").changing();
  many.ranges.resize(1000);
  EXPECT_GE(memory_bytes(Layout(many)) - memory_bytes(few), 998 * sizeof(Index));
}

TEST(Layout, FingerprintIsTheSameOnEveryMachine) {
  EXPECT_EQ(fingerprint(
                Layout::parse("shape=100x90 grid=3x2 splits0=0/10/55/100 owners0=0/2/1 block1=45")),
            15157869673708751547ULL);
}

}  // namespace
}  // namespace tremula::index_calc
