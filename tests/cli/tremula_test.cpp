// SPDX-License-Identifier: Apache-2.0
// Runs the command as a user does.
#include <fmt/format.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "core/deadline.hpp"
#include "process.hpp"
#include "proto/convert.hpp"
#include "tests/transport/control/plain_server.hpp"
#include "transport/control/control_connection.hpp"

namespace tremula::cli {
namespace {

namespace fs = std::filesystem;
using core::Deadline;

/// Waits up to 60 s for a condition.
bool soon(const auto& condition) {
  const Deadline deadline = Deadline::after(60);
  while (!condition() && !deadline.expired())
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return condition();
}

/// A rank that sends messages to the server and waits for each answer.
class Rank {
public:
  explicit Rank(const std::string& port_file)
      : connection_(transport::read_port_file(port_file),
                    {.on_frame =
                         [this](const core::Bytes&) {
                           const std::lock_guard lock(mutex_);
                           ++answers_;
                           changed_.notify_all();
                         },
                     .on_closed = {},
                     .on_timer = {}},
                    Deadline::after(60), core::read_key_file(port_file + ".key")) {}
  void send(const std::string& text) {
    wire::ToServer message;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
    std::unique_lock lock(mutex_);
    const int before = answers_;
    connection_.send(proto::serialise(message));
    if (message.has_heartbeat()) return;
    ASSERT_TRUE(changed_.wait_for(lock, std::chrono::seconds(60), [&] {
      return answers_ > before;
    })) << text;
  }

private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int answers_ = 0;
  transport::ControlConnection connection_;
};

std::string contents(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class Tremula : public testing::Test {
protected:
  Tremula() { fs::create_directories(folder); }
  ~Tremula() override {
    server.reset();  // the server removes its port file when it ends
    fs::remove_all(folder);
  }

  /// Starts a server on a free port and waits until it has written its port file.
  void serve() {
    server = std::make_unique<Process>(std::vector<std::string>{
        "serve", "--port", "0", "--port-file", port_file, "--heartbeat", "60"});
    ASSERT_TRUE(soon([&] { return fs::exists(port_file); })) << server->errors();
  }
  /// Starts a server and links a producer and a consumer.
  void link() {
    serve();
    ocean = std::make_unique<Rank>(port_file);
    viewer = std::make_unique<Rank>(port_file);
    const std::string what =
        "stream: 's' fields { name: 'u' element_type: 10 layout: 'shape=8 grid=1' } offers { "
        "transport: 't' offer: 'tcp' } incarnation: 1";
    for (auto* group : {&ocean, &viewer})
      (*group)->send(fmt::format(
          "request: 1 hello {{ protocol: 2 group: '{}' size: 1 job: 'j' host: 'h' version: 'v' }}",
          group == &ocean ? "ocean" : "viewer"));
    ocean->send("request: 2 announce { queue_depth: 2 " + what + " }");
    viewer->send("request: 2 subscribe { " + what + " }");
    for (auto* group : {&ocean, &viewer})
      (*group)->send("request: 2 presence { is_present: true }");
    ocean->send(
        "heartbeat { counters { stream: 's' steps: 3 packages: 3 bytes: 192 copied_bytes: 64 } }");
    // The answer shows that the heartbeat has arrived.
    ocean->send("request: 3 unsubscribe { stream: 'x' }");
  }

  const fs::path folder =
      fs::path(testing::TempDir()) / fmt::format("tremula_command_{}", ::getpid());
  const std::string port_file = folder / "port";
  std::unique_ptr<Process> server;
  std::unique_ptr<Rank> ocean, viewer;
};

TEST_F(Tremula, HelpsWithEveryCommand) {
  for (const Outcome& help : run_all({{"--help"},
                                      {"bench", "--help"},
                                      {"plan", "--help"},
                                      {"serve", "--help"},
                                      {"status", "--help"},
                                      {"version", "--help"}})) {
    EXPECT_EQ(help.code, 0) << help.errors;
    EXPECT_NE(help.output.find("Usage: tremula"), std::string::npos) << help.output;
    // Every page that the help names is installed.
    for (const char* file : {".md", ".proto"})
      for (std::size_t at = 0; (at = help.output.find(file, at)) != std::string::npos; ++at) {
        const std::size_t begin = help.output.find_last_of(" \n", at) + 1;
        EXPECT_EQ(help.output.find("share/doc/tremula/", begin), begin) << help.output;
      }
  }
}

TEST_F(Tremula, KnowsItsVersion) {
  Process text({"version"}), option({"--version"}), json({"version", "--json"});
  EXPECT_EQ(text.wait(), 0);
  EXPECT_EQ(option.wait(), 0);
  EXPECT_EQ(option.output(), text.output());
  EXPECT_EQ(text.output().find("tremula "), 0u);
  EXPECT_EQ(json.wait(), 0);
  EXPECT_NE(json.output().find("\"protocol\": 2"), std::string::npos);
}

// Options that a table of fields does not use are refused instead of ignored.
TEST_F(Tremula, RefusesOptionsOfOneArrayWithFields) {
  Process json({"plan", "--fields", "fields.yaml", "--json"});
  EXPECT_NE(json.wait(), 0);
  EXPECT_EQ(json.output(), "");
  EXPECT_NE(json.errors().find("expected --fields without other options, found --json as well"),
            std::string::npos)
      << json.errors();
}

TEST_F(Tremula, RefusesACommandLineThatItDoesNotUnderstand) {
  for (const Outcome& outcome : run_all({{},
                                         {"wurst"},
                                         {"serve", "--wurst"},
                                         {"status", "s", "extra"},
                                         {"status", "s", "--watch"},
                                         {"status", "--timeout", "soon"},
                                         {"status", "--watch", "never"},
                                         {"status", "--watch", "--json"},
                                         {"status", "--watch", "--ranks"},
                                         {"status", "--server", "a:1", "--port-file", "f"}})) {
    EXPECT_EQ(outcome.code, 2);
    EXPECT_EQ(outcome.output, "");
    EXPECT_NE(outcome.errors, "");
  }
}

TEST_F(Tremula, SuggestsTheLikelyCommandOrOption) {
  const struct {
    std::vector<std::string> line;
    std::string errors;
  } rows[] = {
      {{"staus"},
       "tremula: expected a command, one of bench, plan, serve, status, version; found 'staus'; "
       "did you mean status?\nRun 'tremula --help' for a list.\n"},
      {{"wurst"},
       "tremula: expected a command, one of bench, plan, serve, status, version; found 'wurst'\n"
       "Run 'tremula --help' for a list.\n"},
      {{"doctor"},
       "tremula: expected a command, one of bench, plan, serve, status, version; found 'doctor'; "
       "the Python package has it: python3 -m tremula doctor\n"
       "Run 'tremula --help' for a list.\n"},
      {{"serve", "--prot", "7"},
       "tremula serve: unknown option '--prot'; did you mean --port?\n"
       "Run 'tremula serve --help' for a list.\n"},
      {{"status", "--json", "--prot-file=x"},
       "tremula status: unknown option '--prot-file'; did you mean --port-file?\n"
       "Run 'tremula status --help' for a list.\n"},
      {{"status", "s", "extra"},
       "tremula status: expected no further argument, found 'extra'\n"
       "Run 'tremula status --help' for a list.\n"}};
  for (const auto& row : rows) {
    Process process(row.line);
    EXPECT_EQ(process.wait(), 2);
    EXPECT_EQ(process.errors(), row.errors);
  }
}

TEST_F(Tremula, ServesAndShowsStatusAsJson) {
  link();
  std::deque<Process> asking;
  for (const auto& [arguments, variable] :
       {std::pair<std::vector<std::string>, std::string>{
            {"status", "--json", "--port-file", port_file}, "TREMULA_SERVER=nonsense"},
        {{"status", "--json", "--server", "file:" + port_file}, "TREMULA_SERVER=nonsense"},
        {{"status", "--json"}, "TREMULA_SERVER=file:" + port_file},
        {{"status", "--json", "--key-file", port_file + ".key"},
         "TREMULA_SERVER=" + transport::to_string(transport::read_port_file(port_file))}})
    asking.emplace_back(arguments, std::vector{variable});
  for (Process& process : asking) {
    ASSERT_EQ(process.wait(), 0) << process.errors();
    google::protobuf::Struct status;
    ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(process.output(), &status).ok())
        << process.output();
    for (const char* part : {"\"name\": \"ocean\"", "\"connected\": 1,", "\"bytes\": 192,",
                             "\"copied_bytes\": 64,", "\"offer\": \"tcp\"", "\"credit\": 2,",
                             "\"element_type\": \"f64\"", "\"wait_seconds\": 0,"})
      EXPECT_NE(process.output().find(part), std::string::npos) << part << " in\n"
                                                                << process.output();
  }
}

TEST_F(Tremula, ShowsStatusAsText) {
  link();
  Process process({"status", "--port-file", port_file});
  EXPECT_EQ(process.wait(), 0) << process.errors();
  for (const char* part : {"ocean   1 of 1  h", "stream s\n",
                           "  u      viewer  f64   shape=8 grid=1\n", "link 1 to viewer by tcp: "})
    EXPECT_NE(process.output().find(part), std::string::npos) << part << " in\n"
                                                              << process.output();
}

TEST_F(Tremula, ShowsOneStream) {
  link();
  Rank other(port_file);
  other.send(
      "request: 1 hello { protocol: 2 group: 'other' size: 1 job: 'j' host: 'h' version: 'v' }");
  other.send(
      "request: 2 announce { stream: 'another' queue_depth: 2 incarnation: 1 fields { name: 'w' "
      "element_type: 9 "
      "layout: 'shape=3x4 grid=1x1' } offers { transport: 't' offer: 'tcp' } }");
  const auto outcomes = run_all({{"status", "another", "--port-file", port_file},
                                 {"status", "another", "--json", "--port-file", port_file},
                                 {"status", "a third", "--port-file", port_file}});
  EXPECT_EQ(outcomes[0].code, 0) << outcomes[0].errors;
  for (const char* part : {"  other  1 of 1  h", "stream another\n",
                           "  w      other  f32   shape=3x4 grid=1x1\n", "no group consumes it"})
    EXPECT_NE(outcomes[0].output.find(part), std::string::npos) << part << " in\n"
                                                                << outcomes[0].output;
  for (const auto& one : {outcomes[0], outcomes[1]}) {
    EXPECT_EQ(one.output.find("viewer"), std::string::npos) << one.output;
    EXPECT_EQ(one.output.find("shape=8"), std::string::npos) << one.output;
  }
  EXPECT_EQ(outcomes[1].code, 0) << outcomes[1].errors;
  EXPECT_NE(outcomes[1].output.find("\"element_type\": \"f32\""), std::string::npos)
      << outcomes[1].output;
  EXPECT_EQ(outcomes[2].code, 1);
  EXPECT_EQ(outcomes[2].errors,
            "tremula: stream 'a third': expected a stream of this server, found 'another', "
            "'s'; check the name, or start its producer\n");
}

TEST_F(Tremula, AdmitsOnlyProgramsThatCanReadTheKey) {
  server = std::make_unique<Process>(
      std::vector<std::string>{"serve", "--port", "0", "--port-file", port_file, "--log", "debug"});
  ASSERT_TRUE(soon([&] { return fs::exists(port_file); })) << server->errors();
  const std::string key_file = port_file + ".key";
  EXPECT_EQ(fs::status(key_file).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  const std::string address = transport::to_string(transport::read_port_file(port_file));
  const std::string stranger_key = folder / "stranger.key";
  core::make_key_file(stranger_key);
  Process without({"status", "--server", address}),
      wrong({"status", "--server", address, "--key-file", stranger_key}),
      by_file({"status", "--port-file", port_file}),
      by_option({"status", "--server", address, "--key-file", key_file}),
      by_variable({"status", "--server", address}, {"TREMULA_KEY_FILE=" + key_file}),
      itself({"status", "--server", address}, {"TREMULA_KEY=" + contents(key_file)});
  EXPECT_EQ(without.wait(), 1);
  EXPECT_EQ(
      without.errors(),
      "tremula: server " + address +
          ": the server asks for a key, and this process has none; set key_file "
          "(TREMULA_KEY_FILE, --key-file) to a copy of the server's key file, or name the "
          "server by its port file (file:PATH), next to which its key is stored; only a server "
          "that was given neither stores its key where jobs of its user on its host find it "
          "by localhost:PORT\n");
  EXPECT_EQ(wrong.wait(), 1);
  EXPECT_NE(wrong.errors().find("the server has a different key than this process"),
            std::string::npos)
      << wrong.errors();
  for (Process* one : {&by_file, &by_option, &by_variable, &itself})
    EXPECT_EQ(one->wait(), 0) << one->errors();

  // A key that other users can read is refused.
  fs::permissions(key_file, fs::perms::others_read, fs::perm_options::add);
  Process open({"status", "--port-file", port_file});
  EXPECT_EQ(open.wait(), 1);
  EXPECT_NE(open.errors().find("found mode 0604; chmod 600 it"), std::string::npos)
      << open.errors();

  server->signal(SIGTERM);
  EXPECT_EQ(server->wait(), 0);
  const std::string key = contents(key_file).substr(0, 64), other = contents(stranger_key);
  EXPECT_NE(server->errors().find("refused connection="), std::string::npos) << server->errors();
  for (const std::string& said : {server->errors(), server->output(), without.errors(),
                                  wrong.errors(), open.errors(), by_file.output()}) {
    EXPECT_EQ(said.find(key.substr(0, 16)), std::string::npos) << said;
    EXPECT_EQ(said.find(other.substr(0, 16)), std::string::npos) << said;
  }
}

TEST_F(Tremula, KeepsTheKeyOfAnEarlierServer) {
  serve();
  const std::string key = contents(port_file + ".key");
  EXPECT_EQ(key.size(), 65u);
  server->signal(SIGTERM);
  EXPECT_EQ(server->wait(), 0);
  serve();
  EXPECT_EQ(contents(port_file + ".key"), key);
  server->signal(SIGTERM);
  EXPECT_EQ(server->wait(), 0);

  // A server that makes its own key stores it next to its port file for as long as it listens.
  const std::string beside = port_file + ".key", named = folder / "named.key";
  fs::remove(beside);
  server = std::make_unique<Process>(std::vector<std::string>{"serve", "--port", "0", "--port-file",
                                                              port_file, "--key-file", named});
  ASSERT_TRUE(soon([&] { return fs::exists(port_file); })) << server->errors();
  EXPECT_EQ(contents(named), contents(beside));
  Process status({"status", "--port-file", port_file});
  EXPECT_EQ(status.wait(), 0) << status.errors();
  server->signal(SIGTERM);
  EXPECT_EQ(server->wait(), 0);
  EXPECT_FALSE(fs::exists(beside));
  server = std::make_unique<Process>(std::vector<std::string>{"serve", "--port", "0", "--port-file",
                                                              port_file, "--key-file", "none"});
  ASSERT_TRUE(soon([&] { return fs::exists(port_file); })) << server->errors();
  Process plain({"status", "--port-file", port_file});
  EXPECT_EQ(plain.wait(), 0) << plain.errors();
}

TEST_F(Tremula, LeavesForeignKeyFilesUnchanged) {
  serve();
  const std::string beside = port_file + ".key", key = contents(beside),
                    other = folder / "other.key";
  const std::string address = contents(port_file);
  core::make_key_file(other);
  for (const std::string& named : {std::string("none"), other}) {
    Process second({"serve", "--port", "0", "--port-file", port_file, "--key-file", named});
    EXPECT_EQ(second.wait(), 1);
    EXPECT_NE(second.errors().find("key file '" + beside +
                                   "': jobs that find this server by its port file would use this "
                                   "key file; expected "),
              std::string::npos)
        << second.errors();
    EXPECT_NE(second.errors().find("or choose another --port-file"), std::string::npos)
        << second.errors();
    EXPECT_EQ(contents(beside), key);
    EXPECT_EQ(contents(port_file), address);
  }
}

TEST_F(Tremula, KeepsAListOfKeysUnderAnyNameOfItsFile) {
  const std::string beside = port_file + ".key", linked = folder / "linked", hard = folder / "hard";
  const std::string list =
      "operator: 0123456789abcdef\nalice: fedcba9876543210\nbob: 00112233445566778899\n";
  std::ofstream(beside) << list;
  fs::permissions(beside, fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink(folder, linked);
  fs::create_hard_link(beside, hard);
  for (const std::string& name :
       {(folder / "." / "port.key").string(), (fs::path(linked) / "port.key").string(), hard}) {
    Process one({"serve", "--port", "0", "--port-file", port_file, "--key-file", name});
    ASSERT_TRUE(soon([&] { return fs::exists(port_file); })) << one.errors();
    one.signal(SIGTERM);
    EXPECT_EQ(one.wait(), 0) << one.errors();
    EXPECT_EQ(contents(beside), list) << name;
  }
  const std::string key = folder / "own.key";
  core::make_key_file(key);
  Process other({"serve", "--port", "0", "--port-file", port_file, "--key-file", key});
  EXPECT_EQ(other.wait(), 1);
  EXPECT_NE(other.errors().find("found a list of 3 keys"), std::string::npos) << other.errors();
  EXPECT_EQ(contents(beside), list);
}

/// A server that is started with neither a port file nor a key.
class QuickStart : public Tremula {
protected:
  QuickStart() {
    for (const fs::path& one : {runtime, nowhere}) {
      fs::create_directory(one);
      fs::permissions(one, fs::perms::owner_all);
    }
  }
  void start(const std::string& number) {
    server = std::make_unique<Process>(std::vector<std::string>{"serve", "--port", number},
                                       std::vector{here});
    const std::string words = "listening address=127.0.0.1:";
    ASSERT_TRUE(soon([&] { return server->errors().find("jobs=") != std::string::npos; }))
        << server->errors();
    port = std::to_string(
        std::stoi(server->errors().substr(server->errors().find(words) + words.size())));
    key_file = runtime / "tremula" / (port + ".key");
  }
  const fs::path runtime = folder / "runtime", nowhere = folder / "nowhere";
  const std::string here = "XDG_RUNTIME_DIR=" + runtime.string(),
                    elsewhere = "XDG_RUNTIME_DIR=" + nowhere.string();
  std::string port;
  fs::path key_file;
};

TEST_F(QuickStart, AdmitsOnlyJobsThatFindItsKey) {
  start("0");
  EXPECT_EQ(fs::status(key_file).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_NE(server->errors().find("TREMULA_KEY_FILE=" + key_file.string()), std::string::npos)
      << server->errors();
  Process number({"status", "--server", "127.0.0.1:" + port}, {here}),
      name({"status"}, {here, "TREMULA_SERVER=localhost:" + port}),
      by_file({"status", "--server", "127.0.0.1:" + port},
              {elsewhere, "TREMULA_KEY_FILE=" + key_file.string()}),
      without({"status", "--server", "127.0.0.1:" + port}, {elsewhere});
  for (Process* one : {&number, &name, &by_file}) EXPECT_EQ(one->wait(), 0) << one->errors();
  EXPECT_EQ(without.wait(), 1);
  for (const char* part : {"the server asks for a key, and this process has none",
                           "TREMULA_KEY_FILE", "port file (file:PATH)"})
    EXPECT_NE(without.errors().find(part), std::string::npos) << without.errors();
  server->signal(SIGTERM);
  EXPECT_EQ(server->wait(), 0);
  EXPECT_TRUE(fs::is_empty(runtime / "tremula")) << "no job comes back to a random port";
}

/// Jobs present to the next server what this one has sealed with the key.
TEST_F(QuickStart, KeepsTheKeyOfAPortForTheNextServer) {
  start("0");
  server->signal(SIGTERM);
  EXPECT_EQ(server->wait(), 0);
  start(port);
  const std::string key = contents(key_file);
  server->signal(SIGTERM);
  EXPECT_EQ(server->wait(), 0);
  start(port);
  EXPECT_EQ(contents(key_file), key);
  Process status({"status", "--server", "localhost:" + port}, {here});
  EXPECT_EQ(status.wait(), 0) << status.errors();
}

TEST_F(QuickStart, IsClosedToOtherUsersOfTheHost) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  start("0");
  for (const fs::path& one : {folder, runtime}) fs::permissions(one, fs::perms(0755));
  Process stranger({"status", "--server", "127.0.0.1:" + port}, {here}, Process::Output::pipe,
                   12345);
  EXPECT_EQ(stranger.wait(), 1);
  EXPECT_EQ(stranger.output(), "");
  EXPECT_NE(stranger.errors().find("the server asks for a key, and this process has none"),
            std::string::npos)
      << stranger.errors();
  Process thief({"status", "--server", "127.0.0.1:" + port, "--key-file", key_file}, {},
                Process::Output::pipe, 12345);
  EXPECT_EQ(thief.wait(), 1);
  EXPECT_NE(thief.errors().find("Permission denied"), std::string::npos) << thief.errors();
}

TEST_F(QuickStart, GetsNoByteBeforeItAcceptsTheConnection) {
  transport::PlainServer silent;
  Process status({"status", "--server", to_string(silent.address()), "--timeout", "0.3"},
                 {elsewhere});
  EXPECT_EQ(status.wait(), 1);
  EXPECT_NE(status.errors().find("has accepted the connection in time"), std::string::npos)
      << status.errors();
  silent.accept();
  EXPECT_EQ(silent.read(1), "");
}

TEST_F(QuickStart, TakesTheKeyThatAKilledServerHasLeft) {
  start("0");
  const std::string key = contents(key_file), old = port;
  server->signal(SIGKILL);
  server->wait();
  EXPECT_EQ(contents(key_file), key);
  start(old);
  EXPECT_EQ(contents(key_file), key);
  Process status({"status", "--server", "localhost:" + port}, {here});
  EXPECT_EQ(status.wait(), 0) << status.errors();
  server->signal(SIGTERM);
  EXPECT_EQ(server->wait(), 0);
  EXPECT_EQ(contents(key_file), key) << "this server did not make the key";

  // A job with that key refuses a server without one.
  server = std::make_unique<Process>(
      std::vector<std::string>{"serve", "--port", old, "--key-file", "none"}, std::vector{here});
  ASSERT_TRUE(soon([&] { return server->errors().find("jobs=") != std::string::npos; }))
      << server->errors();
  EXPECT_NE(server->errors().find("listens for every user of this host"), std::string::npos)
      << server->errors();
  Process refused({"status", "--server", "localhost:" + old}, {here}),
      open({"status", "--server", "localhost:" + old, "--key-file", "none"}, {here});
  EXPECT_EQ(refused.wait(), 1);
  EXPECT_NE(refused.errors().find("found one that was started with --key-file none"),
            std::string::npos)
      << refused.errors();
  EXPECT_EQ(open.wait(), 0) << open.errors();
}

TEST_F(Tremula, NeedsAKeyToServeOtherHosts) {
  Process open({"serve", "--port", "0", "--bind", "0.0.0.0"});
  EXPECT_EQ(open.wait(), 1);
  EXPECT_NE(open.errors().find("cannot listen on 0.0.0.0:0 without a key"), std::string::npos)
      << open.errors();
}

TEST_F(Tremula, WaitsForAServerIfAskedTo) {
  Process patient({"status", "--timeout", "none", "--port-file", port_file});
  EXPECT_TRUE(soon([&] { return !patient.errors().empty(); }));
  EXPECT_EQ(patient.errors(), "tremula: waiting for a server: port file '" + port_file +
                                  "': expected the address of a running server, found no readable "
                                  "file; start one with 'tremula serve --port-file " +
                                  port_file + "' (address from --port-file)\n");
  serve();
  EXPECT_EQ(patient.wait(), 0) << patient.errors();
  EXPECT_NE(patient.output().find("no groups"), std::string::npos) << patient.output();
}

TEST_F(Tremula, ShowsTheCountersOfEveryRankIfAskedTo) {
  link();
  Process plain({"status", "--port-file", port_file}),
      ranks({"status", "--ranks", "--port-file", port_file});
  EXPECT_EQ(plain.wait(), 0) << plain.errors();
  EXPECT_EQ(ranks.wait(), 0) << ranks.errors();
  EXPECT_EQ(plain.output().find("rank 0 "), std::string::npos) << plain.output();
  EXPECT_NE(ranks.output().find("    rank 0                    3     192 B"), std::string::npos)
      << ranks.output();
}

TEST_F(Tremula, WatchesUntilNoStreamIsLeft) {
  link();
  Process watch({"status", "--watch", "0.05", "--port-file", port_file});
  EXPECT_TRUE(soon([&] { return watch.output().find("s  step 3  192 B  ocean") == 0; }))
      << watch.output() << watch.errors();
  ocean->send(
      "heartbeat { counters { stream: 's' steps: 3 packages: 3 bytes: 192 copied_bytes: 64 } }");
  const std::string line = "s  step 3  192 B  0 B/s  ocean -> viewer at 0\n";
  EXPECT_TRUE(soon([&] { return watch.output().find(line) != std::string::npos; }))
      << watch.output() << watch.errors();
  viewer->send("request: 5 goodbye {}");
  ocean->send("request: 5 close_stream { stream: 's' }");
  EXPECT_EQ(watch.wait(), 0) << watch.errors();
  EXPECT_EQ(watch.output().find('\x1b'), std::string::npos);
}

TEST_F(Tremula, WaitsForTheFirstStreamToWatch) {
  serve();
  Process watch({"status", "--watch", "0.05", "--port-file", port_file});
  EXPECT_TRUE(soon([&] { return watch.output() == "no streams yet\n"; })) << watch.errors();
  Rank late(port_file);
  late.send("request: 1 hello { protocol: 2 group: 'g' size: 1 job: 'j' host: 'h' version: 'v' }");
  late.send(
      "request: 2 announce { stream: 's' queue_depth: 2 fields { name: 'u' element_type: 10 "
      "layout: 'shape=8 grid=1' } "
      "offers { transport: 't' offer: 'tcp' } incarnation: 1 }");
  EXPECT_TRUE(soon([&] { return watch.output().find("s  step 0") != std::string::npos; }))
      << watch.errors();
  late.send("request: 3 goodbye {}");
  EXPECT_EQ(watch.wait(), 0) << watch.errors();
  EXPECT_EQ(watch.output().find("no streams yet", 1), std::string::npos)
      << "the line is printed once";
}

TEST_F(Tremula, RedrawsItsLinesOnATerminal) {
  link();
  Process watch({"status", "--watch", "0.05", "--port-file", port_file}, {},
                Process::Output::terminal);
  EXPECT_TRUE(soon([&] { return watch.output().find("\x1b[1A\rs  step 3") != std::string::npos; }))
      << watch.output();
  watch.signal(SIGINT);
  EXPECT_EQ(watch.wait(), 0);
}

TEST_F(Tremula, FailsWhenTheWatchedServerGoesAway) {
  link();
  Process watch({"status", "--watch", "0.05", "--port-file", port_file});
  EXPECT_TRUE(soon([&] { return watch.output().find("s  step") != std::string::npos; }))
      << watch.errors();
  server->signal(SIGTERM);
  EXPECT_EQ(watch.wait(), 1);
  EXPECT_NE(watch.errors().find("lost the connection"), std::string::npos) << watch.errors();
}

TEST_F(Tremula, RemovesThePortFileWhenItIsStopped) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    serve();
    server->signal(number);
    EXPECT_EQ(server->wait(), 0) << server->errors();
    EXPECT_FALSE(fs::exists(port_file));
  }
}

TEST_F(Tremula, IsNotEndedByOtherSignals) {
  serve();
  for (const int number : {SIGUSR1, SIGUSR2}) server->signal(number);
  Process status({"status", "--port-file", port_file});
  EXPECT_EQ(status.wait(), 0) << status.errors();
  server->signal(SIGTERM);
  EXPECT_EQ(server->wait(), 0);
  // Starts the server as nohup does.
  ::signal(SIGHUP, SIG_IGN);
  serve();
  ::signal(SIGHUP, SIG_DFL);
  server->signal(SIGHUP);
  Process again({"status", "--port-file", port_file});
  EXPECT_EQ(again.wait(), 0) << again.errors();
}

TEST_F(Tremula, LeavesAPortFileThatIsNotItsOwn) {
  serve();
  std::ofstream(port_file) << "other:1\n";
  server->signal(SIGTERM);
  EXPECT_EQ(server->wait(), 0);
  EXPECT_TRUE(fs::exists(port_file));
}

TEST_F(Tremula, SaysThatAPortFileIsStale) {
  serve();
  server->signal(SIGKILL);
  server->wait();
  ASSERT_TRUE(fs::exists(port_file));
  Process status({"status", "--port-file", port_file});
  EXPECT_EQ(status.wait(), 1);
  EXPECT_EQ(status.errors().find("tremula: port file '" + port_file +
                                 "' is stale: no server at 127.0.0.1:"),
            0u)
      << status.errors();
}

TEST_F(Tremula, SaysThatNoServerListens) {
  serve();
  const std::string address = transport::to_string(transport::read_port_file(port_file));
  server->signal(SIGTERM);
  server->wait();
  Process status({"status", "--server", address});
  EXPECT_EQ(status.wait(), 1);
  EXPECT_EQ(status.errors(), "tremula: no server at " + address +
                                 ": Connection refused; start one with 'tremula serve' or name the "
                                 "address where one listens (address from --server)\n");
  EXPECT_EQ(status.output(), "");
}

TEST_F(Tremula, GivesUpOnAServerThatHangs) {
  serve();
  server->signal(SIGSTOP);
  Process status({"status", "--port-file", port_file, "--timeout", "0.2"});
  EXPECT_EQ(status.wait(), 1);
  EXPECT_NE(status.errors().find("expected its status in time, found no answer"), std::string::npos)
      << status.errors();
  server->signal(SIGCONT);
}

TEST_F(Tremula, TakesItsConfigFromAFile) {
  const std::string config = folder / "server.yaml";
  std::ofstream(config) << "port: 0\nport_file: " << port_file << "\nlog: debug\n";
  server = std::make_unique<Process>(std::vector<std::string>{"serve", "--config", config});
  EXPECT_TRUE(soon([&] { return fs::exists(port_file); })) << server->errors();
  std::ofstream(config) << "prot: 0\n";
  Process wrong({"serve", "--config", config});
  EXPECT_EQ(wrong.wait(), 1);
  EXPECT_EQ(wrong.errors(),
            "tremula: config file '" + config +
                "', line 1: unknown key 'prot'; expected one of bind, port, port_file, key_file, "
                "tls_certificate, tls_key, log, heartbeat, hello, connections_per_host, memory\n");
}

}  // namespace
}  // namespace tremula::cli
