// SPDX-License-Identifier: Apache-2.0
#include "transport/control/reach_server.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include "core/error.hpp"
#include "tests/core/error_of.hpp"
#include "transport/control/authentication.hpp"

namespace tremula::transport {
namespace {

namespace fs = std::filesystem;
using core::Deadline, core::Errc, core::Error, core::error_of;
using Key = std::optional<core::Key>;

class ReachServer : public testing::Test {
protected:
  ~ReachServer() override { fs::remove(file); }
  static void refuse(const HostPort& address, const Key&, Deadline) {
    throw Error(Errc::no_server, "no server at " + to_string(address));
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
                         "is killed leaves its file behind; start a new server with 'tremula serve "
                         "--port-file " +
                         file.string() + "'");
}

TEST_F(ReachServer, LeavesOtherErrorsAsTheyAre) {
  int attempts = 0;
  const auto text = error_of(
      [&] {
        wait_for_server(
            {"a:1", "there"},
            [&](const HostPort&, const Key&, Deadline) {
              ++attempts;
              throw Error(Errc::refused, "not you");
            },
            Deadline::after(60), [](const std::string&) {});
      },
      Errc::refused);
  EXPECT_EQ(text, "not you");
  EXPECT_EQ(attempts, 1);
}

TEST_F(ReachServer, WaitsForFileAndServerAndReportsOnce) {
  std::vector<std::string> reports;
  std::vector<std::string> tried;
  std::ofstream(file) << "old:1\n";
  const auto attempt = [&](const HostPort& address, const Key& key, Deadline deadline) {
    tried.push_back(to_string(address));
    if (address.host == "new") return;
    if (!reports.empty()) fs::rename(file.string() + ".new", file);
    refuse(address, key, deadline);
  };
  std::ofstream(file.string() + ".new") << "new:2\n";
  wait_for_server(by_file, attempt, Deadline::after(60),
                  [&](const std::string& found) { reports.push_back(found); });
  EXPECT_EQ(tried.back(), "new:2");
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_NE(reports[0].find("is stale: no server at old:1"), std::string::npos) << reports[0];
}

TEST_F(ReachServer, PrefersTheNamedKeyToThatOfThePortFile) {
  std::string found;
  const auto attempt = [&](const HostPort&, const Key& key, Deadline) {
    found =
        key ? std::string(reinterpret_cast<const char*>(key->bytes().data()), key->bytes().size())
            : "none";
  };
  const auto key_for = [&](const ServerName& server) {
    found = "no attempt";
    try_server(server, attempt, Deadline::after(1));
    return found;
  };
  std::ofstream(file) << "a:1\n";
  EXPECT_EQ(key_for(by_file), "none");
  const fs::path beside = key_file_beside(file), named = file.string() + ".named";
  core::make_key_file(beside, core::Key("the key beside it", "test"));
  EXPECT_EQ(key_for(by_file), "the key beside it");
  EXPECT_EQ(key_for({"a:1", "there"}), "none");

  ServerName server{by_file.text, "there", {std::nullopt, named}};
  error_of([&] { try_server(server, attempt, Deadline::after(1)); }, Errc::no_server);
  core::make_key_file(named, core::Key("the key that is named", "test"));
  EXPECT_EQ(key_for(server), "the key that is named");
  server.key = core::key_source("", "the key of a variable");
  EXPECT_EQ(key_for(server), "the key of a variable");
  server.key = core::key_source("none", nullptr);
  EXPECT_EQ(key_for(server), "none");

  fs::permissions(beside, fs::perms::group_read, fs::perm_options::add);
  error_of([&] { key_for(by_file); }, Errc::invalid_argument);
  fs::remove(beside);
  fs::remove(named);
}

/// Returns the text of the key that an attempt gets.
std::string text_of(const Key& key) {
  return key ? std::string(reinterpret_cast<const char*>(key->bytes().data()), key->bytes().size())
             : "none";
}

class KeyOfAPort : public ReachServer {
protected:
  KeyOfAPort() {
    fs::create_directories(runtime / "tremula");
    for (const fs::path& folder : {runtime, runtime / "tremula"})
      fs::permissions(folder, fs::perms::owner_all);
  }
  ~KeyOfAPort() override { fs::remove_all(runtime); }
  ServerName at(const std::string& address) const {
    return {address, "there", {std::nullopt, "", runtime}};
  }
  std::string key_at(const ServerName& server) {
    std::string found = "no attempt";
    try_server(
        server, [&](const HostPort&, const Key& key, Deadline) { found = text_of(key); },
        Deadline::after(1));
    return found;
  }
  const fs::path runtime = file.string() + ".runtime";
  const fs::path of_port = runtime / "tremula" / "7000.key";
};

TEST_F(ReachServer, TrustsOnlyThisUserAndRootWithoutAKey) {
  const ServerName plain{"a:1", "there"},
      of_any_user{"a:1", "there", core::key_source("none", nullptr)};
  EXPECT_EQ(trusted_users(plain, std::nullopt), TrustedUsers::own_and_root);
  EXPECT_EQ(trusted_users(plain, core::Key("a key that was found", "test")), TrustedUsers::all);
  EXPECT_EQ(trusted_users(of_any_user, std::nullopt), TrustedUsers::all);
}

TEST_F(KeyOfAPort, IsFoundOnlyByLoopbackAddresses) {
  core::make_key_file(of_port, core::Key("the key of port 7000", "test"));
  for (const char* address : {"localhost:7000", "127.0.0.1:7000", "127.1.2.3:7000", "[::1]:7000"})
    EXPECT_EQ(key_at(at(address)), "the key of port 7000") << address;
  for (const char* address : {"localhost:7001", "10.0.0.1:7000", "host:7000", "[::2]:7000"})
    EXPECT_EQ(key_at(at(address)), "none") << address;
  ServerName named = at("localhost:7000");
  named.key.file = "none";
  EXPECT_EQ(key_at(named), "none");
  std::ofstream(file) << "localhost:7000\n";
  EXPECT_EQ(key_at(at(by_file.text)), "none") << "it must be beside the port file";
}

TEST_F(KeyOfAPort, MayBeMadeAfterItWasLookedFor) {
  std::vector<std::string> tried;
  try_server(
      at("localhost:7000"),
      [&](const HostPort&, const Key& key, Deadline) {
        tried.push_back(text_of(key));
        if (tried.size() > 1) return;
        core::make_key_file(of_port, core::Key("the key of port 7000", "test"));
        throw error_of_refusal(refusal_without_key());
      },
      Deadline::after(60));
  EXPECT_EQ(tried, (std::vector<std::string>{"none", "the key of port 7000"}));
}

TEST_F(KeyOfAPort, IsNamedWhenItIsRefused) {
  core::make_key_file(of_port, core::Key("the key of port 7000", "test"));
  int attempts = 0;
  const auto refused = [&](const HostPort&, const Key&, Deadline) {
    ++attempts;
    throw error_of_refusal(refusal_without_key());
  };
  EXPECT_EQ(error_of([&] { try_server(at("localhost:7000"), refused, Deadline::after(60)); },
                     Errc::refused),
            std::string(error_of_refusal(refusal_without_key()).what()) + " (the key came from '" +
                of_port.string() + "'; remove that file if its server has ended)");
  EXPECT_EQ(attempts, 1);
  const auto held = [](const HostPort&, const Key&, Deadline) {
    throw Error(Errc::refused, "the name is held");
  };
  EXPECT_EQ(
      error_of([&] { try_server(at("localhost:7000"), held, Deadline::after(60)); }, Errc::refused),
      "the name is held");
}

TEST_F(ReachServer, NeedsAKeyForAPortFileOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  std::ofstream(file) << "a:1\n";
  ASSERT_EQ(::chown(file.c_str(), 12345, 12345), 0);
  int attempts = 0;
  const auto attempt = [&](const HostPort&, const Key&, Deadline) { ++attempts; };
  const std::string text =
      error_of([&] { try_server(by_file, attempt, Deadline::after(1)); }, Errc::invalid_argument);
  EXPECT_EQ(attempts, 0);
  for (const char* part : {"expected one of this user, 0, or of root", "found one of user 12345",
                           "TREMULA_KEY_FILE", "or to 'none'"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
  for (const core::KeySource& named :
       {core::key_source("none", nullptr), core::key_source("", "the key of a variable")})
    try_server({by_file.text, "there", named}, attempt, Deadline::after(1));
  EXPECT_EQ(attempts, 2);
}

TEST_F(ReachServer, DoesNotWaitForAPipe) {
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  const std::string text = error_of(
      [&] { wait_for_server(by_file, refuse, Deadline::after(60), [](const std::string&) {}); },
      Errc::invalid_argument);
  EXPECT_EQ(text, "port file '" + file.string() +
                      "': expected a file, found a pipe (address from --port-file)");
}

TEST_F(ReachServer, GivesUpAtTheDeadline) {
  int attempts = 0;
  const auto attempt = [&](const HostPort& address, const Key& key, Deadline deadline) {
    ++attempts;
    refuse(address, key, deadline);
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

TEST_F(ReachServer, TriesUntilTheDeadlineIsNear) {
  double left = 60;  // seconds, at the last attempt
  const auto attempt = [&](const HostPort& address, const Key& key, Deadline deadline) {
    left = deadline.remaining();
    refuse(address, key, deadline);
  };
  EXPECT_NE(error_of(
                [&] {
                  wait_for_server({"a:1", "there"}, attempt, Deadline::after(1),
                                  [](const std::string&) {});
                },
                Errc::no_server),
            "");
  EXPECT_LE(left, 0.1);
}

}  // namespace
}  // namespace tremula::transport
