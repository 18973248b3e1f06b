// SPDX-License-Identifier: Apache-2.0
// Runs every test of the transport contract in two separate jobs, so that a connect that MPI
// cannot interrupt does not affect any other test.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <sstream>

#include "tests/coupled/jobs.hpp"

namespace tremula::contract {

namespace {

using coupled::Arguments, coupled::Deadline, coupled::Job, coupled::Launcher, coupled::Role,
    coupled::Stage;

constexpr double test_seconds = 60;
/// Open MPI 4.1 may itself end or block the survivor of a lost peer (transport/mpi/README.md). Such
/// a run shows nothing about Tremula and is repeated, at most this many times.
constexpr int most_stopped_by_mpi = 5;

/// Starts jobs that will be killed. A rank that needs a peer to lose leaves a note (mpi_rank.cpp).
class VictimStarter {
public:
  explicit VictimStarter(Stage& stage) : stage_(stage) {}
  /// Starts the next victim that a note requests, and writes a note when the victim has died.
  void poll() {
    const std::string name = "victim" + std::to_string(victims_);
    std::ifstream note(stage_.directory() / name);
    std::string side, traffic;
    if (job_ == nullptr && note >> side >> traffic) {
      job_ = &stage_.start({name, 1}, Launcher::mpirun,
                           {RANK_PROGRAM, "victim", stage_.directory().string(),
                            std::to_string(victims_), side, traffic});
    } else if (job_ != nullptr && job_->wait(Deadline::after(0))) {
      std::ofstream(stage_.directory() / (name + ".dead")) << "\n";
      job_ = nullptr;
      ++victims_;
    }
  }

private:
  Stage& stage_;
  Job* job_ = nullptr;
  int victims_ = 0;
};

class MpiContract : public testing::Test {
public:
  explicit MpiContract(std::string name) : name_(std::move(name)) {}

  void TestBody() override {
    for (int stopped_by_mpi = 0; !is_judged(); ++stopped_by_mpi) {
      std::printf("[     NOTE ] Open MPI stopped the survivor of a lost peer; trying again\n");
      ASSERT_LT(stopped_by_mpi, most_stopped_by_mpi) << "Open MPI stops every survivor";
    }
  }

private:
  /// Runs the test in separate jobs and judges them. Returns false if Open MPI kept it from ending.
  bool is_judged() {
    const bool is_about_peers = name_.find("Peers") != std::string::npos;
    const bool is_alone = name_.find("Lost") != std::string::npos;
    const Role producers{"producer", is_about_peers ? 3 : 1},
        consumers{"consumer", is_about_peers ? 4 : 1};
    Stage stage;
    stage.start_ompi_server();
    std::vector<Job*> jobs;
    for (const Role& role : {producers, consumers})
      if (jobs.empty() || !is_alone)
        jobs.push_back(
            &stage.start(role, Launcher::mpirun,
                         {RANK_PROGRAM, "--gtest_filter=" + name_, "--gtest_color=no", role.name,
                          stage.directory().string(), std::to_string(producers.ranks),
                          std::to_string(consumers.ranks)}));
    VictimStarter victims(stage);
    const auto deadline = Deadline::after(test_seconds);
    const auto is_over = [&] {
      return std::ranges::all_of(
          jobs, [](Job* job) { return job->wait(Deadline::after(0)).has_value(); });
    };
    while (!is_over() && !deadline.expired()) {
      victims.poll();
      jobs.front()->wait(Deadline::after(0.02));
    }
    if (is_alone && jobs.front()->was_stopped_by_mpi()) return false;
    for (Job* job : jobs) {
      EXPECT_EQ(job->wait(Deadline::after(0)), 0) << job->name();
      EXPECT_EQ(job->output().find("SKIPPED"), std::string::npos) << job->name();
      EXPECT_NE(job->output().find("[  PASSED  ] 1 test"), std::string::npos)
          << job->name() << " ran no test";
    }
    if (HasFailure()) ADD_FAILURE() << stage.report();
    return true;
  }

  std::string name_;
};

/// Returns "Prefix/Suite.Test/parameter" for every test of the suite.
std::vector<std::string> suite() {
  std::unique_ptr<FILE, int (*)(FILE*)> list(popen(RANK_PROGRAM " --gtest_list_tests", "r"),
                                             pclose);
  std::string text;
  for (int c = std::fgetc(list.get()); c != EOF; c = std::fgetc(list.get()))
    text.push_back(static_cast<char>(c));
  std::vector<std::string> names;
  std::istringstream lines(text);
  std::string line, prefix;
  while (std::getline(lines, line)) {
    line.erase(line.find_last_not_of(' ', line.find('#') - 1) + 1);
    if (line.starts_with("  "))
      names.push_back(prefix + line.substr(2));
    else
      prefix = line;
  }
  return names;
}

}  // namespace

}  // namespace tremula::contract

int main(int argc, char** argv) {
  using namespace tremula::contract;
  for (const auto& name : suite()) {
    const auto begin = name.find('.') + 1;
    testing::RegisterTest("MpiContract", name.substr(begin, name.find('/', begin) - begin).c_str(),
                          nullptr, nullptr, __FILE__, __LINE__,
                          [name]() -> testing::Test* { return new MpiContract(name); });
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
