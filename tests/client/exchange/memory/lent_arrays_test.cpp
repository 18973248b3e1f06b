// SPDX-License-Identifier: Apache-2.0
#include "client/exchange/memory/lent_arrays.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace tremula::client {
namespace {

using index_calc::Layout, index_calc::local_part;

TEST(LentArrays, NoticeChangesOfOwnedElementsOnly) {
  for (const char* text :
       {"shape=6x5 grid=2x1 ghost=1x2 leading=11", "shape=6x5 grid=2x1 block=1x5 store=column",
        "shape=7 grid=2 block=3", "shape=2x3x4 grid=1x1x2 ghost=1x0x1", "shape=1x1 grid=1x2"}) {
    const auto part = local_part(Layout::parse(text), core::Rank{0});
    std::vector<std::int32_t> data(static_cast<std::size_t>(part.allocated));
    std::int64_t noticed = 0;
    for (std::size_t i = 0; i < data.size(); ++i) {
      LentArrays lent;
      lent.lend(3, 1, part, sizeof data[0], std::as_bytes(std::span(data)));
      ++data[i];
      if (const auto changed = lent.take_back(3)) {
        ++noticed;
        EXPECT_EQ(changed->step, 3u);
        EXPECT_EQ(changed->field, 1u);
      }
      EXPECT_FALSE(lent.take_back(3)) << "already taken back";
    }
    EXPECT_EQ(noticed, part.elements) << text;
  }
}

TEST(LentArrays, AreTakenBackUpToAStep) {
  const auto part = local_part(Layout::parse("shape=4 grid=1"), core::Rank{0});
  std::vector<std::int64_t> first(4), second(4);
  LentArrays lent;
  lent.lend(0, 0, part, 8, std::as_bytes(std::span(first)));
  lent.lend(1, 0, part, 8, std::as_bytes(std::span(second)));
  second[2] = 1;
  EXPECT_FALSE(lent.take_back(0));
  ASSERT_TRUE(lent.take_back(1));
  lent.lend(2, 0, part, 8, std::as_bytes(std::span(first)));
  first[0] = 1;
  lent.forget();
  EXPECT_FALSE(lent.take_back(2));
}

}  // namespace
}  // namespace tremula::client
