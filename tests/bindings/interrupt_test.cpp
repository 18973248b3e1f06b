// SPDX-License-Identifier: Apache-2.0
// Ctrl-C ends a Python program that waits for a step, and the program can still clean up.
#include <gtest/gtest.h>

#include <csignal>
#include <string>

#include "tests/coupled/jobs.hpp"

namespace tremula::coupled {
namespace {

TEST(Interrupt, EndsAWaitInPython) {
  Stage stage;
  stage.start_server();
  Job& consumer = stage.start({"python", 1}, Launcher::plain, {PYTHON, CONSUMER, LIBRARY},
                              {{"TREMULA_TIMEOUT", "600"}});
  const auto has_said = [&](const std::string& word) {
    return consumer.output().find(word) != std::string::npos;
  };
  for (const auto deadline = Deadline::after(60); !has_said("waiting") && !deadline.expired();)
    ASSERT_FALSE(consumer.wait(Deadline::after(0.01))) << consumer.output();
  consumer.process(0).signal(SIGINT);
  EXPECT_EQ(consumer.wait(Deadline::after(60)), 0) << stage.report();
  EXPECT_TRUE(has_said("interrupted")) << consumer.output();
  EXPECT_TRUE(has_said("closed")) << consumer.output();
}

}  // namespace
}  // namespace tremula::coupled
