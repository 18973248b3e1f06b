// SPDX-License-Identifier: Apache-2.0
// Jobs that break a rule get an error that names the rule; jobs coupled to them get an error as well.
#include <gtest/gtest.h>

#include <string>

#include "tests/coupled/actors.hpp"

namespace tremula::coupled {

namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class CoupledMisuse : public testing::TestWithParam<std::string> {
protected:
  void TearDown() override {
    if (HasFailure()) ADD_FAILURE() << stage_.report();
  }
  Job& start(const Role& role, Launcher launcher, const Arguments& options) {
    return stage_.start(
        role, launcher,
        join(Arguments{PROGRAMS "/coupled_misuse", "--group", role.name, "--session",
                       "{transport: auto, timeout: 60, step_timeout: 300}"},
             options));
  }
  Stage stage_;
};

TEST_P(CoupledMisuse, EndsInErrorsAfterMpiFinalize) {
  if (GetParam() != "mpi") return;
  stage_.start_server();
  Job& job = start({"late", 2}, Launcher::mpirun, {"--misuse", "finalized"});
  EXPECT_EQ(job.wait(Deadline::after(patience_seconds)), 0);
}

TEST_P(CoupledMisuse, ReportsAnExtraStepOfOneRankToBothJobs) {
  const Launcher launcher = GetParam() == "mpi" ? Launcher::mpirun : Launcher::plain;
  for (const std::string longer : {"0", "1"}) {
    Stage& stage = stage_;
    stage.start_server();
    Job& consumer = start({"consumer" + longer, 1}, Launcher::plain, {"--misuse", "consumer"});
    Job& producer = start({"producer", 2}, launcher, {"--misuse", "one_more", "--longer", longer});
    EXPECT_EQ(producer.wait(Deadline::after(patience_seconds)), 0);
    EXPECT_EQ(consumer.wait(Deadline::after(patience_seconds)), 0);
    const std::string expected =
        longer == "1" ? "rank 1 in begin_step of stream 's', step 3, while rank 0 is in close of"
                      : "rank 1 in close of stream 's', step 3, while rank 0 is in begin_step of";
    const std::string text = producer.output();
    const auto first = text.find(expected);
    ASSERT_NE(first, std::string::npos) << text;
    EXPECT_NE(text.find(expected, first + 1), std::string::npos)
        << "expected on both ranks: " << text;
    EXPECT_TRUE(has(consumer.output(), "stream 's', step ")) << consumer.output();
    stage.stop_server(15);
  }
}

INSTANTIATE_TEST_SUITE_P(Launchers, CoupledMisuse, testing::Values("mpi", "plain"),
                         [](const auto& test) { return test.param; });

}  // namespace

}  // namespace tremula::coupled
