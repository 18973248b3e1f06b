// SPDX-License-Identifier: Apache-2.0
#include "proto/parts.hpp"

#include <gtest/gtest.h>

#include <random>

namespace tremula::proto {
namespace {

using core::Index;
using index_calc::Layout;

Field field(const std::string& layout, std::vector<Index> origin, std::vector<Index> whole) {
  return {.name = "u",
          .type = core::ElementType::f64,
          .layout = Layout::parse(layout),
          .origin = std::move(origin),
          .whole = std::move(whole)};
}

std::string listed(const std::vector<Box>& boxes) {
  std::string text;
  for (const Box& box : boxes) text += (text.empty() ? "" : "; ") + to_string(box);
  return text;
}

TEST(Parts, NameTheMissingBoxes) {
  const std::vector<Index> shape{6, 8};
  const struct {
    std::vector<Box> parts;
    std::string missing;
  } rows[] = {
      {{}, "[0, 6) x [0, 8)"},
      {{{{0, 0}, {6, 8}}}, ""},
      {{{{0, 0}, {6, 4}}, {{0, 4}, {6, 4}}}, ""},
      {{{{0, 0}, {6, 4}}, {{0, 4}, {2, 4}}}, "[2, 6) x [4, 8)"},
      {{{{2, 3}, {1, 1}}}, "[0, 2) x [0, 8); [3, 6) x [0, 8); [2, 3) x [0, 3); [2, 3) x [4, 8)"},
  };
  for (const auto& row : rows) EXPECT_EQ(listed(missing(shape, row.parts)), row.missing);
}

// Each part is compared with the boxes missing so far, so their number is bounded.
TEST(Parts, NameABoundedNumberOfMissingBoxes) {
  constexpr Index parts = 5000;
  std::vector<Box> every_other;
  for (Index i = 0; i < parts; ++i) every_other.push_back({{2 * i + 1}, {1}});
  const std::vector<Index> shape{2 * parts};
  const auto found = missing(shape, every_other);
  EXPECT_EQ(found.size(), 256u);
  EXPECT_EQ(to_string(found.front()), "[0, 1)");
}

TEST(Parts, MissExactlyTheOneLeftOut) {
  std::mt19937 random(17);
  for (int trial = 0; trial < 50; ++trial) {
    // Cuts along random dimensions divide the array into irregularly placed boxes.
    std::vector<Box> boxes{{{0, 0, 0}, {9, 10, 11}}};
    for (int cut = 0; cut < 12; ++cut) {
      const std::size_t i = random() % boxes.size(), d = random() % 3;
      Box rest = boxes[i];
      if (rest.extents[d] < 2) continue;
      const Index at = 1 + static_cast<Index>(random()) % (rest.extents[d] - 1);
      boxes[i].extents[d] = at;
      rest.origin[d] += at;
      rest.extents[d] -= at;
      boxes.push_back(rest);
    }
    const std::vector<Index> shape{9, 10, 11};
    EXPECT_TRUE(missing(shape, boxes).empty());
    const Box last = boxes.back();
    boxes.pop_back();
    Index elements = 0;
    for (const Box& box : missing(shape, boxes)) {
      EXPECT_TRUE(overlap(box, last));
      for (const Box& there : boxes) EXPECT_FALSE(overlap(box, there));
      elements += box.extents[0] * box.extents[1] * box.extents[2];
    }
    EXPECT_EQ(elements, last.extents[0] * last.extents[1] * last.extents[2]);
  }
}

TEST(Parts, ShareTheirIntersectionWithAConsumer) {
  const Field east = field("shape=6x4 grid=2x1", {0, 4}, {6, 8});
  const struct {
    Field wanted;
    Box of_offered, of_wanted;
  } rows[] = {
      {field("shape=6x8 grid=1x1", {}, {}), {{0, 0}, {6, 4}}, {{0, 4}, {6, 4}}},
      {field("shape=3x3 grid=1x1", {2, 3}, {}), {{2, 0}, {3, 2}}, {{0, 1}, {3, 2}}},
      {field("shape=6x4 grid=1x1", {0, 0}, {}), {{0, 0}, {0, 0}}, {{0, 0}, {0, 0}}},
  };
  for (const auto& row : rows) {
    const auto shared = shared_box(row.wanted, east);
    EXPECT_EQ(to_string(shared.of_offered), to_string(row.of_offered));
    EXPECT_EQ(to_string(shared.of_wanted), to_string(row.of_wanted));
  }
}

TEST(Parts, MustBeInsideTheirArray) {
  EXPECT_NO_THROW(check_part(field("shape=6x4 grid=1x1", {0, 4}, {6, 8})));
  for (const auto& [origin, whole] : std::vector<std::pair<std::vector<Index>, std::vector<Index>>>{
           {{0, 5}, {6, 8}},
           {{-1, 0}, {6, 8}},
           {{0, 0}, {6, 3}},
           {{0}, {6, 8}},
           {{0, 0}, {6}},
           {{0, 0}, {Index{1} << 40, Index{1} << 40}}}) {
    EXPECT_THROW(check_part(field("shape=6x4 grid=1x1", origin, whole)), core::Error);
    // Fields in a message are rejected as well.
    wire::Field foreign = encode(field("shape=6x4 grid=1x1", origin, whole));
    WireFields fields;
    *fields.Add() = foreign;
    EXPECT_THROW(decode(fields), core::Error);
  }
}

TEST(Parts, RoundTripThroughAMessage) {
  const Field part = field("shape=6x4 grid=2x1", {0, 4}, {6, 8});
  EXPECT_EQ(decode(encode(std::span(&part, 1))).front(), part);
}

}  // namespace
}  // namespace tremula::proto
