// SPDX-License-Identifier: Apache-2.0
// Tests how a session communicates with a server that dies and is restarted.
#include "client/session/control.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "proto/convert.hpp"
#include "server/listener.hpp"
#include "tests/core/error_of.hpp"
#include "tests/transport/control/plain_server.hpp"
#include "transport/control/control_connection.hpp"
#include "transport/control/frame.hpp"

namespace tremula::client {
namespace {

using core::Deadline, core::Errc, core::Error, core::error_of;

constexpr double patience_seconds = 60;

/// A server on a separate thread.
class Served {
public:
  Served(std::uint32_t number, std::uint16_t port)
      : log_("server", core::LogLevel::off), listener_(config(number, port), "test", log_) {
    thread_ = std::thread([this] { listener_.run(); });
  }
  ~Served() {
    listener_.stop();
    thread_.join();
  }
  transport::HostPort address() const { return listener_.address(); }

private:
  static server::Config config(std::uint32_t number, std::uint16_t port) {
    server::Config c;
    c.port = port;
    c.number = number;
    return c;
  }
  core::Log log_;
  server::Listener listener_;
  std::thread thread_;
};

/// Returns the payload of the next frame; empty if none arrives in full.
std::string read_frame(transport::PlainServer& server) {
  const std::string prefix = server.read(transport::frame_prefix_bytes);
  if (prefix.size() < transport::frame_prefix_bytes) return {};
  transport::FramePrefix length;
  std::memcpy(length.data(), prefix.data(), prefix.size());
  return server.read(transport::frame_payload_bytes(length));
}

/// Sends a message as one frame.
void write(transport::PlainServer& server, const wire::ToClient& message) {
  const core::Bytes payload = proto::serialise(message);
  const transport::FramePrefix length = transport::frame_prefix(payload.size());
  std::string frame(length.size() + payload.size(), '\0');
  std::memcpy(frame.data(), length.data(), length.size());
  std::memcpy(frame.data() + length.size(), payload.data(), payload.size());
  server.write_if_there(frame);
}

/// Answers the Hello with a Welcome.
/// @param number  the server's number
void welcome(transport::PlainServer& server, std::uint64_t number, double heartbeat_seconds) {
  const std::string hello = read_frame(server);
  wire::ToClient answer;
  answer.set_request(proto::request_number(std::as_bytes(std::span(hello))));
  answer.mutable_welcome()->set_version("test");
  answer.mutable_welcome()->set_server(number);
  answer.mutable_welcome()->set_heartbeat_seconds(heartbeat_seconds);
  write(server, answer);
}

/// A server that answers each Hello with a Welcome, then ends the connection.
class ServerThatEnds {
public:
  ServerThatEnds() {
    thread_ = std::thread([this] { serve(); });
  }
  ~ServerThatEnds() {
    is_over_ = true;
    thread_.join();
  }
  std::string address() const { return to_string(server_.address()); }

private:
  void serve() {
    for (std::uint32_t number = 1; !is_over_; ++number) {
      if (server_.accept_within(10)) welcome(server_, number, 1);
      server_.drop();
    }
  }
  transport::PlainServer server_;
  std::atomic<bool> is_over_ = false;
  std::thread thread_;
};

/// A server that welcomes one session and records its messages, which it validates like a real server.
class ServerThatRecords {
public:
  ServerThatRecords() {
    thread_ = std::thread([this] {
      server_.accept();
      welcome(server_, 1, 3600);
      for (std::string frame; !(frame = read_frame(server_)).empty();) record(frame);
      const std::scoped_lock lock(mutex_);
      is_over_ = true;
      changed_.notify_all();
    });
  }
  ~ServerThatRecords() { thread_.join(); }
  std::string address() const { return to_string(server_.address()); }
  /// Waits for the next heartbeat and returns it; nullopt if the session has ended or sent an
  /// invalid message.
  std::optional<wire::Heartbeat> next_heartbeat() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_over_ || !heartbeats_.empty(); });
    if (heartbeats_.empty()) return std::nullopt;
    auto next = std::move(heartbeats_.front());
    heartbeats_.pop_front();
    return next;
  }

private:
  void record(const std::string& frame) {
    try {
      const auto message = proto::parse_to_server(std::as_bytes(std::span(frame)));
      if (!message.has_heartbeat()) return;
      const std::scoped_lock lock(mutex_);
      heartbeats_.push_back(message.heartbeat());
      changed_.notify_all();
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
      server_.drop();
    }
  }
  transport::PlainServer server_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<wire::Heartbeat> heartbeats_;
  bool is_over_ = false;
  std::thread thread_;
};

wire::Hello hello_of(const std::string& group) {
  wire::Hello hello;
  hello.set_protocol(proto::protocol_version);
  hello.set_group(group);
  hello.set_size(1);
  hello.set_job("job");
  hello.set_host("host");
  hello.set_version("test");
  return hello;
}

wire::ToServer announce(const std::string& stream, std::uint64_t incarnation = 1) {
  wire::ToServer message;
  auto& announce = *message.mutable_announce();
  announce.set_stream(stream);
  announce.set_incarnation(incarnation);
  auto& field = *announce.add_fields();
  field.set_name("u");
  field.set_element_type(10);
  field.set_layout("shape=8 grid=1");
  auto& offer = *announce.add_offers();
  offer.set_transport("t");
  offer.set_offer("tcp");
  return message;
}

wire::ToServer subscribe(const std::string& stream, std::uint64_t incarnation) {
  wire::ToServer message;
  auto& subscribe = *message.mutable_subscribe();
  const auto wanted = announce(stream).announce();
  subscribe.set_stream(stream);
  subscribe.set_incarnation(incarnation);
  *subscribe.mutable_fields() = wanted.fields();
  *subscribe.mutable_offers() = wanted.offers();
  return message;
}

wire::ToServer which_streams() {
  wire::ToServer message;
  message.mutable_describe()->set_stream("none");
  return message;
}

class ControlAndServer : public testing::Test {
protected:
  ControlAndServer() {
    server.emplace(1, 0);
    address = server->address();
    control = std::make_unique<Control>(transport::ServerName{to_string(address), "test"},
                                        hello_of("ocean"), Deadline::after(patience_seconds), log);
  }
  void restart() { server.emplace(2, address.port); }
  std::vector<std::string> streams() {
    const auto reply = control->call(which_streams(), Deadline::after(patience_seconds));
    return {reply.streams().names().begin(), reply.streams().names().end()};
  }

  core::Log log{"test", core::LogLevel::off};
  std::optional<Served> server;
  transport::HostPort address;
  std::unique_ptr<Control> control;
};

/// docs/reference/compatibility.md promises this.
TEST_F(ControlAndServer, RefusesThePreviousProtocolAndTheNext) {
  for (const std::uint32_t other : {proto::protocol_version - 1, proto::protocol_version + 1}) {
    wire::Hello hello = hello_of("analysis");
    hello.set_protocol(other);
    const std::string text = error_of(
        [&] {
          const Control joined(transport::ServerName{to_string(address), "test"}, hello,
                               Deadline::after(patience_seconds), log);
        },
        Errc::refused);
    const std::string expected = fmt::format(
        "group 'analysis', rank 0: expected protocol {} of Tremula test, found "
        "protocol {} of Tremula test; install the same version on both sides",
        proto::protocol_version, other);
    EXPECT_NE(text.find(expected), text.npos) << text;
  }
}

TEST_F(ControlAndServer, OutlivesReasonsThatAreTooLong) {
  const std::string why(proto::max_text_bytes + 1, 'w');
  control->call(announce("kept"), Deadline::after(patience_seconds));
  control->call(announce("left"), Deadline::after(patience_seconds));
  wire::ToServer left;
  left.mutable_close_stream()->set_stream("left");
  left.mutable_close_stream()->set_gave_up(true);
  left.mutable_close_stream()->set_incarnation(1);
  left.mutable_close_stream()->set_why(why);
  control->call(left, Deadline::after(patience_seconds));
  wire::ToServer link;
  link.mutable_close_link()->set_link(std::uint64_t{7} << 32 | 1);  // a link of another server
  link.mutable_close_link()->set_gave_up(true);
  link.mutable_close_link()->set_why(why);
  control->call(link, Deadline::after(patience_seconds));
  EXPECT_EQ(streams(), std::vector<std::string>{"kept"});
}

TEST_F(ControlAndServer, OutlivesMoreCountersThanAHeartbeatHolds) {
  wire::Counters counters;
  counters.set_steps(1), counters.set_packages(1), counters.set_bytes(1);
  for (int stream = 0; stream < 40000; ++stream) {  // 5 parts each: see proto::max_parts
    counters.set_stream(fmt::format("s{}", stream));
    control->report(counters);
  }
  control->send_counters();
  EXPECT_TRUE(streams().empty());
}

TEST(Counters, ContinueInTheNextHeartbeat) {
  ServerThatRecords server;
  const core::Log log("test", core::LogLevel::off);
  Control control({server.address(), "test"}, hello_of("ocean"), Deadline::after(patience_seconds),
                  log);
  // Not yet sent: a stream, and the link of a lag or 0.
  std::set<std::pair<std::string, std::uint64_t>> left;
  wire::Counters counters;
  for (int stream = 0; stream < 9000; ++stream) {
    counters.set_stream(fmt::format("s{}", stream));
    left.insert({counters.stream(), 0});
    if (stream == 4500)
      for (std::uint64_t link = 1; link <= 70000; ++link) {
        counters.add_lags()->set_link(link);
        left.insert({counters.stream(), link});
      }
    control.report(counters);
    counters.clear_lags();
  }
  int heartbeats = 0;
  for (; !left.empty() && heartbeats < 10; ++heartbeats) {
    control.send_counters();
    const auto heartbeat = server.next_heartbeat();
    ASSERT_TRUE(heartbeat);
    for (const wire::Counters& each : heartbeat->counters()) {
      left.erase({each.stream(), 0});
      for (const wire::Lag& lag : each.lags()) left.erase({each.stream(), lag.link()});
    }
  }
  EXPECT_TRUE(left.empty()) << left.size();
  EXPECT_GT(heartbeats, 3);
}

TEST_F(ControlAndServer, AnnouncesOnlyOpenStreamsToTheNextServer) {
  for (const char* name : {"kept", "closed", "closed meanwhile"})
    control->call(announce(name), Deadline::after(patience_seconds));
  const auto close = [&](const std::string& name) {
    wire::ToServer message;
    message.mutable_close_stream()->set_stream(name);
    return control->call(message, Deadline::after(patience_seconds));
  };
  close("closed");
  server.reset();
  // No server can be notified, and the next server need not be.
  error_of([&] { close("closed meanwhile"); }, Errc::no_server);
  restart();
  EXPECT_EQ(streams(), std::vector<std::string>{"kept"});
}

TEST_F(ControlAndServer, DumpsOnlyCountsThatAreNotZero) {
  control->report_waiting("read", 0, "a producer");
  EXPECT_EQ(control->dump().find("stream"), std::string::npos) << control->dump();
  wire::Counters counters;
  counters.set_stream("read");
  counters.set_link(7);
  counters.set_steps(3);
  control->report(counters);
  EXPECT_NE(control->dump().find("stream 'read', taken: 3 steps"), std::string::npos)
      << control->dump();
  EXPECT_EQ(control->dump().find("put"), std::string::npos) << control->dump();
}

TEST(Control, SendsNothingBeforeTheServerAccepts) {
  transport::PlainServer server;
  const core::Log log("test", core::LogLevel::off);
  const std::string text = error_of(
      [&] {
        Control(transport::ServerName{to_string(server.address()), "test"}, hello_of("ocean"),
                Deadline::after(0.3), log);
      },
      Errc::no_server);
  EXPECT_NE(text.find("has accepted the connection in time"), std::string::npos) << text;
  server.accept();
  EXPECT_EQ(server.read(1), "");
}

TEST(Control, LeavesACallThatTheServerHoldsUnasked) {
  transport::PlainServer server;
  const core::Log log("test", core::LogLevel::off);
  const std::jthread serving([&server] {
    server.accept();
    welcome(server, 1, 3600);
    for (std::string frame; !(frame = read_frame(server)).empty();) {
      wire::ToClient answer;
      answer.set_request(proto::request_number(std::as_bytes(std::span(frame))));
      answer.mutable_done()->set_is_choosing(true);
      if (answer.request() != 0) write(server, answer);
    }
  });
  Control control({to_string(server.address()), "test"}, hello_of("ocean"),
                  Deadline::after(patience_seconds), log);
  control.begin_presence(0, Deadline::after(patience_seconds));
  EXPECT_TRUE(control.end_presence(Deadline::after(patience_seconds), true));
  EXPECT_FALSE(control.end_presence(Deadline::after(patience_seconds), false));
}

TEST(Control, SeesTheEndOfAServerAfterItsWelcome) {
  const ServerThatEnds server;
  const core::Log log("test", core::LogLevel::off);
  for (int i = 0; i < 500; ++i) {
    std::unique_ptr<Control> control;
    try {
      control = std::make_unique<Control>(transport::ServerName{server.address(), "test"},
                                          hello_of("ocean"), Deadline::after(0.01), log);
    } catch (const Error& gone) {
      ASSERT_TRUE(gone.code() == Errc::no_server || gone.code() == Errc::timed_out) << gone.what();
      continue;
    }
    const auto until = Deadline::after(patience_seconds);
    bool is_served = true;
    while (is_served && !until.expired()) {
      std::this_thread::yield();
      is_served = control->is_served();
    }
    ASSERT_FALSE(is_served) << "the session takes a dead connection for a server";
  }
}

TEST_F(ControlAndServer, ResumesInSeveralMessagesIfOneIsTooSmall) {
  const auto until = Deadline::after(patience_seconds);
  for (const char* name : {"first", "second"}) {
    wire::ToServer message = announce(name);
    auto& fields = *message.mutable_announce()->mutable_fields();
    fields.at(0).mutable_layout()->append(9000, ' ');
    while (fields.size() < 1000) {
      *fields.Add() = fields.at(0);
      fields.rbegin()->set_name(fmt::format("u{}", fields.size()));
    }
    ASSERT_GT(2 * message.ByteSizeLong(), proto::max_message_bytes);
    control->call(message, until);
  }
  control->begin_presence(0, until);
  server.reset();
  restart();
  EXPECT_EQ(streams(), (std::vector<std::string>{"first", "second"}));
  // Its presence is restored as well: a consumer of its last stream is matched.
  Control consumer({to_string(address), "test"}, hello_of("viewer"), until, log);
  consumer.call(subscribe("second", 5), until);
  consumer.begin_presence(0, until);
  const auto event = consumer.next_event(until);
  ASSERT_TRUE(event);
  EXPECT_TRUE(event->has_matched()) << event->ShortDebugString();
}

TEST_F(ControlAndServer, ReportsALinkGivenUpWithoutAServer) {
  constexpr std::uint64_t link = (std::uint64_t{1} << 32) + 5;  // a link of the first server
  server.reset();
  wire::ToServer message;
  message.mutable_close_link()->set_link(link);
  message.mutable_close_link()->set_gave_up(true);
  message.mutable_close_link()->set_why("it was silent");
  control->call(message, Deadline::after(patience_seconds));
  restart();
  EXPECT_EQ(streams(), std::vector<std::string>{});
  const auto end = control->link_end(link);  // sent by the server before its answer
  ASSERT_TRUE(end);
  EXPECT_EQ(end->why, "it was silent");
}

TEST_F(ControlAndServer, ReportsALinkGivenUpWhileJoiningAServer) {
  constexpr std::uint64_t link = (std::uint64_t{1} << 32) + 5;
  server.reset();
  {
    transport::PlainServer silent(address.port);
    silent.accept();
    wire::ToServer message;
    message.mutable_close_link()->set_link(link);
    message.mutable_close_link()->set_gave_up(true);
    message.mutable_close_link()->set_why("it was silent");
    control->call(message, Deadline::after(0.1));
  }
  restart();
  EXPECT_EQ(streams(), std::vector<std::string>{});
  ASSERT_TRUE(control->link_end(link));
}

TEST_F(ControlAndServer, WaitsForAServerAsLongAsACallMay) {
  server.reset();
  const auto text =
      error_of([&] { control->call(which_streams(), Deadline::after(0.3)); }, Errc::no_server);
  for (const char* part : {"gone for", "tremula serve", "linked streams continue"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
  std::thread later([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    restart();
  });
  EXPECT_TRUE(streams().empty());
  later.join();
}

/// Returns rank 0 of another job, which has announced "later" and is in a call that opens links.
std::unique_ptr<Control> producer(const transport::HostPort& address, const core::Log& log) {
  const auto until = Deadline::after(patience_seconds);
  auto other = std::make_unique<Control>(transport::ServerName{to_string(address), "test"},
                                         hello_of("other"), until, log);
  other->call(announce("later"), until);
  other->begin_presence(1, until);
  return other;
}

TEST_F(ControlAndServer, RepeatsItsSubscriptionsToTheNextServer) {
  const auto until = Deadline::after(patience_seconds);
  control->call(subscribe("later", 5), until);
  control->call(subscribe("given up", 6), until);
  wire::ToServer give_up;
  give_up.mutable_unsubscribe()->set_stream("given up");
  control->call(give_up, until);
  control->begin_presence(0, until);
  server.reset();
  restart();
  const auto other = producer(address, log);
  const auto event = control->next_event(until);
  ASSERT_TRUE(event && event->has_matched());
  EXPECT_EQ(event->matched().stream(), "later");
  EXPECT_EQ(event->matched().incarnation(), 5u);
}

TEST_F(ControlAndServer, RestoresOnlyAPresenceThatHasNotEnded) {
  const auto until = Deadline::after(patience_seconds);
  control->call(subscribe("later", 5), until);
  control->begin_presence(0, until);
  server.reset();
  while (control->wait_for_server(Deadline::after(0)) && !until.expired())
    std::this_thread::yield();   // until the session notices
  control->end_presence(until);  // does not wait for a server
  restart();
  ASSERT_TRUE(control->wait_for_server(until));
  const auto other = producer(address, log);
  while (!control->is_awaited() && !until.expired()) std::this_thread::yield();
  EXPECT_TRUE(control->is_awaited());
  EXPECT_FALSE(control->next_event(Deadline::after(0)));
}

TEST_F(ControlAndServer, LosesALinkThatWasBeingSetUp) {
  const auto until = Deadline::after(patience_seconds);
  control->call(subscribe("later", 5), until);
  control->begin_presence(0, until);
  auto other = producer(address, log);
  const auto event = control->next_event(until);
  ASSERT_TRUE(event && event->has_matched());
  const std::uint64_t link = event->matched().link();
  const auto lose = [&] {
    const auto text = error_of([&] { control->take_addresses(link, until); }, Errc::no_server);
    EXPECT_NE(text.find("the server went away while the link was being set up"), text.npos) << text;
  };
  server.reset();
  lose();
  restart();
  ASSERT_TRUE(control->wait_for_server(until));
  lose();
}

/// After the restart, each side again requests messages that it has already taken, as if the first
/// server had died without forwarding them.
TEST_F(ControlAndServer, ContinuesARepeatedSetUpAtTheNextServer) {
  const auto until = Deadline::after(patience_seconds);
  control->call(subscribe("later", 5), until);
  control->begin_presence(0, until);
  const auto other = producer(address, log);
  const auto event = control->next_event(until);
  ASSERT_TRUE(event && event->has_matched());
  ASSERT_TRUE(other->next_event(until));
  const std::uint64_t link = event->matched().link();
  const auto send = [&](Control& by, const std::string& own) {
    wire::ToServer message;
    message.mutable_link_addresses()->set_link(link);
    message.mutable_link_addresses()->set_again(by.times_again(link));
    message.mutable_link_addresses()->add_addresses(own);
    by.call(message, until);
  };
  const auto expect = [&](Control& side, const std::string& of_peer, std::uint64_t again) {
    const auto taken = side.take_addresses(link, until);
    EXPECT_EQ(taken.addresses(0), of_peer);
    EXPECT_EQ(taken.again(), again);
  };
  send(*control, "consumer");
  send(*other, "producer");
  expect(*control, "producer", 0);
  expect(*other, "consumer", 0);
  wire::ToServer redeclare;
  *redeclare.mutable_redeclare()->mutable_fields() = announce("later").announce().fields();
  redeclare.mutable_redeclare()->set_stream("later");
  other->call(redeclare, until);
  control->set_up_again(link);
  send(*control, "consumer, again");
  send(*other, "producer, again");
  for (const bool is_next : {false, true}) {
    if (is_next) server.reset(), restart();
    EXPECT_EQ(control->take_redeclared(link, until).again(), 1u) << is_next;
    expect(*control, "producer, again", 1);
    expect(*other, "consumer, again", 1);
  }
  // The error names the missing server as the cause, not a delay of the other side.
  control->set_up_again(link);
  server.reset();
  std::optional<Error> error;  // timed_out until the session knows that the server is gone
  do {
    try {
      control->take_addresses(link, Deadline::after(0.3));
    } catch (const Error& e) {
      error.emplace(e);
    }
  } while (error && error->code() == Errc::timed_out && !until.expired());
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), Errc::no_server);
  EXPECT_NE(std::string_view(error->what()).find("gone for"), std::string_view::npos)
      << error->what();
}

TEST_F(ControlAndServer, IsRefusedIfAnotherJobHoldsItsName) {
  server.reset();
  restart();
  auto newcomer = hello_of("ocean");
  newcomer.set_job("another job");
  std::unique_ptr<Control> other;
  try {  // either of the two jobs may be first
    other = std::make_unique<Control>(transport::ServerName{to_string(address), "test"}, newcomer,
                                      Deadline::after(patience_seconds), log);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Errc::refused);
    return;
  }
  const auto text = error_of([&] { streams(); }, Errc::no_server);
  EXPECT_NE(text.find("refuses this rank: group 'ocean': the name is held by another job"),
            std::string::npos)
      << text;
}

TEST_F(ControlAndServer, LearnsThatItsOwnServerHasCountedItAsLost) {
  server.reset();
  // Refuses the session, like a server that saw its connection break.
  server.emplace(1, address.port);
  std::optional<Control::LinkEnd> end;
  const auto until = Deadline::after(patience_seconds);
  while (!end && !until.expired()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    end = control->link_end(7);
  }
  ASSERT_TRUE(end) << "a call that waits for data would not end";
  EXPECT_TRUE(end->lost);
  EXPECT_NE(end->why.find("was counted as lost when its connection to this server broke"),
            std::string::npos)
      << end->why;
}

/// The loss has been reported to all ranks that depend on this one, so leaving needs no further
/// report.
TEST(Control, LeavesWithoutAWarningWhenItsGroupIsLost) {
  const Served server(1, 0);
  testing::internal::CaptureStderr();
  std::string lost;
  {
    const core::Log log("test", core::LogLevel::warn);
    auto hello = hello_of("ocean");
    hello.set_size(2);
    Control control({to_string(server.address()), "test"}, hello, Deadline::after(patience_seconds),
                    log);
    {
      transport::ControlConnection killed(server.address(), {.on_frame = [](const core::Bytes&) {}},
                                          Deadline::after(patience_seconds));
      wire::ToServer join;
      join.set_request(1);
      *join.mutable_hello() = hello;
      join.mutable_hello()->set_rank(1);
      killed.send(proto::serialise(join));
    }
    const auto until = Deadline::after(patience_seconds);
    while (lost.empty() && !until.expired()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      try {
        control.check_own_group();
      } catch (const Error& error) {
        lost = error.what();
      }
    }
    wire::ToServer message;
    message.mutable_close_stream()->set_stream("s");
    message.mutable_close_stream()->set_incarnation(1);
    message.mutable_close_stream()->set_gave_up(true);
    EXPECT_NO_THROW(control.call(message, Deadline::after(patience_seconds)));
    message.mutable_close_link()->set_link(7);
    message.mutable_close_link()->set_gave_up(true);
    EXPECT_NO_THROW(control.call(message, Deadline::after(patience_seconds)));
    message.mutable_unsubscribe()->set_stream("t");
    EXPECT_NO_THROW(control.call(message, Deadline::after(patience_seconds)));
    error_of([&] { control.call(which_streams(), Deadline::after(patience_seconds)); },
             Errc::peer_lost);
  }
  EXPECT_NE(lost.find("closed its connection without goodbye"), std::string::npos) << lost;
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST_F(ControlAndServer, EndsWhileThereIsNoServer) {
  server.reset();
  control.reset();
}

}  // namespace
}  // namespace tremula::client
