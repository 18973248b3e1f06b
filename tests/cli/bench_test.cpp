// SPDX-License-Identifier: Apache-2.0
// `tremula bench` as its user runs it: a server and two jobs of processes.
#include <gtest/gtest.h>

#include "process.hpp"

namespace tremula::cli {

namespace {

struct Outcome {
  int code = 0;
  std::string output, errors;
};

Outcome bench(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "bench");
  Process process(arguments);
  const int code = process.wait();
  return {code, process.output(), process.errors()};
}

TEST(Bench, VerifiesEveryElementBetweenTwoJobs) {
  for (const char* type : {"u8", "f64", "c128"}) {
    const auto outcome = bench({"--from", "shape=60x50 grid=2x1 block=7x50 store=column", "--to",
                                "shape=60x50 grid=1x3 block=60x4 source=0x1 ghost=1x1", "--type",
                                type, "--steps", "3", "--json"});
    EXPECT_EQ(outcome.code, 0) << outcome.errors;
    EXPECT_EQ(outcome.errors, "");
    for (const char* part : {"\"verified\": true", "\"producers\": 2", "\"consumers\": 3",
                             "\"steps\": 3", "\"transport\": \"ofi:", "\"ratio_to_memcpy\": "})
      EXPECT_NE(outcome.output.find(part), std::string::npos) << part << " in " << outcome.output;
  }
}

TEST(Bench, SaysWhatToDo) {
  const std::string a = "shape=8x8 grid=2x2", b = "shape=8x9 grid=2x2";
  const struct {
    std::vector<std::string> arguments;
    const char* error;
  } rows[] = {
      {{"--from", a, "--to", a, "--transport", "mpi"}, "expected auto, local or ofi, found mpi"},
      {{"--from", a, "--to", a, "--consumers", "3"}, "3"},
      {{"--from", a, "--to", b}, "8x9"},
      {{"--from", "shape=0 grid=1", "--to", "shape=0 grid=1"}, "at least one element"},
      {{"--from", a, "--to", a, "--type", "f63"}, "found 'f63'"},
  };
  for (const auto& row : rows) {
    const auto outcome = bench(row.arguments);
    EXPECT_EQ(outcome.code, 1);
    EXPECT_NE(outcome.errors.find(row.error), std::string::npos)
        << row.error << " in " << outcome.errors;
  }
}

}  // namespace
}  // namespace tremula::cli
