// SPDX-License-Identifier: Apache-2.0
#include "index_calc/relabel/assignment.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "core/error.hpp"
#include "tests/index_calc/random.hpp"
#include "tests/rounds.hpp"

namespace tremula::index_calc {
namespace {

using testing::Random;
__extension__ using Wide = __int128;  // sums of eight gains near 2^61

/// A dense matrix of gains, 0 = no entry, and the seats of its columns.
struct Problem {
  std::vector<RankCount> seats;
  std::vector<std::vector<Index>> gain;  ///< shape: [row][column]
};

Gains sparse(const Problem& problem) {
  Gains gains;
  gains.seats = problem.seats;
  for (const auto& row : problem.gain) {
    for (std::size_t k = 0; k < row.size(); ++k)
      if (row[k] > 0) {
        gains.column.push_back(static_cast<RankCount>(k));
        gains.gain.push_back(row[k]);
      }
    gains.begin.push_back(gains.gain.size());
  }
  return gains;
}

/// Returns the sum of the gains; fails unless every column gets as many rows as it has seats.
Wide sum_of(const Problem& problem, const std::vector<RankCount>& columns) {
  Wide sum = 0;
  std::vector<RankCount> rows(problem.seats.size());
  EXPECT_EQ(columns.size(), problem.gain.size());
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const auto k = static_cast<std::size_t>(columns[i]);
    sum += problem.gain[i].at(k);
    ++rows[k];
  }
  EXPECT_EQ(rows, problem.seats);
  return sum;
}

/// Returns the largest sum over all permutations of the seats.
Wide largest_sum(const Problem& problem) {
  std::vector<std::size_t> seats;
  for (std::size_t k = 0; k < problem.seats.size(); ++k)
    seats.insert(seats.end(), static_cast<std::size_t>(problem.seats[k]), k);
  Wide largest = 0;
  do {
    Wide sum = 0;
    for (std::size_t i = 0; i < seats.size(); ++i) sum += problem.gain[i][seats[i]];
    largest = std::max(largest, sum);
  } while (std::next_permutation(seats.begin(), seats.end()));
  return largest;
}

/// Returns the greedy assignment by its definition: all pairs by descending gain, then by row and
/// column, if both are still free.
std::vector<RankCount> greedy(const Problem& problem) {
  std::vector<RankCount> columns(problem.gain.size(), -1), free = problem.seats;
  for (;;) {
    Index best = 0;
    std::size_t row = 0, column = 0;
    for (std::size_t i = 0; i < columns.size(); ++i)
      for (std::size_t k = 0; k < free.size() && columns[i] == -1; ++k)
        if (free[k] > 0 && problem.gain[i][k] > best) {
          best = problem.gain[i][k];
          row = i;
          column = k;
        }
    if (best == 0) break;
    columns[row] = static_cast<RankCount>(column);
    --free[column];
  }
  for (RankCount& column : columns)
    if (column == -1) {
      const auto k = std::ranges::find_if(free, [](RankCount seats) { return seats > 0; });
      column = static_cast<RankCount>(k - free.begin());
      --*k;
    }
  return columns;
}

Problem random_problem(Random& random, Index rows) {
  Problem problem;
  const bool has_classes = random.one_in(2);
  for (Index left = rows; left > 0; left -= problem.seats.back())
    problem.seats.push_back(static_cast<RankCount>(has_classes ? random.in(1, left) : 1));
  const Index zeros = random.in(0, 4);  // of four
  const Index most = std::vector<Index>{1, 3, 1000, Index{1} << 40, Gains::largest}.at(
      static_cast<std::size_t>(random.in(0, 4)));
  const bool is_near = random.one_in(3);  // near the largest gain allowed
  const bool has_giants = random.one_in(4);
  for (Index i = 0; i < rows; ++i) {
    problem.gain.emplace_back();
    for (std::size_t k = 0; k < problem.seats.size(); ++k) {
      Index gain = random.in(1, most);
      if (is_near) gain = Gains::largest - most + gain;
      if (random.one_in(7)) gain = i + 1;
      if (has_giants && random.one_in(10)) gain = Gains::largest - random.in(0, 2);
      problem.gain.back().push_back(random.in(1, 4) <= zeros ? 0 : gain);
    }
  }
  return problem;
}

TEST(Assignment, IsTheBestOfAllPermutations) {
  Random random;
  for (int round = 0; round < testing_only::rounds(10'000); ++round) {
    const Index rows = round % 50 == 49 ? random.in(7, 8) : random.in(1, 6);
    const Problem problem = random_problem(random, rows);
    const Wide best = sum_of(problem, best_assignment(sparse(problem)));
    const Wide largest = largest_sum(problem);
    ASSERT_TRUE(best == largest) << "round " << round;
    const std::vector<RankCount> fast = greedy_assignment(sparse(problem));
    ASSERT_EQ(fast, greedy(problem)) << "round " << round;
    const Wide sum = sum_of(problem, fast);
    ASSERT_TRUE(sum <= largest && 2 * sum >= largest) << "round " << round;
  }
}

/// Returns the best sum by the Hungarian method (Kuhn 1955, Munkres 1957), in its textbook O(n^3)
/// form for costs: it adds one row at a time, with signed potentials of rows and columns. Every
/// seat is a column.
Wide hungarian(const Problem& problem) {
  std::vector<std::size_t> seats{0};  // 1-based like rows; 0 means no row, no seat
  for (std::size_t k = 0; k < problem.seats.size(); ++k)
    seats.insert(seats.end(), static_cast<std::size_t>(problem.seats[k]), k);
  const std::size_t n = seats.size() - 1;
  std::vector<Wide> u(n + 1), v(n + 1);
  std::vector<std::size_t> row_of(n + 1), way(n + 1);
  for (std::size_t i = 1; i <= n; ++i) {
    std::vector<Wide> least(n + 1, Wide{1} << 100);
    std::vector<bool> used(n + 1);
    std::size_t seat = 0;
    row_of[0] = i;
    do {
      used[seat] = true;
      const std::size_t row = row_of[seat];
      std::size_t next = 0;
      Wide delta = Wide{1} << 100;
      for (std::size_t j = 1; j <= n; ++j) {
        if (used[j]) continue;
        const Wide reduced = -Wide{problem.gain[row - 1][seats[j]]} - u[row] - v[j];
        if (reduced < least[j]) least[j] = reduced, way[j] = seat;
        if (least[j] < delta) delta = least[j], next = j;
      }
      for (std::size_t j = 0; j <= n; ++j)
        if (used[j])
          u[row_of[j]] += delta, v[j] -= delta;
        else
          least[j] -= delta;
      seat = next;
    } while (row_of[seat] != 0);
    for (; seat != 0; seat = way[seat]) row_of[seat] = row_of[way[seat]];
  }
  Wide sum = 0;
  for (std::size_t j = 1; j <= n; ++j) sum += problem.gain[row_of[j] - 1][seats[j]];
  return sum;
}

void expect_best(const Problem& problem) {
  const Wide best = sum_of(problem, best_assignment(sparse(problem)));
  ASSERT_TRUE(best == hungarian(problem));
  const Wide sum = sum_of(problem, greedy_assignment(sparse(problem)));
  ASSERT_TRUE(sum <= best && 2 * sum >= best);
}

// Covers the cases that auction, reduction and searches reach only in large problems.
TEST(Assignment, EqualsTheHungarianMethod) {
  Random random;
  for (int round = 0; round < 150; ++round) {
    expect_best(random_problem(random, random.in(9, 70)));
    ASSERT_FALSE(HasFailure()) << "round " << round;
  }
}

// All rows prefer the same columns, which is the worst case for all methods.
TEST(Assignment, IsBestForProducts) {
  Random random;
  for (int round = 0; round < 6; ++round) {
    const Index n = random.in(50, 120), least = random.one_in(2) ? 1 : n * n / 8;
    Problem problem{.seats = std::vector<RankCount>(static_cast<std::size_t>(n), 1), .gain = {}};
    for (Index i = 0; i < n; ++i) {
      problem.gain.emplace_back();
      const Index factor = random.in(1, n);
      for (Index k = 1; k <= n; ++k)
        problem.gain.back().push_back(factor * k < least ? 0 : factor * k);
    }
    expect_best(problem);
    ASSERT_FALSE(HasFailure()) << "round " << round;
  }
}

/// Returns the number of walks per row.
/// @param seats  seats of each column
double walks(const std::vector<RankCount>& seats, const std::function<Index(Index, Index)>& gain) {
  Gains gains;
  gains.seats = seats;
  const auto rows = std::accumulate(seats.begin(), seats.end(), Index{0});
  for (Index i = 0; i < rows; ++i) {
    for (std::size_t k = 0; k < seats.size(); ++k) {
      gains.column.push_back(static_cast<RankCount>(k));
      gains.gain.push_back(gain(i, static_cast<Index>(k)));
    }
    gains.begin.push_back(gains.gain.size());
  }
  std::size_t walks = 0;
  best_assignment(gains, &walks);
  return static_cast<double>(walks) / static_cast<double>(rows);
}

// If the initial prices are bad, the searches walk half of all rows for every row.
TEST(Assignment, WalksARowFarLessOftenThanThereAreRows) {
  Random random;
  constexpr RankCount n = 512;
  constexpr Index giant = Gains::largest / 2;
  const auto small = [&](Index, Index) { return random.in(1, 999); };
  const auto large = [&](Index, Index) { return random.in(1, Index{1} << 40); };
  const auto product = [](Index i, Index k) { return (i + 1) * (k + 1); };
  std::vector<RankCount> some(n - 10, 1);
  for (std::size_t k = 0; k < 10; ++k) some[50 * k] = 2;
  std::vector<RankCount> one_large(n / 2 + 1, 1);
  one_large[7] = n / 2;
  for (const auto& seats : {std::vector<RankCount>(n, 1), some, std::vector<RankCount>(n / 2, 2),
                            std::vector<RankCount>(n / 16, 16), one_large}) {
    SCOPED_TRACE(::testing::Message() << seats.size() << " columns");
    EXPECT_LT(walks(seats, small), 120);
    EXPECT_LT(walks(seats, large), 120);
    EXPECT_LT(walks(seats, product), 200);
    EXPECT_LT(
        walks(seats, [&](Index i, Index k) { return i == 5 && k == 7 ? giant : large(i, k); }),
        150);
    EXPECT_LT(
        walks(seats, [&](Index i, Index k) { return i == 5 && k == 7 ? giant : product(i, k); }),
        220);
  }
}

TEST(Assignment, IsEmptyForAnEmptyProblem) {
  EXPECT_TRUE(best_assignment({}).empty());
  EXPECT_TRUE(greedy_assignment({}).empty());
}

TEST(Assignment, RefusesMalformedProblems) {
  const auto complaint = [](const Gains& gains) {
    try {
      best_assignment(gains);
    } catch (const core::Error& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  EXPECT_EQ(complaint({.seats = {1}, .begin = {0, 0, 0}, .column = {}, .gain = {}}),
            "expected as many seats as rows");
  EXPECT_EQ(complaint({.seats = {1, 0}, .begin = {0, 0}, .column = {}, .gain = {}}),
            "expected at least one seat in every column");
  EXPECT_EQ(complaint({.seats = {1}, .begin = {0, 1}, .column = {0}, .gain = {Index{1} << 61}}),
            "expected gains from 1 to 2^61 - 1");
  EXPECT_EQ(complaint({.seats = {1}, .begin = {0, 1}, .column = {1}, .gain = {1}}),
            "expected column numbers below the number of columns");
}

}  // namespace
}  // namespace tremula::index_calc
