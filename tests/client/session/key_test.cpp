// SPDX-License-Identifier: Apache-2.0
// Tests, from an application's point of view, a server that has a key.
#include "core/key.hpp"

#include <gtest/gtest.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/coupled/jobs.hpp"
#include "tremula/tremula.h"

namespace tremula {
namespace {

class ServerWithAKey : public testing::Test {
protected:
  ServerWithAKey() { start(); }
  void start() { stage.start_server({"--key-file", key_file}); }
  /// Opens and closes a session as the only rank of a group. Returns the status of
  /// tremula_session_open.
  int open(const std::string& group, const std::string& options,
           const std::string& transport = "local") {
    const std::string all = "{server: '" + stage.server() + "', transport: " + transport +
                            (options.empty() ? "" : ", " + options) + "}";
    tremula_session* session = nullptr;
    const int status = tremula_session_open(group.c_str(), 0, 1, all.c_str(), &session);
    if (status == TREMULA_OK) {
      EXPECT_EQ(tremula_session_close(session), TREMULA_OK) << tremula_last_error();
    }
    return status;
  }
  void expect_refusal(int status, const std::string& why) {
    EXPECT_EQ(status, TREMULA_REFUSED);
    EXPECT_NE(std::string(tremula_last_error()).find(why), std::string::npos)
        << tremula_last_error();
    EXPECT_NE(std::string(tremula_last_error()).find(stage.server()), std::string::npos)
        << tremula_last_error();
  }
  coupled::Stage stage;
  const std::string key_file = stage.directory() / "job.key";
};

TEST_F(ServerWithAKey, AdmitsASessionWithItsKey) {
  EXPECT_EQ(open("g", "key_file: '" + key_file + "'"), TREMULA_OK) << tremula_last_error();
}

// Each attempt fails immediately, although the wait is unlimited, because another attempt would fail too.
TEST_F(ServerWithAKey, RefusesASessionWithoutItsKeyAtOnce) {
  expect_refusal(open("g", "timeout: none"), "asks for a key, and this process has none");
  expect_refusal(open("g", "timeout: none, key_file: none"), "asks for a key");
  const std::string other = stage.directory() / "other.key";
  core::make_key_file(other);
  expect_refusal(open("g", "timeout: none, key_file: '" + other + "'"), "has a different key");
}

#ifdef TREMULA_HAS_OFI
TEST_F(ServerWithAKey, AllowsLibfabricOnlyOnATrustedNetwork) {
  const std::string key = "key_file: '" + key_file + "'", trusted = key + ", trust_network: true";
  const std::string provider = ", ofi_provider: 'tcp;ofi_rxm'";
  const auto expect_remedy = [&](int status, const std::string& found) {
    const std::string text = tremula_last_error();
    EXPECT_EQ(status, TREMULA_INVALID_ARGUMENT) << text;
    for (const std::string& part : {std::string("trust_network: true"), "found '" + found + "'"})
      EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  expect_remedy(open("g", key, "ofi"), "ofi");
  expect_remedy(open("g", key + provider, "auto"), "tcp;ofi_rxm");
  EXPECT_EQ(open("g", key, "auto"), TREMULA_OK) << tremula_last_error();
  EXPECT_EQ(open("g", trusted, "ofi"), TREMULA_OK) << tremula_last_error();
  EXPECT_EQ(open("g", trusted + provider, "auto"), TREMULA_OK) << tremula_last_error();
  stage.start_server();
  EXPECT_EQ(open("g", "", "ofi"), TREMULA_OK)
      << tremula_last_error();  // no key, so nothing to protect
}
#endif

TEST_F(ServerWithAKey, NeverShowsAKeyInALogOrAnError) {
  auto& server = stage.start_server({"--key-file", key_file, "--log", "debug"});
  std::ifstream file(key_file);
  const std::string key(std::istreambuf_iterator<char>(file), {}), wrong = "what must not be shown";
  testing::internal::CaptureStderr();
  setenv("TREMULA_KEY", key.c_str(), 1);
  EXPECT_EQ(open("g", "log: debug"), TREMULA_OK) << tremula_last_error();
  setenv("TREMULA_KEY", wrong.c_str(), 1);
  EXPECT_EQ(open("g", "log: debug"), TREMULA_REFUSED);
  std::string said = tremula_last_error();
  EXPECT_EQ(open("g", "log: debug, key_file: '" + key_file + "'"), TREMULA_INVALID_ARGUMENT);
  said += tremula_last_error();
  setenv("TREMULA_KEY", "too short", 1);
  EXPECT_EQ(open("g", "log: debug"), TREMULA_INVALID_ARGUMENT);
  said += tremula_last_error();
  unsetenv("TREMULA_KEY");
  EXPECT_EQ(open("g", "log: debug, key_file: '" + key_file + "'"), TREMULA_OK)
      << tremula_last_error();
  stage.stop_server(SIGTERM);
  said += testing::internal::GetCapturedStderr() + server.output();
  EXPECT_NE(said.find("listening address="), std::string::npos) << said;
  EXPECT_NE(said.find("it has a different key"), std::string::npos) << said;
  for (const std::string& secret : {key.substr(0, 16), wrong, std::string("too short;")})
    EXPECT_EQ(said.find(secret), std::string::npos) << said;
}

TEST_F(ServerWithAKey, IsAwaitedWhileItsKeyFileDoesNotExist) {
  stage.stop_server(SIGTERM);
  std::filesystem::remove(key_file);
  EXPECT_EQ(open("g", "timeout: 0.3, key_file: '" + key_file + "'"), TREMULA_NO_SERVER);
  EXPECT_NE(std::string(tremula_last_error()).find("key file '" + key_file + "'"),
            std::string::npos)
      << tremula_last_error();
}

TEST_F(ServerWithAKey, ReadmitsASessionAfterARestart) {
  const std::string all = "{server: 'file:" + (stage.directory() / "server.port").string() +
                          "', transport: local, key_file: '" + key_file + "'}";
  tremula_session* session = nullptr;
  ASSERT_EQ(tremula_session_open("g", 0, 1, all.c_str(), &session), TREMULA_OK)
      << tremula_last_error();
  stage.stop_server(SIGKILL);
  start();
  // The session waits for the server, which admits it again.
  tremula_out_stream* out = nullptr;
  EXPECT_EQ(tremula_out_open(session, "s", "{wait_for_consumers: 0}", &out), TREMULA_OK)
      << tremula_last_error();
  tremula_layout* layout = nullptr;
  ASSERT_EQ(tremula_layout_parse("shape=4 grid=1", &layout), TREMULA_OK);
  int field = -1;
  const std::array<double, 4> data{};
  EXPECT_EQ(tremula_out_field(out, "f", TREMULA_F64, layout, &field), TREMULA_OK);
  EXPECT_EQ(tremula_out_begin_step(out), TREMULA_OK) << tremula_last_error();
  EXPECT_EQ(tremula_out_put(out, field, data.data(), sizeof data), TREMULA_OK);
  EXPECT_EQ(tremula_out_end_step(out), TREMULA_OK) << tremula_last_error();
  EXPECT_EQ(tremula_out_close(out), TREMULA_OK) << tremula_last_error();
  EXPECT_EQ(tremula_session_close(session), TREMULA_OK) << tremula_last_error();
  tremula_out_free(out);
  tremula_layout_free(layout);
}

// After a restart, another program may answer at the server's address.
TEST_F(ServerWithAKey, IsNotReplacedByAServerWithoutAKey) {
  const std::string all = "{server: 'file:" + (stage.directory() / "server.port").string() +
                          "', transport: local, timeout: 5}";
  testing::internal::CaptureStderr();
  tremula_session* session = nullptr;
  ASSERT_EQ(tremula_session_open("g", 0, 1, all.c_str(), &session), TREMULA_OK)
      << tremula_last_error();
  stage.stop_server(SIGTERM);
  stage.start_server({"--key-file", "none"});
  tremula_description* description = nullptr;
  EXPECT_EQ(tremula_describe(session, "s", 1, &description), TREMULA_NO_SERVER)
      << tremula_last_error();
  stage.stop_server(SIGTERM);
  start();
  const auto announced = [&] {
    tremula_out_stream* out = nullptr;
    tremula_layout* layout = nullptr;
    int field = -1;
    EXPECT_EQ(tremula_layout_parse("shape=4 grid=1", &layout), TREMULA_OK);
    EXPECT_EQ(tremula_out_open(session, "s", "{wait_for_consumers: 0}", &out), TREMULA_OK);
    EXPECT_EQ(tremula_out_field(out, "f", TREMULA_F64, layout, &field), TREMULA_OK);
    const int status = tremula_out_begin_step(out);
    tremula_out_free(out);
    tremula_layout_free(layout);
    return status == TREMULA_OK;
  };
  const auto until = core::Deadline::after(30);
  while (!announced() && !until.expired()) {
  }
  EXPECT_FALSE(until.expired()) << tremula_last_error();
  tremula_session_close(session);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("expected the key file with which this session joined, found none"),
            std::string::npos)
      << said;
  EXPECT_EQ(said.find("key_missing", said.find("key_missing") + 1), std::string::npos)
      << "logged more than once: " << said;
}

/// Returns the output of a command, which must end with exit status `status`.
std::string output_of(const coupled::Arguments& command, const std::filesystem::path& file,
                      int status = 0) {
  coupled::Process process(command, {}, file);
  EXPECT_EQ(process.wait(core::Deadline::after(30)), status) << process.output();
  return process.output();
}

// A server with a key for each of its users, who cannot use each other's groups, or streams
// that are not for all to read.
class ServerWithSeveralKeys : public testing::Test {
protected:
  ServerWithSeveralKeys() {
    std::string all;
    for (const std::string user : {"operator", "alice", "bob"})
      all += write(user, user + ": 0123456789abcdef of " + user + "\n");
    write("all", all);
    start();
  }
  void start() { server = &stage.start_server({"--key-file", path("all"), "--log", "debug"}); }
  std::string path(const std::string& name) const { return (stage.directory() / name).string(); }
  std::string write(const std::string& name, const std::string& text) {
    std::ofstream(path(name)) << text;
    std::filesystem::permissions(path(name), std::filesystem::perms(0600));
    return text;
  }
  /// @param at  where to find the server; empty: at its address
  int open(const char* group, const std::string& user, tremula_session** session,
           const std::string& at = "") {
    const std::string options = "{server: '" + (at.empty() ? stage.server() : at) +
                                "', transport: local, key_file: '" + path(user) + "'}";
    return tremula_session_open(group, 0, 1, options.c_str(), session);
  }
  static int put_step(tremula_out_stream* out) {
    const std::array<double, 4> data{};
    if (const int status = tremula_out_begin_step(out); status != TREMULA_OK) return status;
    if (const int status = tremula_out_put(out, 0, data.data(), sizeof data); status != TREMULA_OK)
      return status;
    return tremula_out_end_step(out);
  }
  static tremula_out_stream* announce(tremula_session* session, const char* stream,
                                      const char* options) {
    tremula_out_stream* out = nullptr;
    tremula_layout* layout = nullptr;
    int field = -1;
    EXPECT_EQ(tremula_layout_parse("shape=4 grid=1", &layout), TREMULA_OK);
    EXPECT_EQ(tremula_out_open(session, stream, options, &out), TREMULA_OK);
    EXPECT_EQ(tremula_out_field(out, "f", TREMULA_F64, layout, &field), TREMULA_OK);
    EXPECT_EQ(put_step(out), TREMULA_OK) << tremula_last_error();
    tremula_layout_free(layout);
    return out;
  }
  coupled::Stage stage;
  coupled::Process* server = nullptr;
};

TEST_F(ServerWithSeveralKeys, KeepsJobsOfDifferentKeysApart) {
  const auto status_of = [&](const std::string& user) {
    return output_of(
        {TREMULA_PROGRAM, "status", "--json", "--server", stage.server(), "--key-file", path(user)},
        path("status of " + user));
  };
  tremula_session *alice = nullptr, *bob = nullptr, *twin = nullptr;
  ASSERT_EQ(open("ocean", "alice", &alice), TREMULA_OK) << tremula_last_error();
  tremula_out_stream* const own = announce(alice, "sst", "{wait_for_consumers: 0}");
  tremula_out_stream* const shared =
      announce(alice, "ssh", "{wait_for_consumers: 0, readable_by: all}");

  EXPECT_EQ(open("ocean", "bob", &twin), TREMULA_REFUSED);
  EXPECT_NE(std::string(tremula_last_error()).find("held by a job with a different key"),
            std::string::npos)
      << tremula_last_error();
  ASSERT_EQ(open("atmosphere", "bob", &bob), TREMULA_OK) << tremula_last_error();

  tremula_description* description = nullptr;
  EXPECT_EQ(tremula_describe(bob, "sst", 10, &description), TREMULA_REFUSED);
  EXPECT_NE(std::string(tremula_last_error()).find("readable_by: all"), std::string::npos)
      << tremula_last_error();
  EXPECT_EQ(tremula_describe(bob, "ssh", 10, &description), TREMULA_OK) << tremula_last_error();
  tremula_description_free(description);

  tremula_in_stream* in = nullptr;
  tremula_layout* layout = nullptr;
  int field = -1;
  ASSERT_EQ(tremula_layout_parse("shape=4 grid=1", &layout), TREMULA_OK);
  EXPECT_EQ(tremula_in_open(bob, "sst", nullptr, &in), TREMULA_OK);
  EXPECT_EQ(tremula_in_field(in, "f", TREMULA_F64, layout, &field), TREMULA_OK);
  EXPECT_EQ(tremula_in_begin_step(in), TREMULA_REFUSED);
  EXPECT_NE(std::string(tremula_last_error()).find("group with a different key"), std::string::npos)
      << tremula_last_error();
  tremula_layout_free(layout);

  const std::string of_alice = status_of("alice"), of_bob = status_of("bob"),
                    of_operator = status_of("operator");
  for (const char* name : {"\"ocean\"", "\"sst\"", "\"ssh\"", "\"atmosphere\""}) {
    const std::string word = name;
    EXPECT_NE(of_operator.find(word), std::string::npos) << of_operator;
    EXPECT_EQ(of_alice.find(word) != std::string::npos, word != "\"atmosphere\"") << of_alice;
    EXPECT_EQ(of_bob.find("\"name\": " + word) != std::string::npos,
              word == "\"atmosphere\"" || word == "\"ssh\"")
        << of_bob;
  }

  // Refusing bob's calls does not affect alice.
  EXPECT_EQ(put_step(own), TREMULA_OK) << tremula_last_error();
  tremula_in_free(in);
  for (tremula_out_stream* out : {own, shared}) {
    EXPECT_EQ(tremula_out_close(out), TREMULA_OK) << tremula_last_error();
    tremula_out_free(out);
  }
  for (tremula_session* session : {alice, bob})
    EXPECT_EQ(tremula_session_close(session), TREMULA_OK) << tremula_last_error();
  stage.stop_server(SIGTERM);
  EXPECT_NE(server->output().find("key=alice"), std::string::npos) << server->output();
  EXPECT_EQ(server->output().find("0123456789"), std::string::npos) << server->output();
}

// Bob joins the restarted server before alice, who finds it only once its port is in her file.
TEST_F(ServerWithSeveralKeys, GivesAStreamNameBackAfterARestart) {
  const std::filesystem::path port = path("alice.port");
  tremula_session *alice = nullptr, *bob = nullptr;
  std::filesystem::copy_file(path("server.port"), port);
  ASSERT_EQ(open("ocean", "alice", &alice, "file:" + port.string()), TREMULA_OK)
      << tremula_last_error();
  tremula_out_stream* const own = announce(alice, "sst", "{wait_for_consumers: 0}");
  for (const char* group : {"one", "two"}) {  // each server is shown the seal of the one before it
    std::filesystem::remove(port);
    stage.stop_server(SIGKILL);
    start();
    ASSERT_EQ(open(group, "bob", &bob), TREMULA_OK) << tremula_last_error();
    tremula_out_stream* const taken = announce(bob, "sst", "{wait_for_consumers: 0}");
    std::filesystem::copy_file(path("server.port"), port);
    tremula_out_stream* const late = announce(alice, "late", "{wait_for_consumers: 0}");
    EXPECT_EQ(put_step(own), TREMULA_OK) << tremula_last_error();
    int status = TREMULA_OK;
    for (const auto until = core::Deadline::after(30); status == TREMULA_OK && !until.expired();)
      status = put_step(taken);
    EXPECT_EQ(status, TREMULA_PEER_LOST);
    EXPECT_NE(
        std::string(tremula_last_error()).find("a group that has a different key and has returned"),
        std::string::npos)
        << tremula_last_error();
    EXPECT_EQ(tremula_out_close(late), TREMULA_OK) << tremula_last_error();
    tremula_out_free(late);
    tremula_out_free(taken);
    tremula_session_close(bob);
  }
  EXPECT_EQ(tremula_out_close(own), TREMULA_OK) << tremula_last_error();
  tremula_out_free(own);
  EXPECT_EQ(tremula_session_close(alice), TREMULA_OK) << tremula_last_error();
}

TEST_F(ServerWithSeveralKeys, GivesAGroupNameBackAfterARestart) {
  const std::filesystem::path port = path("alice.port");
  std::filesystem::copy_file(path("server.port"), port);
  tremula_session *alice = nullptr, *bob = nullptr;
  ASSERT_EQ(open("ocean", "alice", &alice, "file:" + port.string()), TREMULA_OK)
      << tremula_last_error();
  std::filesystem::remove(port);
  stage.stop_server(SIGKILL);
  start();
  ASSERT_EQ(open("ocean", "bob", &bob), TREMULA_OK) << tremula_last_error();
  std::filesystem::copy_file(path("server.port"), port);
  tremula_out_stream* const late = announce(alice, "late", "{wait_for_consumers: 0}");
  tremula_description* description = nullptr;
  EXPECT_EQ(tremula_describe(bob, "late", 10, &description), TREMULA_PEER_LOST);
  EXPECT_NE(std::string(tremula_last_error()).find("has lost the name of its group"),
            std::string::npos)
      << tremula_last_error();
  EXPECT_EQ(tremula_out_close(late), TREMULA_OK) << tremula_last_error();
  tremula_out_free(late);
  EXPECT_EQ(tremula_session_close(alice), TREMULA_OK) << tremula_last_error();
  tremula_session_close(bob);
}

}  // namespace
}  // namespace tremula
