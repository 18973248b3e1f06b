// SPDX-License-Identifier: Apache-2.0
// The number of allocations of a step does not grow with the number of its fields. Uses the public
// header.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/client/public_jobs.hpp"
#include "tests/transport/count_allocations.hpp"

namespace {

using namespace tremula;

/// Returns how many allocations a step of `fields` fields makes in both jobs together, once all
/// long-lived memory has been allocated. Takes the minimum of many steps, because a busy machine
/// causes long waits, and reporting them to the server allocates.
long allocations_of_a_step(int fields, int queue_depth) {
  constexpr int first_steps = 5, counted_steps = 40;
  const auto layout = Layout::block({.shape = {16}, .grid = {1}});
  const std::vector<std::string> one{"here"};
  tremula::testing::Jobs jobs;
  const auto declare = [&](auto& stream) {
    std::vector<Field<double>> handles;
    for (int f = 0; f < fields; ++f)
      handles.push_back(stream.template field<double>("f" + std::to_string(f), layout));
    return handles;
  };
  jobs.start("model", one, [&](Session& session) {
    auto out = session.out_stream("sea", {.queue_depth = queue_depth});
    const auto handles = declare(out);
    const std::vector<double> data(16, 1);
    for (int step = 0; step < first_steps + counted_steps; ++step) {
      out.begin_step();
      for (const auto& field : handles) out.put(field, data);
      out.end_step();
    }
    out.close();
  });
  std::array<long, counted_steps + 1> counts{};
  jobs.start("viewer", one, [&](Session& session) {
    const long without = testing_only::allocations();
    auto in = session.in_stream("sea");
    EXPECT_GT(testing_only::allocations(), without) << "the library's allocations are not counted";
    const auto handles = declare(in);
    std::vector<double> data(16);
    for (int step = 0; step < first_steps + counted_steps; ++step) {
      if (step >= first_steps)
        counts[static_cast<std::size_t>(step - first_steps)] = testing_only::allocations();
      ASSERT_EQ(in.begin_step(), StepStatus::ok);
      for (const auto& field : handles) in.get(field, data);
      in.end_step();
    }
    counts.back() = testing_only::allocations();
    in.close();
  });
  EXPECT_EQ(jobs.join(), "");
  std::array<long, counted_steps> steps{};
  for (std::size_t i = 0; i < steps.size(); ++i) steps[i] = counts[i + 1] - counts[i];
  // Averages over two consecutive steps, so that allocations made in every other step count as
  // well. The pair with the fewest contains no heartbeat.
  long least = steps[0] + steps[1];
  for (std::size_t i = 2; i < steps.size(); ++i) least = std::min(least, steps[i - 1] + steps[i]);
  return least / 2;
}

TEST(Allocations, DoNotGrowWithTheFieldsOfAStep) {
  if (!testing_only::counts_allocations()) GTEST_SKIP() << "the sanitizer has its own operator new";
  setenv("TREMULA_CHECK_LENT", "false", 1);  // this check keeps a list of lent arrays
  for (const int queue_depth : {2, 0}) {
    constexpr int of_few = 20, of_many = 500;
    const long few = allocations_of_a_step(of_few, queue_depth),
               many = allocations_of_a_step(of_many, queue_depth);
    RecordProperty("few_" + std::to_string(queue_depth), std::to_string(few));
    RecordProperty("many_" + std::to_string(queue_depth), std::to_string(many));
    EXPECT_LT(many - few, 50) << "queue_depth " << queue_depth << ": " << few << " and " << many;
  }
}

}  // namespace
