// SPDX-License-Identifier: Apache-2.0
// A real server on a free port of this host, and clients that talk to it over TCP.
#include "server/listener.hpp"

#include <fmt/format.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/key.hpp"
#include "proto/convert.hpp"
#include "server/serve.hpp"
#include "tests/core/temporary_folder.hpp"
#include "transport/control/authentication.hpp"
#include "transport/control/control_connection.hpp"
#include "transport/control/frame.hpp"
#include "transport/control/interfaces.hpp"

namespace {
bool refuses_to_listen = false;
}  // namespace
#ifdef __GLIBC__  // other systems may declare it without noexcept
/// Replaces the system's own function.
extern "C" int listen(int socket, int backlog) noexcept {
  if (!refuses_to_listen) return static_cast<int>(::syscall(SYS_listen, socket, backlog));
  errno = EADDRINUSE;
  return -1;
}
#endif

namespace tremula::server {
namespace {

using core::Deadline, core::Errc, core::Error;

/// A server in a separate thread.
class Running {
public:
  explicit Running(double heartbeat_seconds = 10, const Limits& limits = {},
                   const std::optional<core::Key>& key = std::nullopt)
      : listener_(config(heartbeat_seconds, key), "0.1", log_, limits),
        thread_([this] { listener_.run(); }) {}
  ~Running() { stop(); }
  void stop() {
    if (!thread_.joinable()) return;
    listener_.stop();
    thread_.join();
  }
  transport::HostPort address() const { return listener_.address(); }

private:
  static Config config(double heartbeat_seconds, const std::optional<core::Key>& key) {
    Config out;
    if (key) out.keys = {*key};
    out.port = 0;
    out.heartbeat_seconds = heartbeat_seconds;
    return out;
  }
  core::Log log_{"server", core::LogLevel::off};
  Listener listener_;
  std::thread thread_;
};

/// One connection. Keeps answers and notices as Protobuf text, in the order in which they arrive.
class Client {
public:
  explicit Client(const Running& server, const std::optional<core::Key>& key = std::nullopt)
      : Client(server.address(), key) {}
  explicit Client(const transport::HostPort& server,
                  const std::optional<core::Key>& key = std::nullopt)
      : connection_(
            std::make_unique<transport::ControlConnection>(server, handlers(), soon(), key)) {}

  void send(const std::string& text) {
    wire::ToServer message;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
    send_raw(message.SerializeAsString());
  }
  void send_raw(const std::string& payload) {
    const auto* begin = reinterpret_cast<const std::byte*>(payload.data());
    connection_->send({begin, begin + payload.size()});
  }
  /// Waits for at least `count` answers, and returns all that have arrived.
  std::vector<std::string> answers(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(60), [&] { return answers_.size() >= count; });
    return answers_;
  }
  std::string answer(std::size_t number) {
    const auto all = answers(number + 1);
    return all.size() > number ? all[number] : "no answer in time";
  }
  bool is_closed_soon() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(60), [&] { return closed_; });
  }
  /// Waits for the end of the connection, and returns why the key was refused; empty if it was not.
  std::string refusal() {
    EXPECT_TRUE(is_closed_soon());
    const auto refusal = connection_->refusal();
    return refusal ? refusal->what() : "";
  }
  void beat(double seconds) { connection_->repeat_timer(seconds); }
  void close() { connection_->close(soon()); }

private:
  static Deadline soon() { return Deadline::after(60); }
  transport::ControlConnection::Handlers handlers() {
    return {.on_frame =
                [this](core::Bytes payload) {
                  const std::lock_guard lock(mutex_);
                  answers_.push_back(proto::parse_to_client(payload).ShortDebugString());
                  changed_.notify_all();
                },
            .on_closed =
                [this](const std::string&) {
                  const std::lock_guard lock(mutex_);
                  closed_ = true;
                  changed_.notify_all();
                },
            .on_timer = [this] { send("heartbeat {}"); }};
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> answers_;
  bool closed_ = false;
  std::unique_ptr<transport::ControlConnection> connection_;
};

std::string hello(const std::string& group, int rank, int size, double silence = 0) {
  return fmt::format(
      "request: 1 hello {{ protocol: 2 group: '{}' rank: {} size: {} job: 'j' host: 'h' pid: 5 "
      "version: '0.1' silence_seconds: {} }}",
      group, rank, size, silence);
}
std::string welcome(const std::string& heartbeat = "10") {
  return "request: 1 welcome { version: \"0.1\" heartbeat_seconds: " + heartbeat + " }";
}
std::string error_of(const auto& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::invalid_argument);
    return error.what();
  }
  return "no error";
}

TEST(Listener, LinksAProducerAndAConsumer) {
  Running server;
  Client ocean(server), viewer(server);
  ocean.send(hello("ocean", 0, 1));
  viewer.send(hello("viewer", 0, 1));
  EXPECT_EQ(ocean.answer(0), welcome());
  EXPECT_EQ(viewer.answer(0), welcome());
  const std::string what =
      "{ stream: 's' fields { name: 'u' element_type: 10 layout: 'shape=8 grid=1' } offers { "
      "transport: 't' offer: 'tcp' } incarnation: 1 ";
  viewer.send("request: 2 presence { is_present: true }");
  viewer.send("request: 2 subscribe " + what + "}");
  ocean.send("request: 2 announce " + what + " queue_depth: 1 }");
  EXPECT_EQ(ocean.answer(1), "request: 2 done { }");
  EXPECT_EQ(ocean.answer(2), "awaited { }");
  ocean.send("request: 2 presence { is_present: true }");
  EXPECT_EQ(ocean.answer(4).find("matched { link: 1 "), 0u) << ocean.answer(4);
  EXPECT_EQ(viewer.answer(3).find("matched { link: 1 "), 0u) << viewer.answer(3);
  ocean.send("request: 3 link_addresses { link: 1 addresses: 'there' }");
  EXPECT_EQ(viewer.answer(4), "link_addresses { link: 1 addresses: \"there\" }");
  viewer.send("request: 3 goodbye {}");
  EXPECT_EQ(viewer.answer(5), "request: 3 done { }");
  viewer.close();
  EXPECT_EQ(ocean.answer(6), "link_closed { link: 1 why: \"consumer \\'viewer\\' has left\" }");
}

TEST(Listener, AnswersABadMessageAndKeepsRunning) {
  Running server;
  Client good(server);
  good.send(hello("good", 0, 1));
  const struct {
    std::string payload, answer;
  } rows[] = {
      {std::string("\xff\xff\xff", 3),
       "refused { code: -4 text: \"message to the server: expected a message of this protocol, "
       "found 3 other bytes\" }"},
      {"",
       "refused { code: -4 text: \"message to the server: expected one of the bodies that this "
       "version knows, found none of "
       "them\" }"},
      {[] {
         wire::ToServer bad;
         bad.set_request(77);
         bad.mutable_share();
         return bad.SerializeAsString();
       }(),
       "request: 77 refused { code: -4 text: \"Share.round: expected 1 to 18446744073709551615, "
       "found 0\" }"},
  };
  for (const auto& row : rows) {
    Client bad(server);
    bad.send_raw(row.payload);
    EXPECT_EQ(bad.answer(0), row.answer);
    EXPECT_TRUE(bad.is_closed_soon());
  }
  good.send("request: 2 unsubscribe { stream: 's' }");
  EXPECT_EQ(good.answer(1), "request: 2 done { }");
}

TEST(Listener, IgnoresInputAfterABadMessage) {
  Running server;
  Client bad(server);
  bad.send_raw("\xff");
  bad.send("request: 1 status {}");
  EXPECT_TRUE(bad.is_closed_soon());
  EXPECT_EQ(bad.answers(1).size(), 1u);
}

TEST(Listener, LosesTheGroupOfABadMessage) {
  Running server;
  Client first(server), second(server);
  first.send(hello("g", 0, 2));
  second.send(hello("g", 1, 2));
  EXPECT_EQ(first.answer(0), welcome());
  EXPECT_EQ(second.answer(0), welcome());
  second.send_raw("\xff");
  EXPECT_NE(first.answer(1).find("group_lost { group: \"g\" rank: 1 why: \"rank 1 of group \\'g\\' "
                                 "on host h, pid 5, closed its "
                                 "connection without goodbye (it sent a bad message: "),
            std::string::npos)
      << first.answer(1);
}

TEST(Listener, ReportsThatAConnectionWasCut) {
  Running server;
  Client first(server);
  first.send(hello("g", 0, 2));
  EXPECT_EQ(first.answer(0), welcome());  // the first has joined before the second leaves
  {
    Client second(server);
    second.send(hello("g", 1, 2));
    EXPECT_EQ(second.answer(0), welcome());
  }
  EXPECT_EQ(first.answer(1),
            "group_lost { group: \"g\" rank: 1 why: \"rank 1 of group \\'g\\' on host h, pid 5, "
            "closed its connection without "
            "goodbye (the other side closed the connection)\" }");
}

TEST(Listener, LosesASilentRankAndKeepsTheOthers) {
  Running server(0.5);
  Client beating(server), silent(server), other(server);
  beating.send(hello("g", 0, 2));
  EXPECT_EQ(beating.answer(0), welcome("0.5"));
  beating.beat(0.05);
  other.send(hello("other", 0, 1));
  EXPECT_EQ(other.answer(0), welcome("0.5"));
  other.beat(0.05);
  silent.send(hello("g", 1, 2, 2));
  EXPECT_EQ(silent.answer(0), welcome("0.5"));
  EXPECT_NE(
      beating.answer(1).find("rank 1 of group \\'g\\' on host h, pid 5, has been silent for "),
      std::string::npos)
      << beating.answer(1);
  EXPECT_NE(silent.answer(1).find("group_lost"), std::string::npos);
  EXPECT_TRUE(silent.is_closed_soon());
  other.send("request: 2 status {}");
  EXPECT_NE(other.answer(1).find("name: \"other\" size: 1 connected: 1"), std::string::npos)
      << other.answer(1);
  EXPECT_EQ(other.answer(1).find("name: \"g\""), std::string::npos);
}

TEST(Listener, GivesUpStrangersThatSayNothing) {
  Running server(1, {.stranger_seconds = 0.1});
  Client stranger(server), member(server);
  stranger.send("request: 1 status {}");
  member.send(hello("g", 0, 1));
  member.beat(0.02);
  EXPECT_TRUE(stranger.is_closed_soon());
  member.send("request: 2 goodbye {}");
  EXPECT_EQ(member.answer(1), "request: 2 done { }");
}

/// Returns a connected socket; -1 if it cannot connect.
/// @param unread_bytes  size of the receive buffer; 0: as the system chooses
int raw_connection(const transport::HostPort& server, int unread_bytes = 0) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(server.port);
  if (unread_bytes > 0) ::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &unread_bytes, sizeof unread_bytes);
  if (fd < 0 || ::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
    return -1;
  const timeval limit{10, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  return fd;
}

int raw_connection(const Running& server) { return raw_connection(server.address()); }
const core::Key& key() {
  static const core::Key one("the key of this server", "test");
  return one;
}

/// A connection that sends any bytes, including those that no client of ours sends.
class Stranger {
public:
  explicit Stranger(const Running& server) : fd_(raw_connection(server)) { EXPECT_GE(fd_, 0); }
  ~Stranger() { ::close(fd_); }
  void send(core::BytesView payload) {
    const auto prefix = transport::frame_prefix(payload.size());
    send_raw({reinterpret_cast<const char*>(prefix.data()), prefix.size()});
    send_raw({reinterpret_cast<const char*>(payload.data()), payload.size()});
  }
  void send_raw(const std::string& bytes) { ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  /// Waits, and returns whether the server has closed the connection and sent nothing before.
  bool is_closed_soon() {
    char byte = 0;
    const auto count = ::recv(fd_, &byte, 1, 0);
    return count == 0 || (count < 0 && errno == ECONNRESET);  // reset: the server left bytes unread
  }
  /// Returns the next payload; empty if there is none.
  core::Bytes receive() {
    transport::FramePrefix prefix{};
    if (::recv(fd_, prefix.data(), prefix.size(), MSG_WAITALL) != std::ssize(prefix)) return {};
    core::Bytes payload(transport::frame_payload_bytes(prefix));
    ::recv(fd_, payload.data(), payload.size(), MSG_WAITALL);
    return payload;
  }

private:
  int fd_;
};

/// Checks that the server serves a client with its key, and knows no group of that name.
void expect_alone(const Running& server, const std::string& name) {
  Client friendly(server, key());
  friendly.send("request: 1 status {}");
  const std::string status = friendly.answer(0);
  EXPECT_NE(status.find("status"), std::string::npos) << status;
  EXPECT_EQ(status.find("name: \"" + name + "\""), std::string::npos) << status;
}

TEST(ListenerWithAKey, ServesClientsThatHaveIt) {
  Running server(10, {}, key());
  Client ocean(server, key());
  ocean.send(hello("ocean", 0, 1));
  EXPECT_EQ(ocean.answer(0), welcome());
  ocean.send("request: 2 unsubscribe { stream: '" + std::string(250, 's') + "' }");
  EXPECT_EQ(ocean.answer(1), "request: 2 done { }");
  // Frames may be long again: the server answers instead of closing the connection.
  ocean.send_raw(std::string(100'000, '\xff'));
  EXPECT_EQ(ocean.answer(2).find("refused { code: -4"), 0u) << ocean.answer(2);
}

TEST(ListenerWithAKey, AdmitsNoStranger) {
  Running server(10, {}, key());
  Client none(server), other(server, core::Key("the key of another server", "test"));
  for (Client* client : {&none, &other}) client->send(hello("ocean", 0, 1));
  EXPECT_NE(none.refusal().find("the server asks for a key, and this process has none"),
            std::string::npos)
      << none.refusal();
  EXPECT_NE(other.refusal().find("the server has a different key than this process"),
            std::string::npos)
      << other.refusal();
  EXPECT_TRUE(none.answers(0).empty());
  EXPECT_TRUE(other.answers(0).empty());
  expect_alone(server, "ocean");
}

TEST(ListenerWithAKey, LetsNoMessageOfAStrangerReachTheDecoder) {
  Running server(10, {}, key());
  // Bytes that are not a message do not reach the decoder, which would answer with its own message.
  Stranger stranger(server);
  const core::Bytes bad(3, std::byte{0xff});
  stranger.send(bad);
  const core::Bytes answer = stranger.receive();
  EXPECT_TRUE(transport::is_of_exchange(answer));
  EXPECT_EQ(transport::error_of_refusal(answer).code(), Errc::refused);
  EXPECT_TRUE(stranger.is_closed_soon());
  // Nor does a message that follows an opening.
  Stranger other(server);
  other.send(transport::ClientExchange(key()).opening());
  EXPECT_FALSE(other.receive().empty());
  wire::ToServer message;
  google::protobuf::TextFormat::ParseFromString(hello("ocean", 0, 1), &message);
  other.send(proto::serialise(message));
  EXPECT_TRUE(transport::is_of_exchange(other.receive()));
  EXPECT_TRUE(other.is_closed_soon());
  expect_alone(server, "ocean");
}

TEST(ListenerWithAKey, RefusesAProofOfAnotherSession) {
  Running server(10, {}, key());
  Stranger member(server), stranger(server);
  transport::ClientExchange exchange(key());
  const core::Bytes opening = exchange.opening();
  member.send(opening);
  const core::Bytes proof = exchange.receive(member.receive()).reply;
  stranger.send(opening);  // the same opening on both connections
  EXPECT_FALSE(stranger.receive().empty());
  stranger.send(proof);
  EXPECT_EQ(transport::error_of_refusal(stranger.receive()).code(), Errc::refused);
  EXPECT_TRUE(stranger.is_closed_soon());
  member.send(proof);
  EXPECT_TRUE(exchange.receive(member.receive()).is_done);
}

TEST(ListenerWithAKey, GivesUpAnExchangeThatDoesNotEnd) {
  Running server(0.1, {.exchange_seconds = 0.2}, key());
  Client member(server, key());
  member.send("request: 1 status {}");
  EXPECT_EQ(member.answers(1).size(), 1u);
  Stranger silent(server), half(server), slow(server);
  half.send(transport::ClientExchange(key()).opening());
  EXPECT_FALSE(half.receive().empty());
  // A slow stream of bytes does not extend the time.
  std::thread dripping([&] {
    slow.send_raw(std::string("\x29\0\0\0", 4));
    for (int i = 0; i < 40; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      slow.send_raw("x");
    }
  });
  EXPECT_TRUE(silent.is_closed_soon());
  EXPECT_TRUE(half.is_closed_soon());
  EXPECT_TRUE(slow.is_closed_soon());
  dripping.join();
  member.send("request: 2 status {}");  // a client that has proved the key may take its time
  EXPECT_EQ(member.answers(2).size(), 2u);
}

TEST(ListenerWithAKey, RefusesALongFrameOfAStranger) {
  Running server(10, {}, key());
  for (const std::string& prefix : {std::string("\x01\x04\0\0", 4), std::string("\0\0\0\x01", 4),
                                    std::string("\xff\xff\xff\xff", 4)}) {
    Stranger stranger(server);
    stranger.send_raw(prefix);
    EXPECT_TRUE(stranger.is_closed_soon());
  }
  expect_alone(server, "ocean");
}

TEST(Listener, IsRefusedByClientsIfItHasNoKey) {
  Running server;
  Client client(server, key());
  client.send(hello("ocean", 0, 1));
  EXPECT_NE(client.refusal().find("found one that was started with --key-file none"),
            std::string::npos)
      << client.refusal();
  Client plain(server);
  plain.send(hello("ocean", 0, 1));
  EXPECT_EQ(plain.answer(0), welcome());
}

TEST(Listener, ListensOutwardOnlyWithAKeyOrIfAllowed) {
  const core::Log log("server", core::LogLevel::off);
  Config config;
  config.port = 0;
  for (const char* bind : {"0.0.0.0", "::", "192.0.2.1"}) {
    config.bind = bind;
    const std::string text = error_of([&] { Listener(config, "0.1", log); });
    for (const char* part :
         {"without a key", "--key-file PATH", "TREMULA_KEY_FILE=PATH", "--key-file none"})
      EXPECT_NE(text.find(part), std::string::npos) << text;
  }
  config.bind = "0.0.0.0";
  config.keys = {key()};
  const Listener with_key(config, "0.1", log);
}

TEST(Listener, GivesUpFramesThatNeverEnd) {
  Running server(0.1, {.frame_seconds = 0.2});
  Client idle(server);
  idle.send("request: 1 status {}");
  EXPECT_EQ(idle.answers(1).size(), 1u);
  const int fd = raw_connection(server);
  ASSERT_GE(fd, 0);
  char byte = 0;
  ASSERT_EQ(::send(fd, "\x10\0\0\0half", 8, MSG_NOSIGNAL), 8);
  EXPECT_EQ(::recv(fd, &byte, 1, 0), 0);
  idle.send("request: 2 status {}");  // between two frames a client may take its time
  EXPECT_EQ(idle.answers(2).size(), 2u);
  ::close(fd);
}

std::string frame(const std::string& payload) {
  std::string out;
  for (int i = 0; i < 4; ++i) out += static_cast<char>(payload.size() >> (8 * i) & 0xff);
  return out + payload;
}
std::string frame_of(const std::string& text) {
  wire::ToServer message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return frame(message.SerializeAsString());
}
bool send_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}
wire::ServerLoad load_of(const Running& server) {
  Client client(server);
  client.send("request: 1 status {}");
  wire::ToClient answer;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(client.answer(0), &answer));
  return answer.status().load();
}
bool is_true_soon(const auto& condition) {
  const Deadline deadline = Deadline::after(120);
  while (!deadline.expired()) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

/// A connection that sends requests as long as the server accepts them, and reads no answer. The answers are a thousand
/// times as long as the requests: they contain one long layout, because many short ones take the server too long.
class ClientThatDoesNotRead {
public:
  explicit ClientThatDoesNotRead(const Running& server) : other_(server) {
    other_.send(hello("other", 0, 1));
    std::string bounds = "0", owners = "0";
    for (int i = 1; i <= 8000; ++i) bounds += fmt::format("/{}", 2 * i);
    for (int i = 1; i < 8000; ++i) owners += "/0";
    other_.send(fmt::format(
        "request: 2 announce {{ stream: 's' incarnation: 1 fields {{ name: 'u' element_type: 10 "
        "layout: 'shape=16000 grid=1 splits0={} owners0={}' }} offers {{ transport: 't' offer: "
        "'tcp' }} }}",
        bounds, owners));
    fd_ = raw_connection(server.address(), 4 << 10);
    EXPECT_GE(fd_, 0);
    sender_ = std::thread([this] {
      std::string many;
      for (int i = 0; i < 10'000; ++i) many += frame_of("request: 1 status {}");
      while (send_all(fd_, many)) {
      }
    });
  }
  ~ClientThatDoesNotRead() { end(); }
  /// Waits until the server has closed the connection.
  void wait_until_closed() { sender_.join(); }
  void end() {
    if (fd_ < 0) return;
    ::shutdown(fd_, SHUT_RDWR);
    if (sender_.joinable()) sender_.join();
    ::close(std::exchange(fd_, -1));
  }

private:
  Client other_;
  int fd_ = -1;
  std::thread sender_;
};

// The groups must not be lost meanwhile: without their stream the answers are short.
TEST(Listener, BuffersLittleForAClientThatDoesNotRead) {
  Running server(60, {.pause_bytes = 64 << 10});
  ClientThatDoesNotRead client(server);
  EXPECT_TRUE(is_true_soon([&] { return load_of(server).buffered_bytes() > (32 << 10); }));
  for (int i = 0; i < 20; ++i) EXPECT_LT(load_of(server).buffered_bytes(), 200u << 10);
  client.end();
  EXPECT_TRUE(is_true_soon([&] { return load_of(server).buffered_bytes() < (32 << 10); }));
}

TEST(Listener, ClosesAClientThatDoesNotRead) {
  Running server(60, {.stranger_seconds = 5, .pause_bytes = 64 << 10});
  ClientThatDoesNotRead client(server);
  client.wait_until_closed();
  EXPECT_TRUE(is_true_soon([&] { return load_of(server).buffered_bytes() < (32 << 10); }));
}

TEST(Listener, ServesOneMessageOfEachConnectionInTurn) {
  const core::Log log("server", core::LogLevel::off);
  Config config;
  config.port = 0;
  Listener listener(config, "0.1", log);
  // All bytes of both clients have been sent before the server begins.
  constexpr std::uint64_t count = 2000;
  const int loud = raw_connection(listener.address());
  ASSERT_GE(loud, 0);
  std::string many =
      frame_of(hello("loud", 0, 1)) +
      frame_of(
          "request: 2 announce { stream: 's' incarnation: 1 fields { name: 'u' element_type: "
          "10 layout: 'shape=8 grid=1' } offers { transport: 't' offer: 'tcp' } }");
  for (std::uint64_t i = 1; i <= count; ++i)
    many += frame_of(fmt::format("heartbeat {{ counters {{ stream: 's' steps: {} }} }}", i));
  ASSERT_TRUE(send_all(loud, many));
  const int other = raw_connection(listener.address());
  ASSERT_TRUE(send_all(other, frame_of("request: 1 status {}")));
  std::thread server([&] { listener.run(); });
  std::array<unsigned char, 4> prefix{};
  ASSERT_EQ(::recv(other, prefix.data(), prefix.size(), MSG_WAITALL), 4);
  std::string payload(prefix[0] + 256u * prefix[1], '\0');
  ASSERT_EQ(::recv(other, payload.data(), payload.size(), MSG_WAITALL),
            static_cast<ssize_t>(payload.size()));
  listener.stop();
  server.join();
  const wire::Status status = proto::parse_to_client(std::as_bytes(std::span(payload))).status();
  const std::uint64_t steps = status.streams().empty() ? 0 : status.streams(0).produced().steps();
  EXPECT_LT(steps, count / 10);
  ::close(loud);
  ::close(other);
}

const std::string status_request = "request: 2 status {}";

// The first status has been served when its answer arrives; no other status is served in this test.
TEST(Listener, DelaysStatusesAndServesEverythingElse) {
  const Running server(0.05, {.hello_seconds = 0.5, .stranger_seconds = 0.5, .status_rest = 1e15});
  Client first(server);
  first.send(status_request);
  ASSERT_EQ(first.answers(1).size(), 1u);
  Client member(server), other(server),
      stranger(server);  // each has half a second for its first message
  member.send(hello("held", 0, 2, 0.5));
  other.send(hello("held", 1, 2, 1000));
  ASSERT_EQ(member.answer(0), welcome("0.05"));
  ASSERT_EQ(other.answer(0), welcome("0.05"));
  member.send(status_request);
  stranger.send(status_request);
  for (int i = 0; i < 20; ++i) {  // for 1 s: neither the rank nor the stranger counts as silent
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    Client late(server);
    late.send(hello("late" + std::to_string(i), 0, 1));
    ASSERT_EQ(late.answer(0), welcome("0.05"));
    late.send("request: 3 goodbye {}");
    ASSERT_EQ(late.answer(1), "request: 3 done { }");
  }
  EXPECT_EQ(member.answers(0).size(), 1u);
  EXPECT_EQ(stranger.answers(0).size(), 0u);
  EXPECT_EQ(other.answers(0).size(), 1u);  // the rank is not lost
}

TEST(Listener, ServesAllStatusesInTheEnd) {
  const Running server;
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 20; ++i) clients.push_back(std::make_unique<Client>(server));
  for (int asked = 0; asked < 5; ++asked)
    for (const auto& client : clients) client->send(status_request);
  clients.front()->send(hello("asks", 0, 1));
  for (const auto& client : clients) EXPECT_GE(client->answers(5).size(), 5u);
  EXPECT_EQ(clients.front()->answer(5), welcome());
}

TEST(Listener, SharesLongBytesOnceForAllRanks) {
  constexpr int ranks = 8;
  Running server;
  const std::string bytes(500'000, 'x');
  std::vector<std::unique_ptr<Client>> clients;
  for (int rank = 0; rank < ranks; ++rank) {
    clients.push_back(std::make_unique<Client>(server));
    clients.back()->send(hello("g", rank, ranks));
    clients.back()->send("request: 2 share { round: 1 bytes: '" + bytes + "' }");
  }
  std::string expected = "request: 2 shared {";
  for (int rank = 0; rank < ranks; ++rank) expected += " bytes: \"" + bytes + '"';
  for (const auto& client : clients) EXPECT_TRUE(client->answer(1) == expected + " }");
  EXPECT_TRUE(is_true_soon([&] { return load_of(server).buffered_bytes() == 0; }));
  EXPECT_EQ(load_of(server).held_bytes(), 0u);
}

TEST(Listener, TakesNoLongFrameFromAStranger) {
  Running server;
  Client stranger(server);
  stranger.send_raw(std::string(70'000, 'x'));
  EXPECT_EQ(stranger.answer(0),
            "refused { code: -7 text: \"control frame: expected at most 65536 bytes from this "
            "connection at this moment, found 70000\" }");
  EXPECT_TRUE(stranger.is_closed_soon());
}

TEST(Listener, ClosesTheConnectionWithTheMostUnfinishedBytes) {
  constexpr std::size_t megabyte = 1 << 20;
  Running server(10, {.buffered_bytes = 10 * megabyte});
  Client good(server);
  good.send(hello("good", 0, 1));
  EXPECT_EQ(good.answer(0), welcome());
  std::vector<int> bad;
  for (int i = 0; i < 20; ++i) {
    bad.push_back(raw_connection(server));
    ASSERT_GE(bad.back(), 0);
    // The prefix announces 16 MiB; only 1 MiB follows.
    send_all(bad.back(), frame_of(hello(fmt::format("bad{}", i), 0, 1)) +
                             std::string("\0\0\0\1", 4) + std::string(megabyte, 'x'));
    EXPECT_LE(load_of(server).buffered_bytes(), 10 * megabyte);
  }
  EXPECT_TRUE(is_true_soon([&] { return load_of(server).sessions() < 13; }));
  good.send("request: 2 unsubscribe { stream: 's' }");
  EXPECT_EQ(good.answer(1), "request: 2 done { }");
  for (const int fd : bad) ::close(fd);
}

TEST(Listener, ClosesConnectionsThatHaveNotSaidHello) {
  Running server(1, {.hello_seconds = 0.5});
  const int silent = raw_connection(server), slow = raw_connection(server);
  Client member(server);
  member.send(hello("g", 0, 1));
  member.beat(0.05);
  EXPECT_EQ(::send(slow, "\x10\0\0\0", 4, MSG_NOSIGNAL), 4);
  char byte = 0;
  EXPECT_EQ(::recv(silent, &byte, 1, 0), 0);
  EXPECT_EQ(::recv(slow, &byte, 1, 0), 0);
  member.send("request: 2 unsubscribe { stream: 's' }");
  EXPECT_EQ(member.answer(1), "request: 2 done { }");
  ::close(silent);
  ::close(slow);
}

TEST(Listener, AdmitsMembersDespiteIdleStrangers) {
  constexpr std::size_t places = 32;
  Running server(10, {.connections = places});
  std::vector<int> idle;
  std::vector<std::unique_ptr<Client>> members;
  for (int i = 0; i < 10; ++i) {
    for (int k = 0; k < 40; ++k) idle.push_back(raw_connection(server));
    members.push_back(std::make_unique<Client>(server));
    members.back()->send(hello(fmt::format("g{}", i), 0, 1));
    EXPECT_EQ(members.back()->answer(0), welcome());
  }
  const wire::ServerLoad load = load_of(server);
  EXPECT_EQ(load.sessions(), 10u);
  EXPECT_EQ(load.max_connections(), places);
  EXPECT_LE(load.connections(), places);
  for (const auto& member : members) {
    member->send("request: 2 unsubscribe { stream: 's' }");
    EXPECT_EQ(member->answer(1), "request: 2 done { }");
  }
  for (const int fd : idle) ::close(fd);
}

TEST(Listener, RefusesSessionsBeyondTheLimitOfAHost) {
  Running server(10, {.connections_per_host = 2});
  Client first(server), second(server), third(server);
  first.send(hello("g", 0, 3));
  second.send(hello("g", 1, 3));
  EXPECT_EQ(first.answer(0), welcome());
  EXPECT_EQ(second.answer(0), welcome());
  third.send(hello("g", 2, 3));
  EXPECT_EQ(third.answer(0),
            "request: 1 refused { code: -7 text: \"host 127.0.0.1 has 2 sessions at the server, "
            "expected at most 2; give \\'tremula serve\\' a larger --connections-per-host, or end "
            "some of these sessions\" }");
  EXPECT_TRUE(third.is_closed_soon());
}

#if !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)  // sanitizers end a process that has no memory left
/// Runs a server in a separate process, which gets 100 MiB more memory than it has at its start. The
/// server must still be running afterwards.
TEST(Listener, EndsOnlyAConnectionIfMemoryRunsOut) {
  int port_pipe[2] = {-1, -1};
  ASSERT_EQ(::pipe(port_pipe), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const core::Log log("server", core::LogLevel::off);
    Config config;
    config.port = 0;
    Listener listener(config, "0.1", log);
    std::ifstream statm("/proc/self/statm");
    rlim_t pages = 0;
    statm >> pages;
    const rlim_t bytes = pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + (100 << 20);
    const rlimit limit{bytes, bytes};
    ::setrlimit(RLIMIT_AS, &limit);
    const std::uint16_t port = listener.address().port;
    if (::write(port_pipe[1], &port, sizeof port) != sizeof port) ::_exit(3);
    listener.run();
    ::_exit(0);
  }
  std::uint16_t port = 0;
  ASSERT_EQ(::read(port_pipe[0], &port, sizeof port), static_cast<ssize_t>(sizeof port));
  const transport::HostPort address{"127.0.0.1", port};
  Client good(address);
  good.send(hello("good", 0, 1));
  EXPECT_EQ(good.answer(0), welcome("1"));
  good.beat(0.2);
  std::vector<int> bad;
  for (int i = 0; i < 30; ++i) {  // each leaves 15 MB unfinished
    bad.push_back(raw_connection(address));
    ASSERT_GE(bad.back(), 0);
    send_all(bad.back(), frame_of(hello(fmt::format("bad{}", i), 0, 1)) +
                             std::string("\0\0\0\1", 4) + std::string(15'000'000, 'x'));
  }
  good.send("request: 2 unsubscribe { stream: 's' }");
  EXPECT_EQ(good.answer(1), "request: 2 done { }");
  EXPECT_EQ(::waitpid(child, nullptr, WNOHANG), 0) << "the server has ended";
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  for (const int fd : bad) ::close(fd);
  for (const int fd : port_pipe) ::close(fd);
}
#endif

TEST(Listener, SendsALongStatusInSeveralFrames) {
  Running server;
  Client client(server);
  client.send(hello("g", 0, 1));
  std::string bounds = "0", owners = "0";
  for (int i = 1; i <= 80'000; ++i) bounds += fmt::format("/{}", 2 * i);
  for (int i = 1; i < 80'000; ++i) owners += "/0";
  for (int i = 0; i < 30; ++i)
    client.send(fmt::format(
        "request: 2 announce {{ stream: 's{}' incarnation: 1 fields {{ name: 'u' element_type: 10 "
        "layout: 'shape=160000 grid=1 splits0={} owners0={}' }} offers {{ transport: 't' offer: "
        "'tcp' }} }}",
        i, bounds, owners));
  EXPECT_EQ(client.answer(30), "request: 2 done { }");
  std::set<std::string> streams;
  std::size_t bytes = 0;
  wire::ToServer request;
  request.set_request(3);
  request.mutable_status();
  for (std::size_t answer = 31;; ++answer) {
    client.send_raw(request.SerializeAsString());
    wire::ToClient page;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(client.answer(answer), &page));
    bytes += page.ByteSizeLong();
    for (const auto& stream : page.status().streams()) {
      EXPECT_EQ(stream.fields_size(), 1);
      streams.insert(stream.name());
    }
    if (!page.has_next_status()) break;
    *request.mutable_status()->mutable_from() = page.next_status();
  }
  EXPECT_EQ(streams.size(), 30u);
  EXPECT_GT(bytes, proto::max_message_bytes);
}

TEST(Listener, StopsInOrderWithConnectionsOpen) {
  Running server;
  Client client(server);
  client.send(hello("g", 0, 1));
  EXPECT_EQ(client.answer(0), welcome());
  const Deadline limit = Deadline::after(5);
  server.stop();
  EXPECT_FALSE(limit.expired());
  EXPECT_TRUE(client.is_closed_soon());
  EXPECT_EQ(client.answers(1).size(), 1u);  // no rank was declared lost
}

TEST(Listener, HoldsTenThousandIdleConnections) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = limit.rlim_max;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlim_t count =
      std::min<rlim_t>(10'000, (limit.rlim_max - 200) / 2);  // both ends are in this process
  Running server;
  std::vector<int> connections;
  for (rlim_t i = 0; i < count; ++i) {
    connections.push_back(raw_connection(server));
    ASSERT_GE(connections.back(), 0) << "after " << i << " connections";
  }
  Client client(server);
  client.send("request: 1 status {}");
  EXPECT_NE(client.answer(0).find("status"), std::string::npos);
  for (const int fd : connections) ::close(fd);
  client.send("request: 2 status {}");
  EXPECT_NE(client.answer(1).find("status"), std::string::npos);
}

TEST(Listener, SaysWhyItCannotListen) {
  Running server;
  const core::Log log("server", core::LogLevel::off);
  Config config;
  config.port = server.address().port;
  EXPECT_EQ(error_of([&] { Listener(config, "0.1", log); }),
            fmt::format("cannot listen on 127.0.0.1:{}: Address already in use; another program "
                        "listens there; choose another "
                        "--port (0 = any free one) or stop that program",
                        config.port));
  config.port = 0;
  config.keys = {key()};
  config.bind = "192.0.2.1";  // reserved for documentation: no host has it
  EXPECT_EQ(error_of([&] { Listener(config, "0.1", log); }),
            "cannot listen on 192.0.2.1:0: Cannot assign requested address; --bind must be an "
            "address of this host; 0.0.0.0 "
            "means all of them");
}

TEST(Listener, LeavesNoFileBehindIfItCannotListen) {
  const core::TemporaryFolder folder;
  const core::Log log("server", core::LogLevel::off);
  Config config;
  config.port = 0;
  config.port_file = folder.path() / "port";
  config.key_source.key = key();
  Config with_key = config;
  with_key.keys = {key()};
  refuses_to_listen = true;  // e.g. because another program has begun to since the port was bound
  const bool is_replaced = error_of([&] { Listener(with_key, "0.1", log); }) != "no error";
  // Without the replacement, serve() would not return.
  const std::string text = is_replaced ? error_of([&] { serve(config, "0.1", log); }) : "";
  refuses_to_listen = false;
  if (!is_replaced) GTEST_SKIP() << "the program cannot replace listen() here";
  EXPECT_NE(text.find("cannot listen on "), std::string::npos) << text;
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Listener, NamesItsOutwardAddress) {
  const core::Log log("server", core::LogLevel::off);
  Config config;
  config.port = 0;
  config.bind = "0.0.0.0";
  config.key_source.file = "none";
  const auto outward = transport::outward_interface(transport::interfaces());
  const Listener everywhere(config, "0.1", log);
  EXPECT_EQ(everywhere.address().host, outward ? outward->address : "127.0.0.1");
  EXPECT_EQ(everywhere.is_outward(), outward.has_value());
  config.bind = "127.0.0.1";
  const Listener here(config, "0.1", log);
  EXPECT_EQ(here.address().host, "127.0.0.1");
  EXPECT_FALSE(here.is_outward());
}

}  // namespace
}  // namespace tremula::server
