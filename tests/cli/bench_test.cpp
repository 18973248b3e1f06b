// SPDX-License-Identifier: Apache-2.0
// Runs `tremula bench` as a user does: it starts a server and two jobs of several processes.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "core/deadline.hpp"
#include "process.hpp"

namespace tremula::cli {

namespace {

Outcome bench(std::vector<std::string> arguments, const std::vector<std::string>& variables = {}) {
  arguments.insert(arguments.begin(), "bench");
  Process process(arguments, variables);
  const int code = process.wait(60);
  return {code, process.output(), process.errors()};
}

TEST(Bench, VerifiesEveryElementBetweenTwoJobs) {
  const struct {
    const char* type;
    std::vector<std::string> more;
    const char* transport;
    const char* copies;
  } rows[] = {
      {"u8", {}, "local", "2.0000"},
      {"f64", {"--queue-depth", "0", "--allocate", "producers"}, "local", "1.0000"},
      {"f32", {"--queue-depth", "0", "--allocate", "consumers"}, "local", "1.0000"},
      {"c128", {"--queue-depth", "0"}, "local", "2.0000"},
      {"i16", {"--async", "--allocate", "both", "--compute"}, "local", "1.0000"},
      {"c64", {"--transport", "ofi", "--queue-depth", "1"}, "ofi:tcp;ofi_rxm", "2.0000"},
      {"f64",
       {"--transport", "ofi", "--ofi-provider", "tcp;ofi_rxm", "--queue-depth", "0"},
       "ofi:tcp;ofi_rxm",
       ""},
#ifdef TREMULA_HAS_MPI
      {"f64", {"--transport", "mpi"}, "mpi:Open MPI", "2.0000"},
      {"u16", {"--transport", "mpi", "--queue-depth", "0"}, "mpi:Open MPI", ""},
#endif
  };
  for (const auto& row : rows) {
    std::vector<std::string> arguments{
        "--from",  "shape=180x150 grid=2x1 block=7x150 store=column",
        "--to",    "shape=180x150 grid=1x3 block=180x4 source=0x1 ghost=1x1",
        "--type",  row.type,
        "--steps", "3",
        "--json"};
    arguments.insert(arguments.end(), row.more.begin(), row.more.end());
    const auto outcome = bench(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.errors;
    EXPECT_EQ(outcome.errors, "");
    for (const std::string& part :
         {std::string("\"verified\": true"), std::string("\"producers\": 2"),
          std::string("\"consumers\": 3"), std::string("\"steps\": 3"),
          std::string("\"ratio_to_memcpy\": "), std::string("\"ratio_to_raw\": "),
          fmt::format("\"transport\": \"{}\"", row.transport),
          fmt::format("\"copies_per_byte\": {}", row.copies)})
      EXPECT_NE(outcome.output.find(part), std::string::npos) << part << " in " << outcome.output;
  }
}

TEST(Bench, NamesTheFaultInItsArguments) {
  const std::string a = "shape=8x8 grid=2x2", b = "shape=8x9 grid=2x2";
  const struct {
    std::vector<std::string> arguments;
    const char* error;
  } rows[] = {
      {{"--from", a, "--to", a, "--consumers", "3"}, "3"},
      {{"--from", a, "--to", a, "--namespaces", "left"}, "expected NAME=ADDRESS,NAME=ADDRESS"},
      {{"--from", a, "--to", a, "--namespaces", "no-such=1.2.3.4,none=1.2.3.5"}, "no-such"},
      {{"--from", a, "--to", b}, "8x9"},
      {{"--from", "shape=0 grid=1", "--to", "shape=0 grid=1"}, "at least one element"},
      {{"--from", a, "--to", a, "--type", "f63"}, "found 'f63'"},
  };
  std::vector<std::vector<std::string>> commands;
  for (const auto& row : rows) {
    commands.push_back({"bench"});
    commands.back().insert(commands.back().end(), row.arguments.begin(), row.arguments.end());
  }
  const auto outcomes = run_all(commands);
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    EXPECT_EQ(outcomes[i].code, 1);
    EXPECT_NE(outcomes[i].errors.find(rows[i].error), std::string::npos)
        << rows[i].error << " in " << outcomes[i].errors;
  }
}

TEST(Bench, NamesTheMissingPartOfMpi) {
  const auto outcome =
      bench({"--from", "shape=8 grid=1", "--to", "shape=8 grid=1", "--transport", "mpi"},
            {"PATH=/nowhere"});
  EXPECT_EQ(outcome.code, 1);
#ifdef TREMULA_HAS_MPI
  const char* expected = "expected the program ompi-server in PATH, found none";
#else
  const char* expected = "build all of Tremula with Open MPI, or choose auto, local, tcp or ofi";
#endif
  EXPECT_NE(outcome.errors.find(expected), std::string::npos) << outcome.errors;
}

TEST(Bench, LeavesNothingBehindWhenInterrupted) {
  namespace fs = std::filesystem;
  prctl(PR_SET_CHILD_SUBREAPER,
        1);  // processes that the command leaves behind become children of this test
  const fs::path folder =
      fs::temp_directory_path() / ("tremula-interrupted-" + std::to_string(getpid()));
  fs::create_directory(folder);
  const struct {
    int signal;
    const char *transport, *last;  ///< last: file that exists once everything has been started
  } rows[] = {{SIGINT, "local", "port"},
#ifdef TREMULA_HAS_MPI
              {SIGINT, "mpi", "mpirun-consumer.out"},
              {SIGTERM, "mpi", "mpirun-consumer.out"},
#endif
              {SIGTERM, "local", "port"}};
  for (const auto& row : rows) {
    Process process({"bench", "--from", "shape=8 grid=1", "--to", "shape=8 grid=1", "--steps",
                     "100000", "--transport", row.transport},
                    {"TMPDIR=" + folder.string()});
    const auto has_started = [&] {
      for (const auto& entry : fs::directory_iterator(folder))
        if (fs::exists(entry.path() / row.last)) return true;
      return false;
    };
    const auto deadline = core::Deadline::after(40);
    while (!has_started() && !deadline.expired()) usleep(1000);
    usleep(300'000);
    process.signal(row.signal);
    EXPECT_EQ(process.wait(), 128 + row.signal) << process.errors();
    EXPECT_TRUE(fs::is_empty(folder)) << row.transport;
    int left = 0;
    while ((left = waitpid(-1, nullptr, WNOHANG)) >= 0 && !deadline.expired()) usleep(1000);
    EXPECT_EQ(left, -1) << row.transport << ": a process is still running";
  }
  fs::remove_all(folder);
}

}  // namespace
}  // namespace tremula::cli
