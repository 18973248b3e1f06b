// SPDX-License-Identifier: Apache-2.0
#include "coupling/oasis/transformation.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace tremula::oasis {
namespace {

using Values = std::vector<double>;

Values after(Transformation transformation, const std::vector<Values>& puts, std::size_t cut) {
  Accumulation first(transformation, 2), second(transformation, 2);
  for (std::size_t i = 0; i < cut; ++i) first.take(puts[i]);
  if (cut > 0) second.restore(first.count(), first.values());
  for (std::size_t i = cut; i < puts.size(); ++i) second.take(puts[i]);
  const auto result = second.finish();
  return {result.begin(), result.end()};
}

TEST(OasisTransformation, FollowsItsName) {
  const std::vector<Values> puts{{1, -8}, {4, -2}, {2.5, -5}};
  const std::pair<Transformation, Values> rows[] = {{Transformation::instant, {2.5, -5}},
                                                    {Transformation::accumulate, {7.5, -15}},
                                                    {Transformation::average, {2.5, -5}},
                                                    {Transformation::minimum, {1, -8}},
                                                    {Transformation::maximum, {4, -2}}};
  for (const auto& [transformation, expected] : rows)
    for (const std::size_t cut : {0u, 1u, 2u})
      EXPECT_EQ(after(transformation, puts, cut), expected)
          << word_of(transformation) << ", cut after " << cut;
}

TEST(OasisTransformation, BeginsAgainAfterACouplingDate) {
  for (const auto transformation :
       {Transformation::instant, Transformation::accumulate, Transformation::average,
        Transformation::minimum, Transformation::maximum}) {
    Accumulation a(transformation, 1);
    a.take(Values{-100});
    a.take(Values{100});
    a.finish();
    EXPECT_EQ(a.count(), 0);
    a.take(Values{3});
    EXPECT_EQ(a.finish()[0], 3) << word_of(transformation);
  }
}

}  // namespace
}  // namespace tremula::oasis
