// SPDX-License-Identifier: Apache-2.0
// One producer job and consumer jobs with different paces and policies: every step that arrives is
// complete (coupled_queue checks every element), all ranks of a consumer see the same steps, and both
// sides count the dropped steps exactly.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <random>
#include <sstream>

#include "tests/coupled/jobs.hpp"

namespace tremula::coupled {

namespace {

constexpr std::uint64_t steps = 400;

struct Seen {
  std::vector<std::uint64_t> steps;
  std::uint64_t dropped = 0;
  friend bool operator==(const Seen&, const Seen&) = default;
};

/// Returns the steps that each rank of `job` has printed.
std::vector<Seen> seen_by(const Job& job) {
  std::vector<Seen> all;
  std::istringstream lines(job.output());
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string word;
    if (!(words >> word) || word != "saw") continue;
    Seen& seen = all.emplace_back();
    while (words >> word && word != "dropped") seen.steps.push_back(std::stoull(word));
    words >> seen.dropped;
  }
  return all;
}

struct QueueCase {
  std::string when_full, transport;
  std::string name() const { return when_full + "_" + transport; }
};
void PrintTo(const QueueCase& of, std::ostream* out) { *out << of.name(); }

class CoupledQueue : public testing::TestWithParam<QueueCase> {
protected:
  CoupledQueue() {
    const char* given = std::getenv("TREMULA_TEST_SEED");
    seed = given != nullptr ? given : std::to_string(std::random_device{}() % 1000000);
    stage.start_server();
  }
  /// @param part  producer or consumer
  /// @param nap   longest nap between two calls, in microseconds. A rank with naps of 5000 also naps
  ///              for a second in its first step, so that even a slow producer fills the queue
  Job& start(const Role& role, const std::string& part, const std::string& options,
             const std::string& nap) {
    return stage.start(
        role, Launcher::plain,
        {std::string(PROGRAMS) + "/coupled_queue", "--group", role.name, "--role", part, "--steps",
         std::to_string(steps), "--options", options, "--transport", GetParam().transport, "--nap",
         nap, "--seed", seed, "--first-nap", nap == "5000" ? "1000000" : "0"},
        {{"TREMULA_OFI_PROVIDER", "tcp;ofi_rxm"}});
  }
  std::string seed;
  Stage stage;
};

/// Tests of steps that consumers share.
class CoupledShare : public CoupledQueue {};

TEST_P(CoupledQueue, GivesAllRanksTheSameStepsAndCountsTheRest) {
  const std::string& when_full = GetParam().when_full;
  SCOPED_TRACE("replay with TREMULA_TEST_SEED=" + seed);
  Job& producer =
      start({"producer", 2}, "producer",
            "{queue_depth: 3, wait_for_consumers: 3, when_full: " + when_full + "}", "500");
  Job& quick = start({"quick", 1}, "consumer", "{}", "0");
  Job& slow = start({"slow", 3}, "consumer", "{}", when_full == "block" ? "0" : "5000");
  Job& latest = start({"latest", 2}, "consumer", "{steps: latest}", "5000");
  const auto deadline = core::Deadline::after(300);
  for (Job* job : {&producer, &quick, &slow, &latest})
    ASSERT_EQ(job->wait(deadline), 0) << job->name() << stage.report();
  std::uint64_t dropped = 0;
  for (const auto& [job, ranks] :
       {std::pair{&quick, 1u}, std::pair{&slow, 3u}, std::pair{&latest, 2u}}) {
    const auto seen = seen_by(*job);
    ASSERT_EQ(seen.size(), ranks) << job->output();
    for (const Seen& rank : seen) {
      EXPECT_EQ(rank, seen[0]) << "ranks of " << job->name() << " saw different steps";
      EXPECT_EQ(rank.steps.size() + rank.dropped, steps) << job->name();
      EXPECT_TRUE(std::is_sorted(rank.steps.begin(), rank.steps.end(), std::less_equal<>{}));
    }
    dropped += seen[0].dropped;
    if (job == &latest) {
      EXPECT_GT(seen[0].dropped, 0u);
    }
    if (job != &latest && when_full == "block") {
      EXPECT_EQ(seen[0].dropped, 0u);
    }
    if (job == &slow && when_full != "block") {
      EXPECT_GT(seen[0].dropped, 0u);
    }
  }
  const auto reported = seen_by(producer);
  ASSERT_EQ(reported.size(), 2u);
  for (const Seen& rank : reported) EXPECT_EQ(rank.dropped, dropped);
}

TEST_P(CoupledShare, GivesEachStepToOneGroup) {
  SCOPED_TRACE("replay with TREMULA_TEST_SEED=" + seed);
  Job& producer = start(
      {"producer", 2}, "producer",
      "{queue_depth: 2, wait_for_consumers: 2, keep_steps: 4, when_full: drop_newest}", "500");
  Job& one = start({"one", 1}, "consumer", "{steps: share}", "0");
  Job& other = start({"other", 3}, "consumer", "{steps: share}", "3000");
  Job& late = start({"late", 2}, "consumer", "{steps: latest, start: oldest}", "0");
  const auto deadline = core::Deadline::after(300);
  for (Job* job : {&producer, &one, &other, &late})
    ASSERT_EQ(job->wait(deadline), 0) << job->name() << stage.report();
  std::vector<std::uint64_t> shared;
  for (const Job* job : {&one, &other}) {
    const auto seen = seen_by(*job);
    ASSERT_FALSE(seen.empty()) << job->output();
    for (const Seen& rank : seen) EXPECT_EQ(rank, seen[0]) << "ranks of " << job->name();
    EXPECT_EQ(seen[0].dropped, 0u);
    EXPECT_FALSE(seen[0].steps.empty()) << job->name();
    shared.insert(shared.end(), seen[0].steps.begin(), seen[0].steps.end());
  }
  std::ranges::sort(shared);
  ASSERT_EQ(shared.size(), steps);
  for (std::uint64_t step = 0; step < steps; ++step) ASSERT_EQ(shared[step], step);
  const auto seen = seen_by(late);
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0], seen[1]);
  ASSERT_FALSE(seen[0].steps.empty());
  EXPECT_EQ(seen[0].steps.back(), steps - 1);
}

std::vector<QueueCase> cases() {
  std::vector<QueueCase> all;
  for (const char* const transport : {"local", "tcp", "ofi"})
    for (const char* const policy : {"block", "drop_oldest", "drop_newest"})
      all.push_back({policy, transport});
  return all;
}
INSTANTIATE_TEST_SUITE_P(Jobs, CoupledShare,
                         testing::Values(QueueCase{"share", "local"}, QueueCase{"share", "ofi"}),
                         [](const auto& test) { return test.param.name(); });
INSTANTIATE_TEST_SUITE_P(Jobs, CoupledQueue, testing::ValuesIn(cases()),
                         [](const auto& test) { return test.param.name(); });

}  // namespace

}  // namespace tremula::coupled
