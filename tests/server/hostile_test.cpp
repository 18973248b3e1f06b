// SPDX-License-Identifier: Apache-2.0
// A server with a key, plain and over TLS, faces strangers of every kind at the same time, while the
// groups of one stream stay connected and are linked at the end. The tests server.listener,
// server.tls and transport.authentication show how the server treats each kind of stranger on its
// own.
#include <fmt/format.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/deadline.hpp"
#include "core/error.hpp"
#include "core/key.hpp"
#include "proto/convert.hpp"
#include "server/listener.hpp"
#include "tests/server/certificates.hpp"
#include "transport/control/authentication.hpp"
#include "transport/control/frame.hpp"

namespace tremula::server {
namespace {

using transport::ClientExchange;

const core::Key& key() {
  static const core::Key one("the key of this server", "test");
  return one;
}

/// A connection that sends frames or bytes, over TLS if the server speaks it.
class Peer {
public:
  Peer(const Listener& server, bool in_tls)
      : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(server.address().port);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    const timeval limit{30, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (!in_tls) return;
    context_.reset(SSL_CTX_new(TLS_client_method()));
    ssl_.reset(SSL_new(context_.get()));
    SSL_set_fd(ssl_.get(), fd_);
    EXPECT_EQ(SSL_connect(ssl_.get()), 1);
  }
  ~Peer() { ::close(fd_); }
  Peer(const Peer&) = delete;

  void send_raw(std::string_view bytes) {
    if (ssl_)
      SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size()));
    else
      ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  void send(core::BytesView payload) {
    const auto prefix = transport::frame_prefix(payload.size());
    std::string frame(reinterpret_cast<const char*>(prefix.data()), prefix.size());
    frame.append(reinterpret_cast<const char*>(payload.data()), payload.size());
    send_raw(frame);
  }
  void send_text(const std::string& text) {
    wire::ToServer message;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
    send(proto::serialise(message));
  }
  /// Returns the next payload; empty at the end of the connection.
  core::Bytes receive() {
    transport::FramePrefix prefix{};
    if (!read(prefix.data(), prefix.size())) return {};
    core::Bytes payload(transport::frame_payload_bytes(prefix));
    return read(payload.data(), payload.size()) ? payload : core::Bytes{};
  }
  wire::ToClient answer() { return proto::parse_to_client(receive()); }
  bool has_input_within(int milliseconds) const {
    pollfd entry{fd_, POLLIN, 0};
    return ::poll(&entry, 1, milliseconds) == 1;
  }
  void half_close() { ::shutdown(fd_, SHUT_WR); }
  /// Proves the key and says hello for the group.
  void join(const std::string& group) {
    ClientExchange exchange(key());
    send(exchange.opening());
    send(exchange.receive(receive()).reply);
    EXPECT_TRUE(exchange.receive(receive()).is_done);
    send_text(hello(group));
    EXPECT_TRUE(answer().has_welcome());
  }
  static std::string hello(const std::string& group) {
    return fmt::format(
        "request: 1 hello {{ protocol: 2 group: '{}' rank: 0 size: 1 job: 'j' host: 'h' pid: 5 "
        "version: '0.1' }}",
        group);
  }

private:
  bool read(std::byte* to, std::size_t bytes) {
    while (bytes > 0) {
      const auto got =
          ssl_ ? SSL_read(ssl_.get(), to, static_cast<int>(bytes)) : ::recv(fd_, to, bytes, 0);
      if (got <= 0) return false;
      to += got, bytes -= static_cast<std::size_t>(got);
    }
    return true;
  }
  int fd_;
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_{nullptr, &SSL_CTX_free};
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl_{nullptr, &SSL_free};
};

bool is_refusal(const core::Bytes& payload) {
  return transport::is_of_exchange(payload) &&
         transport::error_of_refusal(payload).code() == core::Errc::refused;
}

class Hostile : public testing::TestWithParam<bool> {
protected:
  Hostile() {
    files_.make({.file = "server"});
    Config config = files_.config("server");
    if (!GetParam()) config.tls_certificate = config.tls_key = "";
    config.keys = {key()};
    listener_ = std::make_unique<Listener>(
        config, "0.1", log_, Limits{.hello_seconds = 3, .exchange_seconds = 3, .frame_seconds = 3});
    thread_ = std::thread([this] { listener_->run(); });
  }
  ~Hostile() override {
    listener_->stop();
    thread_.join();
  }
  std::unique_ptr<Peer> peer(bool in_tls = GetParam()) const {
    return std::make_unique<Peer>(*listener_, in_tls);
  }
  static wire::ServerLoad load(Peer& member) {
    member.send_text("request: 8 status {}");
    return member.answer().status().load();
  }

private:
  Certificates files_;
  core::Log log_{"server", core::LogLevel::off};
  std::unique_ptr<Listener> listener_;
  std::thread thread_;
};
INSTANTIATE_TEST_SUITE_P(Server, Hostile, testing::Bool(),
                         [](const auto& test) { return test.param ? "tls" : "plain"; });

TEST_P(Hostile, StrangersHarmNoOtherConnection) {
  std::signal(SIGPIPE, SIG_IGN);  // OpenSSL writes to connections that the server has closed
  rlimit files{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);
  files.rlim_cur = files.rlim_max;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &files), 0);

  const std::string what =
      "{ stream: 's' fields { name: 'u' element_type: 10 layout: 'shape=8 grid=1' } offers { "
      "transport: 't' offer: 'tcp' } incarnation: 1 ";
  const auto ocean = peer(), viewer = peer();
  ocean->join("ocean");
  viewer->join("viewer");
  ocean->send_text("request: 2 announce " + what + " queue_depth: 1 }");
  EXPECT_TRUE(ocean->answer().has_done());
  ocean->send_text("request: 3 presence { is_present: true }");
  EXPECT_TRUE(ocean->answer().has_done());
  viewer->send_text("request: 2 subscribe " + what + "}");
  EXPECT_TRUE(viewer->answer().has_done());
  EXPECT_TRUE(viewer->answer().has_awaited());
  const std::size_t before = load(*viewer).memory_bytes();

  // 5,000 connections that send nothing.
  std::vector<std::unique_ptr<Peer>> idle;
  const rlim_t most = std::min<rlim_t>(5000, (files.rlim_max - 500) / 2);
  for (rlim_t i = 0; i < most; ++i) idle.push_back(peer(false));

  // Strangers without a key, with a different key, and with the proof of another connection.
  const auto without = peer(), wrong = peer(), overheard = peer(), replay = peer();
  without->send_text(Peer::hello("ocean"));
  EXPECT_TRUE(is_refusal(without->receive()));
  ClientExchange other(core::Key("the key of another server", "test")), honest(key());
  wrong->send(other.opening());
  wrong->send(other.receive(wrong->receive()).reply);
  EXPECT_TRUE(is_refusal(wrong->receive()));
  overheard->send(honest.opening());
  const core::Bytes proof = honest.receive(overheard->receive()).reply;
  replay->send(honest.opening());
  EXPECT_FALSE(replay->receive().empty());
  replay->send(proof);
  EXPECT_TRUE(is_refusal(replay->receive()));

  // A frame of 4 GiB, from a stranger and from a member of a group.
  const auto long_stranger = peer(), long_member = peer();
  long_stranger->send_raw("\xff\xff\xff\xff");
  EXPECT_TRUE(long_stranger->receive().empty());
  long_member->join("long");
  long_member->send_raw("\xff\xff\xff\xff");
  EXPECT_TRUE(long_member->answer().has_refused());

  // Layouts with 50,000 dimensions, and with a billion ranks.
  std::string ones = "1";
  for (int i = 1; i < 50'000; ++i) ones += "x1";
  for (const std::string& layout :
       {"shape=" + ones + " grid=1", "shape=" + ones + " grid=" + ones + " block=" + ones,
        std::string("shape=8 grid=1000000000"),
        std::string("shape=8 grid=1 members=0-999999999")}) {
    const auto greedy = peer();
    greedy->join("greedy" + std::to_string(layout.size()));
    greedy->send_text(
        "request: 2 announce { stream: 'g' fields { name: 'u' element_type: 10 layout: '" + layout +
        "' } offers { transport: 't' offer: 'tcp' } incarnation: 1 queue_depth: 1 }");
    EXPECT_TRUE(greedy->answer().has_refused()) << layout.substr(0, 40);
  }

  // Connections that are half open, that stop in the middle of the exchange, and that send byte by
  // byte.
  const auto half = peer(), midst = peer(), slow = peer();
  half->half_close();
  midst->send(ClientExchange(key()).opening());
  EXPECT_FALSE(midst->receive().empty());
  slow->send_raw({"\x90\x01\0\0", 4});  // announces 400 bytes and sends 20 a second
  const core::Deadline limit = core::Deadline::after(60);
  while (!slow->has_input_within(50) && !limit.expired()) slow->send_raw("x");
  EXPECT_TRUE(half->receive().empty());
  EXPECT_TRUE(midst->receive().empty());
  EXPECT_TRUE(slow->receive().empty());

  // The two groups were served meanwhile, and still are.
  const wire::ServerLoad then = load(*viewer);
  EXPECT_EQ(then.sessions(), 2u);
  fmt::print("{} kB more\n", (then.memory_bytes() - before) / 1000);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(then.memory_bytes(),
            before + (std::size_t{64} << 20));  // both ends are in this process
#endif
  viewer->send_text("request: 3 presence { is_present: true }");
  EXPECT_TRUE(viewer->answer().has_done());
  EXPECT_TRUE(viewer->answer().has_matched());
  EXPECT_TRUE(ocean->answer().has_matched());
  ocean->send_text("request: 4 link_addresses { link: 1 addresses: 'there' }");
  EXPECT_TRUE(ocean->answer().has_done());
  EXPECT_EQ(viewer->answer().link_addresses().addresses(0), "there");
}

}  // namespace
}  // namespace tremula::server
