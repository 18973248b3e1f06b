// SPDX-License-Identifier: Apache-2.0
// Couples a job in Fortran with one in Python with NumPy. If the arrays of either job are in memory
// from tremula_allocate, each byte is copied once.
#include <gtest/gtest.h>

#include <cstdint>
#include <ostream>
#include <regex>
#include <string>

#include "tests/coupled/jobs.hpp"

namespace tremula::coupled {

namespace {

constexpr int steps = 6;
constexpr std::uint64_t step_bytes = std::uint64_t{60} * 50 * 8;

struct Pair {
  int producers, consumers;
  std::string from, to;  ///< layouts
  std::string producer_memory, consumer_memory;
  std::string hand_over;
  std::uint64_t copies;  ///< per byte
};
void PrintTo(const Pair& pair, std::ostream* out) {
  *out << pair.producers << "x" << pair.consumers << " " << pair.producer_memory << " to "
       << pair.consumer_memory << " by " << pair.hand_over;
}

/// Returns the sum over all ranks of the numbers after `counter=` in their output.
std::uint64_t sum_of(const std::string& counter, const Job& job) {
  const std::regex line("(^|[ \n])" + counter + "=([0-9]+)");
  const std::string text = job.output();
  std::uint64_t sum = 0;
  for (auto at = std::sregex_iterator(text.begin(), text.end(), line); at != std::sregex_iterator();
       ++at)
    sum += std::stoull((*at)[2]);
  return sum;
}

class Memory : public testing::TestWithParam<Pair> {};

TEST_P(Memory, IsCopiedOnlyAsOftenAsNeeded) {
  const Pair& pair = GetParam();
  Stage stage;
  stage.start_server();
  const Environment local{
      {"TREMULA_TRANSPORT", "local"}, {"TREMULA_TIMEOUT", "40"}, {"TREMULA_STEP_TIMEOUT", "40"}};
  Job& producer = stage.start(
      {"producer", pair.producers}, Launcher::plain,
      {PRODUCER, pair.from, std::to_string(steps), pair.producer_memory, pair.hand_over}, local);
  Job& consumer = stage.start(
      {"consumer", pair.consumers}, Launcher::plain,
      {PYTHON, CONSUMER, LIBRARY, pair.to, std::to_string(steps), pair.consumer_memory}, local);
  const auto deadline = Deadline::after(50);
  EXPECT_EQ(consumer.wait(deadline), 0);
  EXPECT_EQ(producer.wait(deadline), 0);
  for (const Job* job : {&producer, &consumer}) {
    EXPECT_EQ(sum_of("bytes", *job), steps * step_bytes) << job->name();
    EXPECT_EQ(
        sum_of("steps", *job),
        std::uint64_t(steps) * std::uint64_t(job == &producer ? pair.producers : pair.consumers));
  }
  EXPECT_EQ(sum_of("copied_bytes", producer) + sum_of("copied_bytes", consumer),
            pair.copies * steps * step_bytes);
  if (HasFailure()) ADD_FAILURE() << stage.report();
}

const std::string rows = "shape=60x50 grid=2x1 block=7x50 store=column",
                  tiles = "shape=60x50 grid=3x1 block=8x50 store=column",
                  whole = "shape=60x50 grid=1x1", columns = "shape=60x50 grid=1x2 block=60x4";

INSTANTIATE_TEST_SUITE_P(
    Pairs, Memory,
    testing::Values(Pair{2, 1, rows, whole, "allocated", "ordinary", "put", 1},
                    Pair{2, 1, rows, whole, "ordinary", "allocated", "put", 1},
                    Pair{3, 2, tiles, columns, "allocated", "allocated", "put", 1},
                    Pair{2, 2, rows, columns, "allocated", "ordinary", "put_async", 1},
                    Pair{2, 1, rows, whole, "ordinary", "ordinary", "put", 2}));

}  // namespace

}  // namespace tremula::coupled
