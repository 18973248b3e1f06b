// SPDX-License-Identifier: Apache-2.0
// Tests layouts whose extent changes from step to step, sized by the counts of one step.
#include "index_calc/layout/changing.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "tests/core/error_of.hpp"

namespace tremula::index_calc {
namespace {

/// Returns the end of the error of sized(), from its last "found".
std::string refusal_of(const Layout& layout, const std::vector<Index>& counts) {
  const auto text = core::error_of([&] { sized(layout, counts); }, core::Errc::invalid_argument);
  return text.substr(std::min(text.rfind("found"), text.size()));
}

TEST(Changing, DistributesASinkAsItsLayoutStates) {
  const auto even = Layout::parse("shape=*x3 grid=4x1");
  EXPECT_EQ(to_string(sized(even, 10)), "shape=10x3 grid=4x1");
  EXPECT_EQ(to_string(sized(even, 0)), "shape=0x3 grid=4x1");
  const auto dealt = Layout::parse("shape=*x3 grid=4x1 block0=2 source=1x0");
  EXPECT_EQ(to_string(sized(dealt, 100)), "shape=100x3 grid=4x1 block0=2 source=1x0");
  EXPECT_EQ(to_string(sized(Layout::parse("shape=* mesh=3"), 7)), "shape=7 mesh=3");
}

TEST(Changing, JoinsThePartsOfASourceInOrder) {
  const auto layout = Layout::parse("shape=5x* grid=1x4");
  const std::vector<Index> counts{3, 0, 4, 1}, none{0, 0, 0, 0};
  EXPECT_EQ(to_string(sized(layout, counts)), "shape=5x8 grid=1x4 splits1=0/3/7/8 owners1=0/2/3");
  EXPECT_EQ(shape(sized(layout, none)), (std::vector<Index>{5, 0}));
}

TEST(Changing, TakesNoMoreElementsThanCanBeCounted) {
  const auto layout = Layout::parse("shape=*x4 grid=2x1");
  constexpr Index most = std::numeric_limits<Index>::max();
  EXPECT_THROW(sized(layout, most / 2), core::Error);
  EXPECT_EQ(slice_elements(layout, Rank{1}), 4);
  const std::vector<Index> counts{most, 1};
  EXPECT_THROW(counts_along(layout, counts), core::Error);
  EXPECT_EQ(refusal_of(layout, counts), "found 1 at coordinate 1");
  EXPECT_EQ(refusal_of(layout, {-1, 2}), "found -1 at coordinate 0");
}

TEST(Changing, NeedsEqualCountsAtOnePlace) {
  const auto layout = Layout::parse("shape=*x3 grid=2x2 block=1x3");  // ranks 1 and 3 store nothing
  EXPECT_EQ(counts_along(Layout::parse("shape=*x3 grid=2x2"), std::vector<Index>{4, 4, 2, 2}),
            (std::vector<Index>{4, 2}));
  EXPECT_EQ(counts_along(layout, std::vector<Index>{4, 0, 2, 9}), (std::vector<Index>{4, 2}));
  EXPECT_EQ(slice_elements(layout, Rank{1}), 0);
  try {
    counts_along(Layout::parse("shape=*x4 grid=2x2"), std::vector<Index>{4, 4, 2, 3});
    ADD_FAILURE() << "expected an error";
  } catch (const core::Error& e) {
    EXPECT_EQ(e.code(), core::Errc::mismatch);
    EXPECT_NE(
        std::string(e.what()).find("ranks 2 and 3, which have the same position along dimension 0, "
                                   "to have the same number of elements along it, found 2 and 3"),
        std::string::npos)
        << e.what();
  }
}

TEST(Changing, FindsThePlacesOfMembers) {
  const auto layout = Layout::parse("shape=*x3 grid=2x2 members=5/4/1/0");
  EXPECT_EQ(counts_along(layout, std::vector<Index>{2, 2, 9, 9, 4, 4}), (std::vector<Index>{4, 2}));
  EXPECT_EQ(slice_elements(layout, Rank{0}), 1);
  EXPECT_EQ(slice_elements(layout, Rank{2}), 0);
  EXPECT_EQ(slice_elements(layout, Rank{5}), 2);
}

TEST(Changing, CanBeNeitherPlannedNorSelected) {
  const auto layout = Layout::parse("shape=*x3 grid=2x1"),
             fixed = Layout::parse("shape=0x3 grid=2x1");
  EXPECT_THROW(expect_grid(layout, "selection"), core::Error);
  EXPECT_THROW(validate_pair(layout, fixed), core::Error);
  EXPECT_THROW(validate_pair(layout, Layout::parse("shape=3x* grid=2x1")), core::Error);
  EXPECT_NO_THROW(validate_pair(layout, Layout::parse("shape=*x3 mesh=2")));
  EXPECT_NE(fingerprint(layout), fingerprint(fixed));
}

}  // namespace
}  // namespace tremula::index_calc
