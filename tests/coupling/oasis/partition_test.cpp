// SPDX-License-Identifier: Apache-2.0
#include "coupling/oasis/partition.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "coupling/oasis/failure.hpp"

namespace tremula::oasis {
namespace {

std::vector<std::int64_t> points_of(const Partition& partition) {
  std::vector<std::int64_t> points;
  for (std::size_t i = 0; i < partition.begins.size(); ++i)
    for (std::int64_t j = 0; j < partition.lengths[i]; ++j)
      points.push_back(partition.begins[i] + j);
  return points;
}

TEST(OasisPartition, HasThePointsOfTheManual) {
  struct Row {
    std::vector<int> ig_paral;
    std::vector<std::int64_t> points;
    std::size_t segments;
  };
  const Row rows[] = {{{0, 0, 4}, {0, 1, 2, 3}, 1},
                      {{1, 3, 2}, {3, 4}, 1},
                      {{1, 3, 0}, {}, 0},
                      {{2, 7, 2, 2, 6}, {7, 8, 13, 14}, 2},
                      {{2, 0, 3, 2, 3}, {0, 1, 2, 3, 4, 5}, 1},
                      {{2, 0, 0, 2, 3}, {}, 0},
                      {{3, 3, 8, 2, 0, 0, 1, 1}, {8, 9, 1}, 2},
                      {{3, 0}, {}, 0},
                      {{4, 4, 5, 1, 2, 9}, {4, 0, 1, 8}, 3},
                      {{4, 0}, {}, 0}};
  for (const Row& row : rows) {
    const Partition p = make_partition("p", row.ig_paral);
    EXPECT_EQ(points_of(p), row.points) << row.ig_paral[0];
    EXPECT_EQ(p.begins.size(), row.segments) << row.ig_paral[0];
    EXPECT_EQ(p.size, static_cast<std::int64_t>(row.points.size())) << row.ig_paral[0];
  }
}

TEST(OasisPartition, RefusesInvalidPartitions) {
  const std::pair<std::vector<int>, const char*> rows[] = {
      {{}, "ig_paral, any partition: expected at least 1 element; found 0"},
      {{9, 0, 6},
       "ig_paral(1): expected 0 (serial), 1 (apple), 2 (box), 3 (orange) or 4 (points); found 9"},
      {{5, 0, 1, 1, 1, 1, 1}, "ig_paral(1) = 5, the cube partition, is not supported"},
      {{2, 0, 2, 3}, "ig_paral, box partition: expected at least 5 elements; found 4"},
      {{1, -1, 6}, "ig_paral(2), the offset: expected 0 or more; found -1"},
      {{2, 2, 2, 3, 3},
       "expected the box to fit into rows of 3 points; found the offset 2 and the length 2 along "
       "x"},
      {{3, 2, 0, 2, 4}, "ig_paral, orange partition: expected at least 6 elements; found 5"},
      {{4, 2, 1, 0}, "ig_paral(4): expected points counted from 1; found 0"},
      {{4, 3, 1, 2}, "ig_paral, points partition: expected at least 5 elements; found 4"}};
  for (const auto& [ig_paral, words] : rows) try {
      make_partition("p", ig_paral);
      ADD_FAILURE() << "accepted: " << words;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
}

}  // namespace
}  // namespace tremula::oasis
