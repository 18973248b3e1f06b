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
  LocalPart part = local_part(layout, 0);  // 5 x 5 in a box of 7 x 9
  EXPECT_EQ(part.dimensions, 2U);
  EXPECT_EQ(part.extent[0], 5);
  EXPECT_EQ(part.extent[1], 5);
  EXPECT_EQ(part.stride[0], 9);
  EXPECT_EQ(part.stride[1], 1);
  EXPECT_EQ(part.first, 11);
  EXPECT_EQ(part.elements, 25);
  EXPECT_EQ(part.allocated, 63);
  layout.storage_order = Order::column;
  layout.leading = 10;
  part = local_part(layout, 3);  // 5 x 4 in a box of 10 x 8
  EXPECT_EQ(part.stride[0], 1);
  EXPECT_EQ(part.stride[1], 10);
  EXPECT_EQ(part.first, 21);
  EXPECT_EQ(part.elements, 20);
  EXPECT_EQ(part.allocated, 80);
  layout.leading = 6;
  expect_refused(
      [&] { local_part(layout, 3); },
      "leading: rank 3 needs at least 7 elements along its fastest dimension 0, found 6");
}

TEST(Layout, RankWithoutElementsNeedsNoBuffer) {
  const Layout layout = Layout::parse("shape=4x6 grid=3x1 block=2x6 ghost=1x1 leading=8");
  const LocalPart part = local_part(layout, 2);
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
  EXPECT_EQ(Layout::from_scalapack(desc, 2, 3, Order::column).rank_order, Order::column);
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

TEST(Layout, ValidateNamesBrokenCondition) {
  const auto refused = [](const char* text, const std::function<void(Layout&)>& change) {
    Layout layout = Layout::parse("shape=10x9 grid=2x2");
    change(layout);
    expect_refused([&] { validate(layout); }, text);
  };
  using D = BlockCyclic;
  refused("expected 1 to 8 dimensions, found 0", [](Layout& l) { l.dims.clear(); });
  refused("expected 1 to 8 dimensions, found 9",
          [](Layout& l) { l.dims.assign(9, D{.extent = 1}); });
  refused("dimension 1: expected a block", [](Layout& l) { std::get<D>(l.dims[1]).block = -3; });
  refused("expected at most 2^63 - 1 elements", [](Layout& l) {
    for (auto& d : l.dims) std::get<D>(d).extent = Index{1} << 32;
  });
  refused("expected a grid of at most 2147483647 ranks", [](Layout& l) {
    for (auto& d : l.dims) std::get<D>(d).grid = 1 << 16;
  });
  refused("ghost: expected one width for each of the 2 dimensions",
          [](Layout& l) { l.ghost = {1}; });
  refused("ghost: expected widths of at least 0, found -1", [](Layout& l) { l.ghost = {1, -1}; });
  refused("leading: expected at least 1 element", [](Layout& l) { l.leading = -1; });
  refused("members: expected 4 ranks, one for each cell of the grid, found 3", [](Layout& l) {
    l.members = {{0, 3}};
  });
  refused("members: expected every rank once, found rank 1 twice", [](Layout& l) {
    l.members = {{1, 2}, {0, 2}};
  });
  refused("found 0 ranks beginning with 4", [](Layout& l) { l.members = {{0, 4}, {4, 0}}; });
  refused("found 4 ranks beginning with -1", [](Layout& l) { l.members = {{-1, 4}}; });
  refused("found 4 ranks beginning with 2147483645", [](Layout& l) {
    l.members = {{std::numeric_limits<Rank>::max() - 2, 4}};
  });
  refused("each from 0 to 2147483646, found 4 ranks beginning with 2147483644", [](Layout& l) {
    l.members = {{std::numeric_limits<Rank>::max() - 3, 4}};
  });
  refused("ranges: expected numbers of at least 0, found -5", [](Layout& l) {
    l = Layout::parse("shape=* grid=3 key=id ranges=1/2");
    l.changing->ranges = {-5, 2};
  });
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
        local_part(Layout::parse("shape=3000000000x3000000000 grid=1x1 ghost=9000000000x0"), 0);
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
                         "shape=10x9 grid=2x2 splits0=0/6/10"};
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
  Layout many = few;
  many.changing->ranges.resize(1000);
  EXPECT_GE(memory_bytes(many) - memory_bytes(few), 998 * sizeof(Index));
}

TEST(Layout, FingerprintIsTheSameOnEveryMachine) {
  EXPECT_EQ(fingerprint(
                Layout::parse("shape=100x90 grid=3x2 splits0=0/10/55/100 owners0=0/2/1 block1=45")),
            17074214696165186402ULL);
}

}  // namespace
}  // namespace tremula::index_calc
