// SPDX-License-Identifier: Apache-2.0
// Tests ControlConnection against a server on plain sockets that shares no code with it.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/error.hpp"
#include "core/key.hpp"
#include "tests/core/error_of.hpp"
#include "tests/sleeping_child.hpp"
#include "tests/transport/control/plain_server.hpp"
#include "transport/control/authentication.hpp"
#include "transport/control/control_connection.hpp"
#include "transport/control/frame.hpp"

namespace tremula::transport {
namespace {

using core::Bytes, core::Deadline, core::Errc, core::Error, core::error_of;

Bytes bytes_of(std::string_view text) {
  Bytes out(text.size());
  std::memcpy(out.data(), text.data(), text.size());
  return out;
}
std::string text_of(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Records the calls to the handlers, for the test's thread.
class Record {
public:
  ControlConnection::Handlers handlers() {
    return {.on_frame = [this](const Bytes& payload) { add(frames_, text_of(payload)); },
            .on_closed = [this](const std::string& why) { add(closed_, why); },
            .on_timer = [this] { add(ticks_, ""); }};
  }
  std::vector<std::string> frames(std::size_t count) { return wait(frames_, count); }
  std::vector<std::string> closed(std::size_t count) { return wait(closed_, count); }
  std::size_t ticks(std::size_t count) { return wait(ticks_, count).size(); }

private:
  void add(std::vector<std::string>& to, std::string text) {
    const std::lock_guard lock(mutex_);
    to.push_back(std::move(text));
    changed_.notify_all();
  }
  std::vector<std::string> wait(const std::vector<std::string>& on, std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(30), [&] { return on.size() >= count; });
    return on;
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> frames_, closed_, ticks_;
};

Deadline soon() { return Deadline::after(30); }

TEST(ControlConnection, SendsALittleEndianLengthThenThePayload) {
  PlainServer server;
  Record record;
  ControlConnection connection(server.address(), record.handlers(), soon());
  server.accept();
  connection.send(bytes_of("hello"));
  connection.send(Bytes(0x0102, std::byte{'x'}));
  connection.send({});
  EXPECT_EQ(server.read(9), std::string("\x05\0\0\0hello", 9));
  EXPECT_EQ(server.read(4), std::string("\x02\x01\0\0", 4));
  EXPECT_EQ(server.read(0x0102), std::string(0x0102, 'x'));
  EXPECT_EQ(server.read(4), std::string(4, '\0'));
  server.drop();
}

TEST(ControlConnection, ReceivesFramesInPiecesOfAnySize) {
  PlainServer server;
  Record record;
  ControlConnection connection(server.address(), record.handlers(), soon());
  server.accept();
  const std::string raw =
      std::string("\x03\0\0\0abc", 7) + std::string("\0\0\0\0", 4) + std::string("\x02\0\0\0de", 6);
  for (const char c : raw) {
    server.write({&c, 1});
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  server.write(raw);
  EXPECT_EQ(record.frames(6), (std::vector<std::string>{"abc", "", "de", "abc", "", "de"}));
  server.drop();
}

TEST(ControlConnection, CarriesALongFrameBothWays) {
  PlainServer server;
  Record record;
  ControlConnection connection(server.address(), record.handlers(), soon());
  server.accept();
  const std::string payload(max_frame_payload_bytes, 'z');
  connection.send(bytes_of(payload));
  EXPECT_EQ(server.read(4), std::string("\0\0\0\x01", 4));
  EXPECT_EQ(server.read(payload.size()), payload);
  server.write(std::string("\0\0\0\x01", 4));
  server.write(payload);
  const auto frames = record.frames(1);
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_TRUE(frames[0] == payload);
  server.drop();
}

/// Returns a frame as it travels over the wire.
std::string framed(const Bytes& payload) {
  const FramePrefix prefix = frame_prefix(payload.size());
  return text_of({prefix.begin(), prefix.end()}) + text_of(payload);
}

const core::Key& key() {
  static const core::Key one("the key of this test", "test");
  return one;
}

TEST(ControlConnection, SendsNothingBeforeTheServerHasProvedItsKey) {
  PlainServer server;
  Record record;
  ControlConnection connection(server.address(), record.handlers(), soon(), key());
  connection.send(bytes_of("first"));
  server.accept();
  ServerExchange exchange(key());
  const std::string opening = server.read(4 + 41);
  const auto challenge = exchange.receive(bytes_of(opening.substr(4)));
  ASSERT_FALSE(challenge.failure) << challenge.failure->what();
  server.write(framed(challenge.reply));
  const auto proved = exchange.receive(bytes_of(server.read(4 + 41).substr(4)));
  ASSERT_TRUE(proved.is_done);
  connection.send(bytes_of("second"));
  // So far only the exchange has arrived: the two frames follow the proof.
  EXPECT_FALSE(server.has_bytes_within(0.2));
  server.write(framed(proved.reply));
  EXPECT_EQ(server.read(9), framed(bytes_of("first")));
  EXPECT_EQ(server.read(10), framed(bytes_of("second")));
  server.write(framed(Bytes(5000)));
  EXPECT_EQ(record.frames(1)[0].size(), 5000u);
  EXPECT_FALSE(connection.refusal());
  server.drop();
}

TEST(ControlConnection, EndsAtAServerThatDoesNotKnowTheKey) {
  const core::Key other("another key than that", "test");
  for (const std::string& answer :
       {framed(refusal_without_key()), framed(bytes_of("an answer of Protobuf")),
        framed(ServerExchange(key()).receive(bytes_of("no opening")).reply)}) {
    PlainServer server;
    Record record;
    ControlConnection connection(server.address(), record.handlers(), soon(), key());
    connection.send(bytes_of("what no stranger reads"));
    server.accept();
    server.read(4 + 41);
    server.write(answer);
    EXPECT_EQ(record.closed(1).size(), 1u);
    ASSERT_TRUE(connection.refusal());
    EXPECT_EQ(server.read(1), "") << "nothing must be sent to a stranger";
    EXPECT_TRUE(record.frames(0).empty());
    server.drop();
  }
  // Now a server completes the exchange with a different key.
  PlainServer server;
  Record record;
  ControlConnection connection(server.address(), record.handlers(), soon(), key());
  connection.send(bytes_of("what no stranger reads"));
  server.accept();
  server.read(4 + 41);
  ServerExchange stranger(other);
  const auto opening = ClientExchange(other).opening();
  server.write(framed(stranger.receive(opening).reply));
  server.read(4 + 41);
  Bytes proof = opening;
  proof[8] = std::byte{4};
  server.write(framed(proof));
  EXPECT_EQ(record.closed(1).size(), 1u);
  ASSERT_TRUE(connection.refusal());
  EXPECT_NE(std::string(connection.refusal()->what()).find("cannot prove it"), std::string::npos);
  EXPECT_EQ(connection.refusal()->code(), Errc::refused);
  EXPECT_EQ(server.read(1), "");
  server.drop();
}

TEST(ControlConnection, RefusesALongFrameBeforeTheProof) {
  PlainServer server;
  Record record;
  ControlConnection connection(server.address(), record.handlers(), soon(), key());
  server.accept();
  server.write(std::string("\x01\x04\0\0", 4));  // 1025
  EXPECT_NE(record.closed(1)[0].find(
                "expected at most 1024 bytes from this connection at this moment, found 1025"),
            std::string::npos);
  server.drop();
}

TEST(ControlConnection, SaysThatTheServerAsksForAKey) {
  PlainServer server;
  Record record;
  ControlConnection connection(server.address(), record.handlers(), soon());
  server.accept();
  server.write(framed(ServerExchange(key()).receive(bytes_of("hello")).reply));
  EXPECT_NE(record.closed(1)[0].find("the server asks for a key"), std::string::npos);
  EXPECT_EQ(connection.refusal()->code(), Errc::refused);
  EXPECT_TRUE(record.frames(0).empty());
  server.drop();
}

TEST(ControlConnection, RefusesToSendAFrameThatIsTooLong) {
  PlainServer server;
  Record record;
  ControlConnection connection(server.address(), record.handlers(), soon());
  server.accept();
  const std::string text = error_of([&] { connection.send(Bytes(max_frame_payload_bytes + 1)); },
                                    Errc::invalid_argument);
  EXPECT_EQ(text, "control frame: expected at most 16777216 bytes, found 16777217");
  server.drop();
}

TEST(ControlConnection, ClosesOnALengthThatIsTooLong) {
  PlainServer server;
  Record record;
  ControlConnection connection(server.address(), record.handlers(), soon());
  server.accept();
  server.write("HTTP/1.1 400 Bad Request\r\n");
  const auto closed = record.closed(1);
  ASSERT_EQ(closed.size(), 1u);
  EXPECT_EQ(
      closed[0],
      "control frame: expected a length of at most 16777216 bytes, found 1347703880; the other "
      "side does not speak this protocol");
  EXPECT_EQ(server.read(1), "");
}

TEST(ControlConnection, ReportsWhyItWasClosed) {
  for (const bool reset : {false, true}) {
    PlainServer server;
    Record record;
    ControlConnection connection(server.address(), record.handlers(), soon());
    server.accept();
    reset ? server.drop_with_reset() : server.drop();
    const auto closed = record.closed(1);
    ASSERT_EQ(closed.size(), 1u);
    EXPECT_EQ(closed[0],
              reset ? "Connection reset by peer" : "the other side closed the connection");
    connection.send(bytes_of("into the void"));
    connection.repeat_timer(0.001);
    connection.close(soon());
    EXPECT_EQ(record.closed(1).size(), 1u);
  }
}

TEST(ControlConnection, OpensOrFailsWhileTheServerEnds) {
  PlainServer server;
  std::atomic<bool> is_over = false;
  std::thread ending([&] {
    while (!is_over)
      if (server.accept_within(0)) server.drop_with_reset();
  });
  int there = 0, gone = 0, other = 0;
  std::string found;
  for (int i = 0; i < 2000; ++i) {
    try {
      Record record;
      ControlConnection connection(server.address(), record.handlers(), soon());
      there += record.closed(1).size() == 1 ? 1 : 0;
    } catch (const Error& e) {
      e.code() == Errc::no_server ? ++gone : ++other;
      if (e.code() != Errc::no_server) found = e.what();
    } catch (const std::exception& e) {
      ++other;
      found = e.what();
    }
  }
  is_over = true;
  ending.join();
  EXPECT_EQ(other, 0) << found;
  EXPECT_EQ(there + gone, 2000);
}

TEST(ControlConnection, EndsWithItsProcessThoughAChildLives) {
  PlainServer server;
  std::array<int, 2> up{};
  ASSERT_EQ(pipe(up.data()), 0);
  const pid_t rank = fork();
  if (rank == 0) {
    Record record;
    const ControlConnection connection(server.address(), record.handlers(), soon());
    const testing_only::SleepingChild child;
    const pid_t grandchild = child.pid();
    if (write(up[1], &grandchild, sizeof grandchild) < 0) _exit(1);
    for (;;) pause();
  }
  server.accept();
  pid_t grandchild = 0;
  ASSERT_EQ(read(up[0], &grandchild, sizeof grandchild), static_cast<ssize_t>(sizeof grandchild));
  kill(rank, SIGKILL);
  waitpid(rank, nullptr, 0);
  EXPECT_TRUE(server.has_bytes_within(30)) << "the child must not hold the connection";
  EXPECT_EQ(server.read(1), "");
  kill(grandchild, SIGKILL);
  for (const int end : up) close(end);
}

TEST(ControlConnection, IsNotInheritedByStartedPrograms) {
  PlainServer server;
  Record record;
  const ControlConnection connection(server.address(), record.handlers(), soon());
  server.accept();
  int found = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int descriptor = std::stoi(entry.path().filename());
    sockaddr_in peer{};
    socklen_t bytes = sizeof peer;
    if (getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &bytes) != 0 ||
        peer.sin_family != AF_INET || ntohs(peer.sin_port) != server.address().port)
      continue;
    ++found;
    EXPECT_EQ(fcntl(descriptor, F_GETFD), FD_CLOEXEC);
  }
  EXPECT_EQ(found, 1);
  server.drop();
}

TEST(ControlConnection, EndsThoughAnotherProcessHoldsIt) {
  PlainServer server;
  Record record;
  auto handlers = record.handlers();
  handlers.on_frame = [](const Bytes&) { throw Error(Errc::protocol, "cannot read this"); };
  const ControlConnection connection(server.address(), handlers, soon());
  server.accept();
  const testing_only::SleepingChild child(testing_only::SleepingChild::Made::behind_our_back);
  server.write(std::string("\x01\0\0\0a", 5));
  EXPECT_EQ(record.closed(1), std::vector<std::string>{"cannot read this"});
  EXPECT_TRUE(server.has_bytes_within(30)) << "the other process must not hold the connection";
  EXPECT_EQ(server.read(1), "");
}

TEST(ControlConnection, ClosesWithTheTextOfAHandlersException) {
  PlainServer server;
  Record record;
  auto handlers = record.handlers();
  handlers.on_frame = [](const Bytes&) { throw Error(Errc::protocol, "cannot read this"); };
  ControlConnection connection(server.address(), handlers, soon());
  server.accept();
  server.write(std::string("\x01\0\0\0a", 5));
  EXPECT_EQ(record.closed(1), std::vector<std::string>{"cannot read this"});
}

TEST(ControlConnection, FlushesBeforeItCloses) {
  PlainServer server;
  Record record;
  const std::string payload(4 << 20, 'p');
  std::thread peer([&] {
    server.accept();
    EXPECT_EQ(server.read(4).size(), 4u);
    EXPECT_TRUE(server.read(payload.size()) == payload);
    EXPECT_EQ(server.read(1), "");  // nothing follows
    server.write(std::string("\x04\0\0\0last", 8));
    server.drop();
  });
  {
    ControlConnection connection(server.address(), record.handlers(), soon());
    connection.send(bytes_of(payload));
    connection.close(soon());
    connection.close(soon());
  }
  peer.join();
  EXPECT_EQ(record.frames(1), std::vector<std::string>{"last"});
  EXPECT_TRUE(record.closed(0).empty());
}

TEST(ControlConnection, ClosesAtTheDeadlineWhenTheServerHangs) {
  PlainServer server;  // never reads
  Record record;
  ControlConnection connection(server.address(), record.handlers(), soon());
  connection.send(Bytes(max_frame_payload_bytes));
  const auto before = std::chrono::steady_clock::now();
  connection.close(Deadline::after(0.2));
  const auto took = std::chrono::steady_clock::now() - before;
  EXPECT_GE(took, std::chrono::milliseconds(190));
  EXPECT_LT(took, std::chrono::seconds(30));
  EXPECT_TRUE(record.closed(0).empty());
}

TEST(ControlConnection, RepeatsItsTimerUntilStopped) {
  PlainServer server;
  Record record;
  ControlConnection connection(server.address(), record.handlers(), soon());
  EXPECT_EQ(record.ticks(0), 0u);
  server.accept();
  connection.repeat_timer(0.005);
  EXPECT_GE(record.ticks(5), 5u);
  connection.repeat_timer(3600);
  for (std::size_t i = 1; i <= 2; ++i) {  // the second arrives after the change
    server.write(std::string(4, '\0'));
    EXPECT_EQ(record.frames(i).size(), i);
  }
  const std::size_t ticks = record.ticks(0);
  std::this_thread::sleep_for(std::chrono::milliseconds(40));
  EXPECT_EQ(record.ticks(0), ticks);
  server.drop();
}

TEST(ControlConnection, NamesAnAddressWithoutAListener) {
  HostPort gone;
  {
    PlainServer server;
    gone = server.address();
  }
  const std::string text =
      error_of([&] { ControlConnection(gone, Record().handlers(), soon()); }, Errc::no_server);
  EXPECT_EQ(text,
            "no server at " + to_string(gone) +
                ": Connection refused; start one with 'tremula serve' or name the address where "
                "one listens");
}

TEST(ControlConnection, NamesAnUnknownHost) {
  const std::string text = error_of(
      [&] {
        ControlConnection({"no-such-host.invalid", 7423}, Record().handlers(), soon());
      },
      Errc::no_server);
  EXPECT_NE(text.find("no server at no-such-host.invalid:7423: "), std::string::npos) << text;
  EXPECT_NE(text.find("numeric address"), std::string::npos) << text;
}

TEST(ControlConnection, GivesUpAtTheDeadlineWithoutAnAnswer) {
  // A listener whose queue is full no longer answers.
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  ASSERT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(::listen(listener, 0), 0);
  ASSERT_EQ(::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length), 0);
  const HostPort full{"127.0.0.1", ntohs(address.sin_port)};
  Record record;
  const auto before = std::chrono::steady_clock::now();
  const std::string text = error_of(
      [&] {
        std::vector<std::unique_ptr<ControlConnection>> kept;
        while (kept.size() < 10)
          kept.push_back(
              std::make_unique<ControlConnection>(full, record.handlers(), Deadline::after(0.3)));
      },
      Errc::no_server);
  EXPECT_NE(text.find("no answer in time"), std::string::npos) << text;
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(60));
  ::close(listener);
}

}  // namespace
}  // namespace tremula::transport
