// SPDX-License-Identifier: Apache-2.0
// A real server that speaks TLS, with clients and strangers at its port.
#include "transport/control/tls.hpp"

#include <fmt/format.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <fstream>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/error.hpp"
#include "core/key.hpp"
#include "proto/convert.hpp"
#include "server/listener.hpp"
#include "tests/core/error_of.hpp"
#include "tests/server/certificates.hpp"
#include "transport/control/control_connection.hpp"

namespace tremula::server {
namespace {

using core::Deadline, core::Errc, core::error_of;
using transport::ControlConnection, transport::HostPort, transport::TlsTrust;

Deadline soon() { return Deadline::after(30); }

/// A server in a separate thread.
class Running {
public:
  explicit Running(const Config& config, const Limits& limits = {})
      : listener_(config, "0.1", log_, limits), thread_([this] { listener_.run(); }) {}
  ~Running() {
    listener_.stop();
    thread_.join();
  }
  HostPort address() const { return listener_.address(); }

private:
  core::Log log_{"server", core::LogLevel::off};
  Listener listener_;
  std::thread thread_;
};

/// One connection of our own client.
class Client {
public:
  Client(const HostPort& server, const TlsTrust& tls, const std::optional<core::Key>& key = {})
      : connection_(server,
                    {.on_frame =
                         [this](core::Bytes payload) {
                           const std::lock_guard lock(mutex_);
                           answers_.push_back(proto::parse_to_client(payload));
                           changed_.notify_all();
                         },
                     .on_closed =
                         [this](const std::string&) {
                           const std::lock_guard lock(mutex_);
                           closed_ = true;
                           changed_.notify_all();
                         },
                     .on_timer = {}},
                    soon(), key, tls) {}
  void send(const std::string& text) {
    wire::ToServer message;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
    connection_.send(proto::serialise(message));
  }
  /// Waits for the answer with that number, counted from 0, and returns it.
  wire::ToClient answer(std::size_t number) {
    std::unique_lock lock(mutex_);
    const bool is_there =
        changed_.wait_for(lock, std::chrono::seconds(30), [&] { return answers_.size() > number; });
    EXPECT_TRUE(is_there);
    return is_there ? answers_[number] : wire::ToClient();
  }
  std::string refusal() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(30), [&] { return closed_; }));
    const auto refusal = connection_.refusal();
    return refusal ? refusal->what() : "none";
  }

private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<wire::ToClient> answers_;
  bool closed_ = false;
  ControlConnection connection_;
};

std::string hello(const std::string& group) {
  return fmt::format(
      "request: 1 hello {{ protocol: 2 group: '{}' rank: 0 size: 1 job: 'j' host: 'h' pid: 5 "
      "version: '0.1' }}",
      group);
}

void expect_has(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

int connect(const HostPort& server) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(server.port);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    ::close(fd);
    return -1;
  }
  const timeval limit{30, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  return fd;
}
bool is_closed_soon(int fd) {
  char byte = 0;
  return ::recv(fd, &byte, 1, 0) == 0;
}
void send_raw(int fd, const std::string& bytes) {
  ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

/// Relays bytes between a client and a server and keeps a copy of them.
class Tap {
public:
  explicit Tap(const HostPort& server)
      : server_(server), listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), length), 0);
    EXPECT_EQ(::listen(listener_, 4), 0);
    EXPECT_EQ(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { run(); });
  }
  ~Tap() { end(); }
  HostPort address() const { return {"127.0.0.1", port_}; }
  /// Ends the tap, and returns all bytes of both directions.
  std::string end() {
    if (thread_.joinable()) {
      is_over_ = true;
      thread_.join();
      ::close(listener_);
    }
    return seen_;
  }

private:
  void run() {
    pollfd ready{listener_, POLLIN, 0};
    while (!is_over_ && ::poll(&ready, 1, 20) == 0) {
    }
    if (is_over_) return;
    const int ends[2] = {::accept(listener_, nullptr, nullptr), connect(server_)};
    std::string buffer(64 << 10, '\0');
    bool is_open = true;
    while (is_open && !is_over_) {
      pollfd both[2] = {{ends[0], POLLIN, 0}, {ends[1], POLLIN, 0}};
      ::poll(both, 2, 20);
      for (int i = 0; i < 2; ++i) {
        if (both[i].revents == 0) continue;
        const ssize_t got = ::recv(ends[i], buffer.data(), buffer.size(), 0);
        is_open = is_open && got > 0;
        if (got <= 0) continue;
        const std::string bytes = buffer.substr(0, static_cast<std::size_t>(got));
        seen_ += bytes;
        send_raw(ends[1 - i], bytes);
      }
    }
    ::close(ends[0]);
    ::close(ends[1]);
  }
  HostPort server_;
  int listener_;
  std::uint16_t port_ = 0;
  std::atomic<bool> is_over_ = false;
  std::string seen_;
  std::thread thread_;
};

class Tls : public testing::Test {
protected:
  Tls() { files.make({.file = "server"}); }
  Certificates files;
  const core::Key key{"the key of this server", "test"};
};

TEST_F(Tls, HidesTheMessagesOfSessionAndServer) {
  for (const bool is_hidden : {false, true}) {
    Config config = files.config("server");
    if (!is_hidden) config.tls_certificate = config.tls_key = "";
    Running server(config);
    Tap tap(server.address());
    std::string seen;
    {
      Client client(tap.address(), is_hidden ? files.trust("server") : TlsTrust{});
      client.send(hello("a group with a rare name"));
      EXPECT_TRUE(client.answer(0).has_welcome());
      // Frames that span many records.
      client.send("request: 2 share { round: 1 bytes: '" + std::string(300'000, 's') + "' }");
      EXPECT_EQ(client.answer(1).shared().bytes(0).size(), 300'000u);
    }
    seen = tap.end();
    EXPECT_GT(seen.size(), 600'000u);
    EXPECT_EQ(seen.find("a group with a rare name") == seen.npos, is_hidden);
    EXPECT_EQ(seen.find(std::string(100, 's')) == seen.npos, is_hidden);
  }
}

TEST_F(Tls, CarriesTheProofOfTheKey) {
  Config config = files.config("server");
  config.keys = {key};
  Running server(config);
  Client ocean(server.address(), files.trust("server"), key);
  ocean.send(hello("ocean"));
  EXPECT_TRUE(ocean.answer(0).has_welcome());
  Client none(server.address(), files.trust("server")),
      other(server.address(), files.trust("server"), core::Key("the key of another", "test"));
  none.send(hello("none"));
  other.send(hello("other"));
  expect_has(none.refusal(), "asks for a key");
  expect_has(other.refusal(), "a different key");
}

TEST_F(Tls, IsNeededByEveryConnectionToThatServer) {
  for (const bool with_key : {false, true}) {
    Config config = files.config("server");
    if (with_key) config.keys = {key};
    Running server(config);
    const auto own_key = with_key ? std::optional(key) : std::nullopt;
    Client plain(server.address(), {}, own_key);
    plain.send(hello("plain"));
    expect_has(plain.refusal(), "the server speaks TLS");
    expect_has(plain.refusal(), "tls_ca");
    Client good(server.address(), files.trust("server"), own_key);
    good.send("request: 1 status {}");
    EXPECT_EQ(good.answer(0).status().groups_size(), 0);
  }
}

TEST_F(Tls, IsReportedMissingOnAPlainServer) {
  for (const bool with_key : {false, true}) {
    Config config;
    config.port = 0;
    if (with_key) config.keys = {key};
    Running server(config);
    const std::string text =
        error_of([&] { Client(server.address(), files.trust("server")); }, Errc::refused);
    expect_has(text, "found one that does not");
    expect_has(text, "--tls-certificate");
    expect_has(text, transport::to_string(server.address()));
  }
}

// An attacker between client and server, or in the server's place, has everything except the
// server's private key.
TEST_F(Tls, RefusesTheCertificateOfAnotherServer) {
  files.make({.file = "other"});
  Config config = files.config("other");
  config.keys = {key};
  Running in_the_middle(config);
  const std::string text =
      error_of([&] { Client(in_the_middle.address(), files.trust("server"), key); }, Errc::refused);
  expect_has(text, "another program is answering in place of the server");
  expect_has(text, files.path("server.crt"));
}

TEST_F(Tls, KnowsAServerByItsAuthority) {
  files.make({.file = "authority"});
  files.make({.file = "signed", .signed_by = "authority"});
  Running server(files.config("signed"));
  Client by_authority(server.address(), files.trust("authority")),
      by_itself(server.address(), files.trust("signed"));
  for (Client* client : {&by_authority, &by_itself}) {
    client->send("request: 1 status {}");
    EXPECT_TRUE(client->answer(0).has_status());
  }
  error_of([&] { Client(server.address(), files.trust("server")); }, Errc::refused);
}

TEST_F(Tls, NamesTheFaultOfACertificate) {
  files.make({.file = "expired", .valid_seconds = -10});
  Running expired(files.config("expired"));
  expect_has(error_of([&] { Client(expired.address(), files.trust("expired")); }, Errc::refused),
             "certificate has expired");

  files.make({.file = "elsewhere", .names = "DNS:node7.example,IP:10.9.8.7"});
  Running elsewhere(files.config("elsewhere"));
  const auto connect_as = [&](const std::string& name) {
    Client client(elsewhere.address(), files.trust("elsewhere", name));
  };
  for (const char* wrong : {"", "node8.example", "10.9.8.6"}) {
    const std::string text = error_of([&] { connect_as(wrong); }, Errc::refused);
    expect_has(text, fmt::format("names '{}'", *wrong ? wrong : "127.0.0.1"));
    expect_has(text, "TREMULA_TLS_NAME");
  }
  for (const char* right : {"node7.example", "10.9.8.7"}) connect_as(right);
}

TEST_F(Tls, NamesTheFaultOfAFile) {
  files.make({.file = "other"});
  std::ofstream(files.path("empty.crt")) << "no PEM\n";
  const core::Log log("server", core::LogLevel::off);
  const auto listen = [&](const std::string& certificate, const std::string& private_key) {
    Config config = files.config("server");
    config.tls_certificate = files.path(certificate);
    config.tls_key = files.path(private_key);
    return error_of([&] { Listener(config, "0.1", log); }, Errc::invalid_argument);
  };
  expect_has(listen("nowhere.crt", "server.key"), "tls_certificate '" + files.path("nowhere.crt"));
  expect_has(listen("server.crt", "nowhere.key"), "tls_key '" + files.path("nowhere.key"));
  ASSERT_EQ(::mkfifo(files.path("pipe.crt").c_str(), 0600), 0);
  expect_has(listen("pipe.crt", "server.key"), "expected a PEM file that this user can read");
  expect_has(listen("empty.crt", "server.key"), "expected a certificate in PEM");
  expect_has(listen("server.crt", "empty.crt"), "expected a private key in PEM");
  expect_has(listen("server.crt", "other.key"), "expected the private key of the certificate in");

  Running server(files.config("server"));
  for (const char* file : {"nowhere", "empty"})
    expect_has(
        error_of([&] { Client(server.address(), files.trust(file)); }, Errc::invalid_argument),
        "tls_ca '" + files.path(file + std::string(".crt")));
}

TEST_F(Tls, IsAtLeastVersion12) {
  Running server(files.config("server"));
  for (const int version : {TLS1_1_VERSION, TLS1_2_VERSION, TLS1_3_VERSION}) {
    const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(
        SSL_CTX_new(TLS_client_method()), &SSL_CTX_free);
    SSL_CTX_set_security_level(context.get(), 0);
    SSL_CTX_set_min_proto_version(context.get(), version);
    SSL_CTX_set_max_proto_version(context.get(), version);
    const std::unique_ptr<SSL, decltype(&SSL_free)> client(SSL_new(context.get()), &SSL_free);
    const int fd = connect(server.address());
    SSL_set_fd(client.get(), fd);
    EXPECT_EQ(SSL_connect(client.get()) == 1, version >= TLS1_2_VERSION) << version;
    ::close(fd);
  }
}

/// Returns the first message of a handshake, as a client sends it.
std::string client_hello() {
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()),
                                                                  &SSL_CTX_free);
  const std::unique_ptr<SSL, decltype(&SSL_free)> client(SSL_new(context.get()), &SSL_free);
  BIO* const out = BIO_new(BIO_s_mem());
  SSL_set_bio(client.get(), BIO_new(BIO_s_mem()), out);
  SSL_set_connect_state(client.get());
  SSL_do_handshake(client.get());
  std::string bytes(1000, '\0');
  bytes.resize(static_cast<std::size_t>(BIO_read(out, bytes.data(), 1000)));
  return bytes;
}

TEST_F(Tls, GivesUpAHandshakeThatDoesNotEnd) {
  Config config = files.config("server");
  config.heartbeat_seconds = 0.1;
  Running server(config, {.hello_seconds = 2});
  Client member(server.address(), files.trust("server"));
  member.send("request: 1 status {}");
  member.answer(0);
  const std::string bytes = client_hello();
  ASSERT_GT(bytes.size(), 100u);
  const int silent = connect(server.address()), half = connect(server.address()),
            answered = connect(server.address()), slow = connect(server.address());
  send_raw(half, bytes.substr(0, 50));
  send_raw(answered, bytes);
  pollfd slow_end{slow, POLLIN, 0};
  for (std::size_t i = 0; i < bytes.size() && ::poll(&slow_end, 1, 50) == 0; ++i)
    send_raw(slow, bytes.substr(i, 1));
  EXPECT_TRUE(is_closed_soon(silent));
  EXPECT_TRUE(is_closed_soon(half));
  EXPECT_TRUE(is_closed_soon(slow));
  std::string rest(100'000, '\0');  // the server's part of the handshake, then the end
  EXPECT_GT(::recv(answered, rest.data(), rest.size(), 0), 0);
  while (::recv(answered, rest.data(), rest.size(), 0) > 0) {
  }
  for (const int fd : {silent, half, answered, slow}) ::close(fd);
  member.send("request: 2 status {}");
  EXPECT_EQ(member.answer(1).status().load().connections(), 1u);
}

/// Sends rubbish after the head of a record, and a handshake message that claims to be long.
TEST_F(Tls, ClosesConnectionsThatOnlyBeginLikeTls) {
  Running server(files.config("server"));
  for (const std::string& bytes :
       {std::string("\x16\x03\x01\xff\xff", 5) + std::string(70'000, 'x'),
        std::string("\x16\x03\x01\x00\x04\x01\xff\xff\xff", 9) + std::string(100, 'x'),
        client_hello() + std::string(1000, '\xff')}) {
    const int fd = connect(server.address());
    send_raw(fd, bytes);
    ::shutdown(fd, SHUT_WR);
    std::string rest(100'000, '\0');
    while (::recv(fd, rest.data(), rest.size(), 0) > 0) {
    }
    ::close(fd);
  }
  Client good(server.address(), files.trust("server"));
  good.send("request: 1 status {}");
  EXPECT_TRUE(good.answer(0).has_status());
}

std::size_t memory_of(const Running& server, const TlsTrust& trust) {
  Client client(server.address(), trust);
  client.send("request: 1 status {}");
  return client.answer(0).status().load().memory_bytes();
}

// Idle strangers have not begun a handshake, and cost no more than without TLS. The server's memory
// limits how many strangers may be in a handshake.
TEST_F(Tls, BoundsTheMemoryOfStrangers) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = limit.rlim_max;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  constexpr std::size_t bytes = std::size_t{64} << 20;  // room for 340 concurrent handshakes
  Running server(files.config("server"), {.buffered_bytes = bytes});
  Client member(server.address(), files.trust("server"));
  member.send(hello("member"));
  EXPECT_TRUE(member.answer(0).has_welcome());

  const std::size_t before = memory_of(server, files.trust("server"));
  std::vector<int> strangers;
  const rlim_t idle = std::min<rlim_t>(5000, (limit.rlim_max - 2000) / 2);
  for (rlim_t i = 0; i < idle; ++i) strangers.push_back(connect(server.address()));
  const std::size_t with_idle = memory_of(server, files.trust("server"));
  const std::string first = client_hello();
  for (int i = 0; i < 500; ++i) {
    strangers.push_back(connect(server.address()));
    send_raw(strangers.back(), first);
  }
  const std::size_t with_begun = memory_of(server, files.trust("server"));
  fmt::print("{} idle connections take {} kB, 500 unfinished handshakes {} kB\n", idle,
             (with_idle - before) / 1000, (with_begun - with_idle) / 1000);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(with_begun - before, bytes + (std::size_t{64} << 20));
#endif
  member.send("request: 2 unsubscribe { stream: 's' }");
  EXPECT_TRUE(member.answer(1).has_done());
  const wire::ServerLoad load = [&] {
    Client client(server.address(), files.trust("server"));
    client.send("request: 1 status {}");
    return client.answer(0).status().load();
  }();
  EXPECT_EQ(load.sessions(), 1u);
  EXPECT_LE(load.max_connections(), bytes / transport::tls_connection_bytes);
  EXPECT_LE(load.connections(), load.max_connections());
  for (const int fd : strangers) ::close(fd);
}

TEST_F(Tls, CountsAllMemoryOfASession) {
  Running server(files.config("server"));
  std::vector<std::unique_ptr<Client>> sessions;
  const auto join = [&](int count) {
    for (int i = 0; i < count; ++i) {
      sessions.push_back(std::make_unique<Client>(server.address(), files.trust("server")));
      sessions.back()->send(hello(fmt::format("g{}", sessions.size())));
      EXPECT_TRUE(sessions.back()->answer(0).has_welcome());
    }
  };
  join(20);  // OpenSSL allocates some memory only once
  const std::size_t before = memory_of(server, files.trust("server"));
  join(100);
  const std::size_t more = memory_of(server, files.trust("server")) - before;
  fmt::print("a session over TLS takes {} bytes, both ends\n", more / 100);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !defined(TREMULA_EMULATED)
  EXPECT_LT(more / 100, 2 * transport::tls_connection_bytes);  // both ends are in this process
#endif
}

}  // namespace
}  // namespace tremula::server
