// SPDX-License-Identifier: Apache-2.0
#include "transport/control/reach_server.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include "core/error.hpp"

namespace tremula::transport {
namespace {

namespace fs = std::filesystem;
using core::Deadline, core::Errc, core::Error;

class ReachServer : public testing::Test {
protected:
  ~ReachServer() override { fs::remove(file); }
  static void refuse(const HostPort& address, Deadline) {
    throw Error(Errc::no_server, "no server at " + to_string(address));
  }
  static std::string error_of(const auto& call, Errc code) {
    try {
      call();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      return error.what();
    }
    ADD_FAILURE() << "expected an error";
    return "";
  }
  const fs::path file =
      fs::path(testing::TempDir()) / ("tremula_reach_" + std::to_string(::getpid()));
  const ServerName by_file{"file:" + file.string(), "--port-file"};
};

TEST_F(ReachServer, SaysWhereTheAddressWasGiven) {
  const auto text_of = [](const std::string& text, Errc code) {
    return error_of([&] { try_server({text, "there"}, refuse, Deadline::after(1)); }, code);
  };
  EXPECT_EQ(text_of("a:1", Errc::no_server), "no server at a:1 (address from there)");
  EXPECT_NE(text_of("nonsense", Errc::invalid_argument)
                .find("found 'nonsense': it has no port (address from there)"),
            std::string::npos);
}

TEST_F(ReachServer, SaysThatAPortFileIsStaleOrMissing) {
  const auto found = [&] {
    return error_of([&] { try_server(by_file, refuse, Deadline::after(1)); }, Errc::no_server);
  };
  EXPECT_NE(found().find("found no readable file"), std::string::npos) << found();
  std::ofstream(file) << "b:2\n";
  EXPECT_EQ(found(), "port file '" + file.string() +
                         "' is stale: no server at b:2 (address from --port-file); a server that "
                         "was killed leaves its file behind: start one with 'tremula serve "
                         "--port-file " +
                         file.string() + "'");
}

TEST_F(ReachServer, LeavesOtherErrorsAsTheyAre) {
  int attempts = 0;
  const auto text = error_of(
      [&] {
        wait_for_server(
            {"a:1", "there"},
            [&](const HostPort&, Deadline) {
              ++attempts;
              throw Error(Errc::refused, "not you");
            },
            Deadline::after(60), [](const std::string&) {});
      },
      Errc::refused);
  EXPECT_EQ(text, "not you");
  EXPECT_EQ(attempts, 1);
}

TEST_F(ReachServer, WaitsForTheFileThenForTheServerAndTellsOnce) {
  std::vector<std::string> told;
  std::vector<std::string> tried;
  std::ofstream(file) << "old:1\n";
  const auto attempt = [&](const HostPort& address, Deadline deadline) {
    tried.push_back(to_string(address));
    if (address.host == "new") return;
    if (!told.empty()) fs::rename(file.string() + ".new", file);
    refuse(address, deadline);
  };
  std::ofstream(file.string() + ".new") << "new:2\n";
  wait_for_server(by_file, attempt, Deadline::after(60),
                  [&](const std::string& found) { told.push_back(found); });
  EXPECT_EQ(tried.back(), "new:2");
  ASSERT_EQ(told.size(), 1u);
  EXPECT_NE(told[0].find("is stale: no server at old:1"), std::string::npos) << told[0];
}

TEST_F(ReachServer, GivesUpAtTheDeadline) {
  int attempts = 0;
  const auto attempt = [&](const HostPort& address, Deadline deadline) {
    ++attempts;
    refuse(address, deadline);
  };
  EXPECT_EQ(error_of(
                [&] {
                  wait_for_server({"a:1", "there"}, attempt, Deadline::after(0.2),
                                  [](const std::string&) {});
                },
                Errc::no_server),
            "no server at a:1 (address from there)");
  EXPECT_GT(attempts, 1);
}

}  // namespace
}  // namespace tremula::transport
