// SPDX-License-Identifier: Apache-2.0
// A real server on a free port of this host, spoken to over TCP.
#include "server/listener.hpp"

#include <fmt/format.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/error.hpp"
#include "proto/convert.hpp"
#include "transport/control/control_connection.hpp"
#include "transport/control/interfaces.hpp"

namespace tremula::server {
namespace {

using core::Deadline, core::Errc, core::Error;

/// A server in a thread of its own.
class Running {
public:
  explicit Running(double heartbeat_seconds = 10, Listener::Limits limits = {})
      : listener_(config(heartbeat_seconds), "0.1", log_, limits),
        thread_([this] { listener_.run(); }) {}
  ~Running() { stop(); }
  void stop() {
    if (!thread_.joinable()) return;
    listener_.stop();
    thread_.join();
  }
  transport::HostPort address() const { return listener_.address(); }

private:
  static Config config(double heartbeat_seconds) {
    Config out;
    out.port = 0;
    out.heartbeat_seconds = heartbeat_seconds;
    return out;
  }
  core::Log log_{"server", core::LogLevel::off};
  Listener listener_;
  std::thread thread_;
};

/// One connection; answers and notices as Protobuf text, in the order in which they came.
class Client {
public:
  explicit Client(const Running& server)
      : connection_(
            std::make_unique<transport::ControlConnection>(server.address(), handlers(), soon())) {}

  void tell(const std::string& text) {
    wire::ToServer message;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
    send_raw(message.SerializeAsString());
  }
  void send_raw(const std::string& payload) {
    const auto* begin = reinterpret_cast<const std::byte*>(payload.data());
    connection_->send({begin, begin + payload.size()});
  }
  /// Waits for at least `count` answers.
  std::vector<std::string> answers(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(10), [&] { return answers_.size() >= count; });
    return answers_;
  }
  std::string answer(std::size_t number) {
    const auto all = answers(number + 1);
    return all.size() > number ? all[number] : "no answer in time";
  }
  bool is_closed_soon() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(10), [&] { return closed_; });
  }
  void beat(double seconds) { connection_->repeat_timer(seconds); }
  void close() { connection_->close(soon()); }

private:
  static Deadline soon() { return Deadline::after(10); }
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
            .on_timer = [this] { tell("heartbeat {}"); }};
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> answers_;
  bool closed_ = false;
  std::unique_ptr<transport::ControlConnection> connection_;
};

std::string hello(const std::string& group, int rank, int size) {
  return fmt::format(
      "request: 1 hello {{ protocol: 1 group: '{}' rank: {} size: {} job: 'j' host: 'h' pid: 5 "
      "version: '0.1' }}",
      group, rank, size);
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
  ocean.tell(hello("ocean", 0, 1));
  viewer.tell(hello("viewer", 0, 1));
  EXPECT_EQ(ocean.answer(0), welcome());
  EXPECT_EQ(viewer.answer(0), welcome());
  const std::string what =
      "{ stream: 's' fields { name: 'u' element_type: 10 layout: 'shape=8 grid=1' } offers { "
      "transport: 't' offer: 'tcp' } incarnation: 1 ";
  viewer.tell("request: 2 presence { is_present: true }");
  viewer.tell("request: 2 subscribe " + what + "}");
  ocean.tell("request: 2 announce " + what + " queue_depth: 1 }");
  EXPECT_EQ(ocean.answer(1), "request: 2 done { }");
  EXPECT_EQ(ocean.answer(2), "awaited { }");
  ocean.tell("request: 2 presence { is_present: true }");
  EXPECT_EQ(ocean.answer(4).find("matched { link: 1 "), 0u) << ocean.answer(4);
  EXPECT_EQ(viewer.answer(3).find("matched { link: 1 "), 0u) << viewer.answer(3);
  ocean.tell("request: 3 link_addresses { link: 1 addresses: 'there' }");
  EXPECT_EQ(viewer.answer(4), "link_addresses { link: 1 addresses: \"there\" }");
  viewer.tell("request: 3 goodbye {}");
  EXPECT_EQ(viewer.answer(5), "request: 3 done { }");
  viewer.close();
  EXPECT_EQ(ocean.answer(6), "link_closed { link: 1 why: \"consumer \\'viewer\\' has left\" }");
}

TEST(Listener, AnswersBadMessagesClosesAndLivesOn) {
  Running server;
  Client good(server);
  good.tell(hello("good", 0, 1));
  const struct {
    std::string payload, answer;
  } rows[] = {
      {std::string("\xff\xff\xff", 3),
       "refused { code: -4 text: \"message to the server: expected a message of this protocol, "
       "found 3 bytes that are none\" }"},
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
  good.tell("request: 2 unsubscribe { stream: 's' }");
  EXPECT_EQ(good.answer(1), "request: 2 done { }");
}

TEST(Listener, TakesNothingInAfterABadMessage) {
  Running server;
  Client bad(server);
  bad.send_raw("\xff");
  bad.tell("request: 1 status {}");
  EXPECT_TRUE(bad.is_closed_soon());
  EXPECT_EQ(bad.answers(1).size(), 1u);
}

TEST(Listener, LosesTheGroupOfABadMessage) {
  Running server;
  Client first(server), second(server);
  first.tell(hello("g", 0, 2));
  second.tell(hello("g", 1, 2));
  EXPECT_EQ(first.answer(0), welcome());
  EXPECT_EQ(second.answer(0), welcome());
  second.send_raw("\xff");
  EXPECT_NE(first.answer(1).find("group_lost { group: \"g\" rank: 1 why: \"rank 1 of group \\'g\\' "
                                 "on host h, pid 5, closed its "
                                 "connection without goodbye (it sent a bad message: "),
            std::string::npos)
      << first.answer(1);
}

TEST(Listener, TellsThatAConnectionWasCut) {
  Running server;
  Client first(server);
  first.tell(hello("g", 0, 2));
  EXPECT_EQ(first.answer(0), welcome());  // it is there before the other one is gone
  {
    Client second(server);
    second.tell(hello("g", 1, 2));
    EXPECT_EQ(second.answer(0), welcome());
  }
  EXPECT_EQ(first.answer(1),
            "group_lost { group: \"g\" rank: 1 why: \"rank 1 of group \\'g\\' on host h, pid 5, "
            "closed its connection without "
            "goodbye (the other side closed the connection)\" }");
}

TEST(Listener, LosesASilentRankAndKeepsTheOthers) {
  Running server(0.25);
  Client beating(server), silent(server), other(server);
  beating.tell(hello("g", 0, 2));
  EXPECT_EQ(beating.answer(0), welcome("0.25"));
  beating.beat(0.05);
  other.tell(hello("other", 0, 1));
  EXPECT_EQ(other.answer(0), welcome("0.25"));
  other.beat(0.05);
  silent.tell(hello("g", 1, 2));
  EXPECT_EQ(silent.answer(0), welcome("0.25"));
  EXPECT_NE(
      beating.answer(1).find("rank 1 of group \\'g\\' on host h, pid 5, has been silent for "),
      std::string::npos)
      << beating.answer(1);
  EXPECT_NE(silent.answer(1).find("group_lost"), std::string::npos);
  EXPECT_TRUE(silent.is_closed_soon());
  other.tell("request: 2 status {}");
  EXPECT_NE(other.answer(1).find("name: \"other\" size: 1 connected: 1"), std::string::npos)
      << other.answer(1);
  EXPECT_EQ(other.answer(1).find("name: \"g\""), std::string::npos);
}

TEST(Listener, GivesUpStrangersThatSayNothing) {
  Running server(0.1, {.stranger_seconds = 0.1});
  Client stranger(server), member(server);
  member.tell(hello("g", 0, 1));
  member.beat(0.02);
  EXPECT_TRUE(stranger.is_closed_soon());
  member.tell("request: 2 goodbye {}");
  EXPECT_EQ(member.answer(1), "request: 2 done { }");
}

int raw_connection(const Running& server) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(server.address().port);
  if (fd < 0 || ::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
    return -1;
  const timeval limit{10, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  return fd;
}

TEST(Listener, GivesUpFramesThatNeverEnd) {
  Running server(0.1, {.frame_seconds = 0.2});
  Client idle(server);
  idle.tell("request: 1 status {}");
  EXPECT_EQ(idle.answers(1).size(), 1u);
  const int fd = raw_connection(server);
  ASSERT_GE(fd, 0);
  char byte = 0;
  ASSERT_EQ(::send(fd, "\x10\0\0\0half", 8, MSG_NOSIGNAL), 8);
  EXPECT_EQ(::recv(fd, &byte, 1, 0), 0);
  idle.tell("request: 2 status {}");  // between two frames one may take one's time
  EXPECT_EQ(idle.answers(2).size(), 2u);
  ::close(fd);
}

TEST(Listener, GivesUpWhoDoesNotRead) {
  Running server(1, {.queued_bytes = 1 << 20});
  const int fd = raw_connection(server);
  ASSERT_GE(fd, 0);
  // The answer, a refusal for want of Hello, is ten times as long as the request.
  wire::ToServer message;
  message.set_request(1);
  message.mutable_unsubscribe()->set_stream("s");
  const std::string payload = message.SerializeAsString();
  std::string many;
  for (int i = 0; i < 10'000; ++i)
    many += std::string{static_cast<char>(payload.size()), '\0', '\0', '\0'} + payload;
  bool is_given_up = false;
  const Deadline deadline = Deadline::after(20);
  while (!is_given_up && !deadline.expired())
    is_given_up = ::send(fd, many.data(), many.size(), MSG_NOSIGNAL) < 0;
  EXPECT_TRUE(is_given_up);
  ::close(fd);
  Client other(server);
  other.tell("request: 1 status {}");
  EXPECT_NE(other.answer(0).find("status"), std::string::npos);
}

TEST(Listener, StopsInOrderWithConnectionsOpen) {
  Running server;
  Client client(server);
  client.tell(hello("g", 0, 1));
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
  client.tell("request: 1 status {}");
  EXPECT_NE(client.answer(0).find("status"), std::string::npos);
  for (const int fd : connections) ::close(fd);
  client.tell("request: 2 status {}");
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
  config.bind = "192.0.2.1";  // reserved for documentation, no host has it
  EXPECT_EQ(error_of([&] { Listener(config, "0.1", log); }),
            "cannot listen on 192.0.2.1:0: Cannot assign requested address; --bind must be an "
            "address of this host; 0.0.0.0 "
            "means all of them");
}

TEST(Listener, NamesTheAddressForOtherHostsWhenItListensOnAllAddresses) {
  const core::Log log("server", core::LogLevel::off);
  Config config;
  config.port = 0;
  config.bind = "0.0.0.0";
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
