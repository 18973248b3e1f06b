// SPDX-License-Identifier: Apache-2.0
// Components that share one mpirun, as in OASIS3-MCT: the communicator is split by their names;
// some ranks and components take no part.
#include <gtest/gtest.h>

#include <fstream>

#include "tests/coupling/oasis/toy.hpp"

namespace tremula::oasis_toy {
namespace {

TEST(OasisTogether, SplitsTheJobByNames) {
  coupled::Stage stage;
  stage.start_server();
  const auto folder = stage.directory() / "run";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "namcouple") << "$NFIELDS\n1\n$END\n$RUNTIME\n2400\n$END\n$STRINGS\n"
                                         "GIVEN TAKEN 1 600 0 none.nc EXPORTED\nhere there\n$END\n";
  const auto part = [&](const std::string& ranks, const std::string& name) {
    return coupled::Arguments{"-n", ranks,           "/usr/bin/env",
                              "-C", folder.string(), PROGRAMS "/coupling_oasis_together",
                              name};
  };
  coupled::Arguments command{
      "/usr/bin/env", "-C", folder.string(), PROGRAMS "/coupling_oasis_together", "giver", ":"};
  for (const auto& argument : part("1", "clerk")) command.push_back(argument);
  command.push_back(":");
  for (const auto& argument : part("3", "taker")) command.push_back(argument);
  coupled::Job& job = stage.start({"together", 3}, coupled::Launcher::mpirun, command,
                                  {{"TREMULA_TIMEOUT", "40"}, {"TREMULA_STEP_TIMEOUT", "40"}});
  EXPECT_EQ(job.wait(coupled::Deadline::after(90)), 0);
  const std::string text = job.output();
  for (const auto& [name, ranks] :
       {std::pair("giver", 3), std::pair("clerk", 1), std::pair("taker", 3)}) {
    int count = 0;
    const std::string line = std::string(name) + " is right";
    for (auto at = text.find(line); at != text.npos; at = text.find(line, at + 1)) ++count;
    EXPECT_EQ(count, ranks) << name;
  }
  if (HasFailure()) ADD_FAILURE() << stage.report();
}

}  // namespace
}  // namespace tremula::oasis_toy
