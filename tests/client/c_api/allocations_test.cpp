// SPDX-License-Identifier: Apache-2.0
// What a step costs in allocations, by the public header: nothing that grows with its fields.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tests/client/public_jobs.hpp"
#include "tests/transport/count_allocations.hpp"

namespace {

using namespace tremula;

/// Of a step of so many fields, both jobs together, once all that is kept has been made.
double allocations_of_a_step(int fields, int queue_depth) {
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
  long before = 0, after = 0;
  jobs.start("viewer", one, [&](Session& session) {
    const long without = testing_only::allocations();
    auto in = session.in_stream("sea");
    EXPECT_GT(testing_only::allocations(), without) << "the library's are not counted";
    const auto handles = declare(in);
    std::vector<double> data(16);
    for (int step = 0; step < first_steps + counted_steps; ++step) {
      if (step == first_steps) before = testing_only::allocations();
      ASSERT_EQ(in.begin_step(), StepStatus::ok);
      for (const auto& field : handles) in.get(field, data);
      in.end_step();
    }
    after = testing_only::allocations();
    in.close();
  });
  EXPECT_EQ(jobs.join(), "");
  return static_cast<double>(after - before) / counted_steps;
}

TEST(Allocations, OfAStepDoNotGrowWithItsFields) {
  if (!testing_only::counts_allocations()) GTEST_SKIP() << "the sanitizer has its own operator new";
  setenv("TREMULA_CHECK_LENT", "false", 1);  // it keeps a list of what is lent
  for (const int queue_depth : {2, 0}) {
    constexpr int of_few = 20, of_many = 500;
    const double few = allocations_of_a_step(of_few, queue_depth),
                 many = allocations_of_a_step(of_many, queue_depth);
    RecordProperty("few_" + std::to_string(queue_depth), std::to_string(few));
    RecordProperty("many_" + std::to_string(queue_depth), std::to_string(many));
    // On a busy machine a long wait is told to the server, which allocates now and then.
    EXPECT_LT(many - few, (of_many - of_few) / 2)
        << "queue_depth " << queue_depth << ": " << few << " and " << many;
  }
}

}  // namespace
