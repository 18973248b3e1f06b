// SPDX-License-Identifier: Apache-2.0
// Combines programs and libraries of different versions. A program compiled against the first
// headers runs with a library whose structs have grown, a program compiled against grown headers
// runs with the current library, and each also runs with the other library.
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "tests/coupled/jobs.hpp"

namespace tremula::coupled {

namespace {

/// Parameters: the headers that the program was compiled against, and the library.
class StructGrowth : public testing::TestWithParam<std::tuple<std::string, std::string>> {
protected:
  static std::string program(const std::string& name) {
    return PROGRAMS "/" + name + "_" + std::get<0>(GetParam()) + "_with_" + library();
  }
  static std::string library() { return std::get<1>(GetParam()); }
  void TearDown() override {
    if (HasFailure()) ADD_FAILURE() << stage.report();
  }

  Stage stage;
};

TEST_P(StructGrowth, LeavesStreamsWorking) {
  stage.start_server();
  Job& producer = stage.start({"producer", 2}, Launcher::plain,
                              {program("struct_user"), "producer", library()});
  Job& consumer = stage.start({"consumer", 2}, Launcher::plain,
                              {program("struct_user"), "consumer", library()});
  const auto deadline = Deadline::after(90);
  EXPECT_EQ(consumer.wait(deadline), 0);
  EXPECT_EQ(producer.wait(deadline), 0);
}

#ifdef TREMULA_HAS_MPI
TEST_P(StructGrowth, LeavesRedistributionsWorking) {
  Job& job = stage.start({"job", 2}, Launcher::mpirun, {program("struct_user_mpi"), library()});
  EXPECT_EQ(job.wait(Deadline::after(90)), 0);
}
#endif

INSTANTIATE_TEST_SUITE_P(Versions, StructGrowth,
                         testing::Combine(testing::Values("first", "grown"),
                                          testing::Values("current", "grown")),
                         [](const auto& versions) {
                           return std::get<0>(versions.param) + "_with_" +
                                  std::get<1>(versions.param);
                         });

}  // namespace

}  // namespace tremula::coupled
