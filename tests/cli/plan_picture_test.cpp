// SPDX-License-Identifier: Apache-2.0
#include "cli/plan/picture/plan_picture.hpp"

#include <gtest/gtest.h>

#include <regex>

#include "cli/plan/picture/picture_panels.hpp"
#include "core/error.hpp"

namespace tremula::cli {
namespace {

using index_calc::Layout;

Picture picture_of(const std::string& from, const std::string& to, Rank rank = {},
                   std::optional<Rank> peer = {}, Side side = Side::producer) {
  const Redistribution r{.from = Layout::parse(from), .to = Layout::parse(to), .side = side};
  return plan_picture(
      r, {.rank = rank, .plan = make_plan(r, side, rank), .part = planned_part(r, side, rank)},
      peer);
}

std::vector<std::string> texts(const Picture& picture) {
  std::vector<std::string> result;
  for (const auto& shape : picture.shapes)
    if (const auto* text = std::get_if<Text>(&shape)) result.push_back(text->text);
  return result;
}

void expect_texts(const Picture& picture, const std::vector<std::string>& expected) {
  const auto found = texts(picture);
  for (const std::string& text : expected)
    EXPECT_NE(std::ranges::find(found, text), found.end()) << "no \"" << text << "\" in\n"
                                                           << testing::PrintToString(found);
}

/// Returns the area of all filled boxes of a colour.
double area(const Picture& picture, const Colour& colour) {
  double sum = 0;
  for (const auto& shape : picture.shapes)
    if (const auto* boxes = std::get_if<Boxes>(&shape); boxes && boxes->line == 0)
      for (const Rect& r : boxes->rects)
        if (boxes->colour.red == colour.red && boxes->colour.alpha == colour.alpha)
          sum += r.width * r.height;
  return sum;
}

/// Checks that every element is closed in nesting order.
void expect_well_formed(const std::string& xml) {
  std::vector<std::string> open;
  const std::regex tag(R"(<(/?)([a-z]+)((?: [a-zA-Z-]+="[^"<>]*")*)(/?)>)");
  std::size_t end = xml.find("?>") + 2;
  for (auto at =
           std::sregex_iterator(xml.begin() + static_cast<std::ptrdiff_t>(end), xml.end(), tag);
       at != std::sregex_iterator(); ++at) {
    const std::smatch& match = *at;
    if (match[1] == "/") {
      ASSERT_FALSE(open.empty());
      ASSERT_EQ(open.back(), match[2]);
      open.pop_back();
    } else if (match[4] != "/") {
      open.push_back(match[2]);
    }
  }
  EXPECT_TRUE(open.empty());
  const std::string rest = std::regex_replace(xml.substr(end), tag, "");
  EXPECT_EQ(rest.find_first_of("<>"), rest.npos);
}

TEST(PlanPicture, ShowsFourPanelsOfAMatrix) {
  const Picture picture =
      picture_of("shape=24x24 grid=2x3 block=4x4", "shape=24x24 grid=2x2 block=6x3", Rank{2});
  expect_texts(picture,
               {"Redistribution of 24x24 elements, 4.61 kB", "shape=24x24 grid=2x2 block=6x3",
                "Producer: blocks of 6 ranks", "Consumer: blocks of 4 ranks", "the whole array",
                "dimension 0: 0 to 23", "dimension 1: 0 to 23", "Package: producer 2 to consumer 1",
                "36 elements, 288 B, 12 runs for the producer", "Volumes: 4.61 kB in 24 packages",
                "largest 288 B, smallest 96 B", "consumer rank", "producer rank", "nothing"});
}

// Producer 0 has the left half and consumer 1 the lower half of a 340 x 340 square.
TEST(PlanPicture, FillsTheElementsThatThePairShares) {
  const Picture picture = picture_of("shape=8x8 grid=1x2", "shape=8x8 grid=2x1", Rank{0}, Rank{1});
  const double key = 12 * 12;
  EXPECT_NEAR(area(picture, pair_colour) - key, 340.0 * 340 / 4, 1e-6);
}

TEST(PlanPicture, DrawsThePairSeenFromTheConsumer) {
  expect_texts(picture_of("shape=8 grid=2", "shape=8 grid=4", Rank{3}, {}, Side::consumer),
               {"Package: producer 1 to consumer 3", "2 elements, 16 B, 1 run for the consumer"});
}

TEST(PlanPicture, SaysThatThereIsNoPackage) {
  expect_texts(picture_of("shape=8 grid=2", "shape=8 grid=4", Rank{0}, Rank{3}),
               {"Package: producer 0 to consumer 3", "they exchange no elements"});
  expect_texts(picture_of("shape=3 grid=2 block=3", "shape=3 grid=1", Rank{1}),
               {"No package", "producer 1 owns no elements"});
}

TEST(PlanPicture, ShowsACornerOfALargeArray) {
  expect_texts(picture_of("shape=10000x10000 grid=4x4 block=30x50",
                          "shape=10000x10000 grid=8x3 block=64x64", Rank{15}, Rank{0}),
               {"only the first 720 x 1200 of 10000 x 10000 elements"});
  expect_texts(picture_of("shape=1000 grid=2 block=2", "shape=1000 grid=2 block=3"),
               {"only the first 48 of 1000 elements, whole periods"});
}

TEST(PlanPicture, ShowsOnlyVolumesInThreeDimensions) {
  const Picture picture = picture_of("shape=8x8x8 grid=2x2x2", "shape=8x8x8 grid=1x1x4");
  expect_texts(picture, {"Volumes: 4.10 kB in 16 packages", "largest 256 B, smallest 256 B"});
  const auto found = texts(picture);
  EXPECT_EQ(std::ranges::find(found, "Producer: blocks of 8 ranks"), found.end());
}

TEST(PlanPicture, GathersManyRanksInACell) {
  const Picture picture = picture_of("shape=900 grid=300", "shape=900 grid=600");
  expect_texts(picture, {"largest 16 B, smallest 8 B; a cell is the mean of 2 x 3 pairs"});
}

TEST(PlanPicture, KeepsItsTextInsideThePage) {
  for (const auto& [from, to] :
       {std::pair{"shape=1000000x1000000 grid=64x64 block=30x50",
                  "shape=1000000x1000000 grid=100x100 block=128x128"},
        {"shape=9000000000000 grid=7", "shape=9000000000000 grid=300 block=1"},
        {"shape=3x1000000 grid=1x2", "shape=3x1000000 grid=3x1"},
        {"shape=4x4x4x4 grid=1x2x3x4", "shape=4x4x4x4 grid=4x1x1x1"},
        {"shape=1000x1000 mesh=64x64 axes0=1 block=3x1000", "shape=1000x1000 mesh=10000"},
        {"shape=900x7 mesh=4x4x2 equal=64x7 owner0=b0/2-b1 owner1=b1 owner2=b0",
         "shape=900x7 grid=1x2"}}) {
    const Picture picture = picture_of(from, to);
    for (const auto& shape : picture.shapes) {
      if (const auto* text = std::get_if<Text>(&shape)) {
        const double width = 0.53 * text->size * static_cast<double>(text->text.size());
        const double left = text->is_upward                  ? text->x
                            : text->anchor == Anchor::start  ? text->x
                            : text->anchor == Anchor::middle ? text->x - width / 2
                                                             : text->x - width;
        EXPECT_GE(left, 0) << text->text;
        EXPECT_LE(text->is_upward ? left : left + width, picture.width) << text->text;
        EXPECT_LE(text->y, picture.height) << text->text;
      } else if (const auto* polygons = std::get_if<Polygons>(&shape)) {
        for (const auto& corners : polygons->corners)
          for (const Point& p : corners) {
            EXPECT_GE(std::min(p.x, p.y), 0);
            EXPECT_LE(p.x, picture.width);
            EXPECT_LE(p.y, picture.height);
          }
      } else {
        for (const Rect& r : std::get<Boxes>(shape).rects) {
          EXPECT_GE(r.x, 0);
          EXPECT_GE(r.y, 0);
          EXPECT_LE(r.x + r.width, picture.width);
          EXPECT_LE(r.y + r.height, picture.height);
        }
      }
    }
  }
}

/// Returns the area of the polygons of one colour, by the shoelace formula.
double striped_area(const Picture& picture, const Colour& colour) {
  double sum = 0;
  for (const auto& shape : picture.shapes)
    if (const auto* polygons = std::get_if<Polygons>(&shape);
        polygons && polygons->colour.red == colour.red)
      for (const auto& corners : polygons->corners)
        for (std::size_t i = 0; i < corners.size(); ++i) {
          const Point &a = corners[i], &b = corners[(i + 1) % corners.size()];
          sum += (a.x * b.y - b.x * a.y) / 2;
        }
  return sum;
}

// Ranks 0 and 2 have the upper half of a 340 x 340 square; ranks 1 and 3 have the lower half.
TEST(PlanPicture, StripesElementsOfSeveralRanks) {
  const Picture picture =
      picture_of("shape=8x8 mesh=2x2 axes0=1", "shape=8x8 grid=1x2", Rank{2}, Rank{1});
  expect_texts(picture,
               {"Producer: blocks of 4 ranks, which hold 2 copies", "0 2", "1 3",
                "striped: several ranks", "Package: producer 2 to consumer 1",
                "8 elements, 64 B, 2 runs for the producer", "package; rest from other ranks",
                "Volumes: 512 B in 8 packages", "largest 64 B, smallest 64 B"});
  const double half = 340.0 * 340 / 2, key = 12 * 12;
  // One half is in the producer's plot; the other half, in the consumer's plot, is consumer 0's.
  EXPECT_NEAR(area(picture, viridis(0)), half + half, 1e-6);
  EXPECT_NEAR(striped_area(picture, viridis(2.0 / 3)), half / 2, half / 20);
  EXPECT_NEAR(striped_area(picture, viridis(1)), half / 2, half / 20);
  EXPECT_NEAR(area(picture, pair_colour) - key, 340.0 * 340 / 8, 1e-6);
}

TEST(PlanPicture, CountsTheRanksThatHaveNoRoom) {
  expect_texts(picture_of("shape=8x8 mesh=64", "shape=8x8 grid=8x8"), {"0 +63"});
}

TEST(PlanPicture, SaysThatACopySendsNothing) {
  expect_texts(picture_of("shape=1 mesh=2", "shape=1 grid=1", Rank{0}),
               {"No package", "producer 0 sends no elements"});
}

TEST(PlanPicture, ShowsASkewedLayout) {
  const Picture picture = picture_of(
      "shape=24x24 grid=3x2 block=4x4",
      "shape=24x24 mesh=2x2x2 block=4x4 owner0=b0 owner1=b1 owner2=b0/2+b1/2", Rank{0}, Rank{1});
  expect_texts(picture,
               {"Consumer: blocks of 8 ranks", "7", "Package: producer 0 to consumer 1",
                "16 elements, 128 B, 4 runs for the producer", "Volumes: 4.61 kB in 24 packages"});
  const double key = 12 * 12;
  EXPECT_NEAR(area(picture, pair_colour) - key, 340.0 * 340 / 36, 1e-6);
}

// Rank 0 lists columns 0 to 3, rank 1 columns 2 to 5; columns 6 and 7 are on no rank.
TEST(PlanPicture, ShowsElementsThatRanksList) {
  Redistribution r{.from = Layout::parse("shape=8x8 lists=2 partial=yes copies=yes"),
                   .to = Layout::parse("shape=8x8 grid=2x1")};
  const std::vector<Index> shape{8, 8}, origin{0, 0}, extents{8, 4}, second{0, 2}, wide{8, 4};
  r.lists = match_all(r.from, r.to,
                      std::vector{index_calc::IndexList::of_boxes(shape, origin, extents),
                                  index_calc::IndexList::of_boxes(shape, second, wide)},
                      {});
  const Rank rank{1};
  const Picture picture = plan_picture(
      r, {.rank = rank, .plan = make_plan(r, r.side, rank), .part = planned_part(r, r.side, rank)},
      Rank{0});
  expect_texts(picture, {"Producer: elements of 2 ranks", "0", "1", "0 1",
                         "striped: several ranks, grey: none", "Package: producer 1 to consumer 0",
                         "8 elements, 64 B, 4 runs for the producer",
                         "package; rest from other ranks", "Volumes: 384 B in 4 packages"});
  const double square = 340.0 * 340, key = 12 * 12;
  EXPECT_NEAR(area(picture, pair_colour) - key, square / 8, 1e-6);
  EXPECT_NEAR(striped_area(picture, viridis(1)), square / 8, square / 80);
}

TEST(PlanPicture, RefusesAnEmptyArray) {
  EXPECT_THROW(picture_of("shape=0x4 grid=1x1", "shape=0x4 grid=1x1"), core::Error);
}

TEST(Svg, IsWellFormedAndHoldsTheTitles) {
  for (const auto& [from, to] :
       {std::pair{"shape=24x24 grid=2x3 block=4x4", "shape=24x24 grid=2x2"},
        {"shape=900 grid=300", "shape=900 grid=600"},
        {"shape=24x24 mesh=2x3 axes0=0", "shape=24x24 mesh=2x2 owner0=b0-b1 equal=4x4"},
        {"shape=8x8x8 grid=2x2x2", "shape=8x8x8 grid=1x1x4"}}) {
    const Picture picture = picture_of(from, to);
    const std::string svg = to_svg(picture);
    EXPECT_EQ(svg.rfind("<?xml version=\"1.0\"", 0), 0u);
    EXPECT_NE(svg.find("<title>Redistribution of "), svg.npos);
    expect_well_formed(svg);
    for (const std::string& text : texts(picture))
      EXPECT_NE(svg.find(">" + text + "</text>"), svg.npos) << text;
  }
}

TEST(Svg, HasNoLengthBelowZero) {
  Picture picture{.width = 10, .height = 10, .title = "", .shapes = {}};
  picture.shapes.push_back(
      Boxes{.rects = {{1, 2, 0.5, 3}, {1, 2, 3, 0.5}}, .colour = {}, .line = 1});
  const std::string svg = to_svg(picture);
  EXPECT_NE(svg.find("M1.5 2.5h0v2h-0zM1.5 2.5h2v0h-2z"), svg.npos) << svg;
}

TEST(Svg, EscapesItsText) {
  Picture picture{.width = 10, .height = 10, .title = "a < b & c > d", .shapes = {}};
  picture.write({.x = 1, .y = 2, .text = "<&>", .colour = {}});
  const std::string svg = to_svg(picture);
  expect_well_formed(svg);
  EXPECT_NE(svg.find("<title>a &lt; b &amp; c &gt; d</title>"), svg.npos);
  EXPECT_NE(svg.find(">&lt;&amp;&gt;</text>"), svg.npos);
}

}  // namespace
}  // namespace tremula::cli
