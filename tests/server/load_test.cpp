// SPDX-License-Identifier: Apache-2.0
// One server with 10,000 sessions and 1,000 streams, or as many as the limit of open files allows.
// Asserts counts; prints times and memory.
#include <fmt/format.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "proto/convert.hpp"
#include "server/listener.hpp"

namespace tremula::server {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// A connection whose calls block.
class Peer {
public:
  explicit Peer(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    is_connected_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    const timeval limit{120, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  }
  ~Peer() { ::close(fd_); }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  bool is_connected() const { return is_connected_; }

  void send(const wire::ToServer& message) const {
    std::string bytes(4, '\0');
    bytes += message.SerializeAsString();
    for (std::size_t i = 0; i < 4; ++i)
      bytes[i] = static_cast<char>((bytes.size() - 4) >> (8 * i) & 0xff);
    ASSERT_EQ(::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  void send(const std::string& text) const {
    wire::ToServer message;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
    send(message);
  }
  /// Returns the next message for which `is_wanted` returns true; an empty one if none arrives.
  template <class Wanted>
  wire::ToClient await(Wanted&& is_wanted) const {
    while (true) {
      std::array<unsigned char, 4> prefix{};
      if (::recv(fd_, prefix.data(), prefix.size(), MSG_WAITALL) != 4) return {};
      std::string payload(prefix[0] + 256u * prefix[1] + 65536u * prefix[2], '\0');
      if (::recv(fd_, payload.data(), payload.size(), MSG_WAITALL) !=
          static_cast<ssize_t>(payload.size()))
        return {};
      wire::ToClient message = proto::parse_to_client(std::as_bytes(std::span(payload)));
      if (is_wanted(message)) return message;
    }
  }

private:
  int fd_;
  bool is_connected_ = false;
};

/// Sums over all pages of a status.
struct Totals {
  int groups = 0, ranks = 0, streams = 0, links = 0, pages = 0;
  std::uint64_t produced = 0, consumed = 0;
  wire::ServerLoad load;
};
Totals ask(const Peer& peer) {
  Totals out;
  wire::ToServer request;
  request.set_request(1);
  request.mutable_status();
  while (true) {
    peer.send(request);
    const wire::ToClient page = peer.await([](const auto& m) { return m.has_status(); });
    if (!page.has_status()) return out;
    ++out.pages;
    out.groups += page.status().groups_size();
    for (const auto& group : page.status().groups()) out.ranks += group.connected();
    for (const auto& stream : page.status().streams()) {
      const auto& from = request.status().from();
      const bool goes_on = from.goes_on() && &stream == &page.status().streams(0);
      if (!goes_on) ++out.streams, out.produced += stream.produced().steps();
      out.links += stream.consumers_size();
      for (const auto& link : stream.consumers()) out.consumed += link.consumed().steps();
    }
    out.load = page.status().load();
    if (!page.has_next_status()) return out;
    *request.mutable_status()->mutable_from() = page.next_status();
  }
}

TEST(Load, HasTenThousandSessionsAndAllTheirLinks) {
  rlimit files{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);
  files.rlim_cur = files.rlim_max;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &files), 0);
  // Each stream has a producer of one rank and a consumer of nine.
  const int streams = static_cast<int>(std::min<rlim_t>(10'000, files.rlim_cur - 200) / 10);
  const int sessions = 10 * streams;

  int port_pipe[2] = {-1, -1};
  ASSERT_EQ(::pipe(port_pipe), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const core::Log log("server", core::LogLevel::off);
    Config config;
    config.port = 0;
    config.heartbeat_seconds = 60;  // no rank is silent for too long, however busy the machine
    Listener listener(config, "0.1", log,
                      {.hello_seconds = 600,
                       .stranger_seconds = 600,
                       .connections_per_host = static_cast<std::size_t>(sessions)});
    const std::uint16_t port = listener.address().port;
    if (::write(port_pipe[1], &port, sizeof port) != sizeof port) ::_exit(3);
    listener.run();
    ::_exit(0);
  }
  std::uint16_t port = 0;
  ASSERT_EQ(::read(port_pipe[0], &port, sizeof port), static_cast<ssize_t>(sizeof port));

  const auto begin = Clock::now();
  std::vector<std::unique_ptr<Peer>> peers;
  for (int i = 0; i < sessions; ++i) {
    peers.push_back(std::make_unique<Peer>(port));
    ASSERT_TRUE(peers.back()->is_connected()) << "after " << i << " connections";
    const int stream = i / 10, rank = i % 10;
    peers.back()->send(fmt::format(
        "request: 1 hello {{ protocol: 2 group: '{}{}' rank: {} size: {} job: 'j' host: 'h' pid: 5 "
        "version: '0.1' }}",
        rank == 0 ? "producer" : "consumer", stream, rank == 0 ? 0 : rank - 1, rank == 0 ? 1 : 9));
  }
  for (const auto& peer : peers)
    ASSERT_TRUE(peer->await([](const auto&) { return true; }).has_welcome());
  const double joined = seconds_since(begin);

  for (int s = 0; s < streams; ++s) {
    const auto open = [&](const Peer& peer, const std::string& what, int grid) {
      peer.send(
          fmt::format("request: 2 {} {{ stream: 's{}' incarnation: 1 fields {{ name: 'u' "
                      "element_type: 10 layout: 'shape=90 grid={}' }} offers {{ transport: "
                      "'t' offer: 'tcp' }} }}",
                      what, s, grid));
      peer.send("request: 3 presence { is_present: true }");
    };
    open(*peers[static_cast<std::size_t>(10 * s)], "announce", 1);
    open(*peers[static_cast<std::size_t>(10 * s + 1)], "subscribe", 9);
  }
  for (int s = 0; s < streams; ++s) {
    const auto is_matched = [](const auto& m) { return m.has_matched(); };
    const auto link = peers[static_cast<std::size_t>(10 * s)]->await(is_matched).matched().link();
    ASSERT_GT(link, 0u);
    peers[static_cast<std::size_t>(10 * s)]->send(
        fmt::format("heartbeat {{ counters {{ stream: 's{}' steps: 3 }} }}", s));
    for (int rank = 1; rank < 10; ++rank)
      peers[static_cast<std::size_t>(10 * s + rank)]->send(
          fmt::format("heartbeat {{ counters {{ stream: 's{}' link: {} steps: 2 }} }}", s, link));
  }
  const double linked = seconds_since(begin) - joined;

  const Peer asking(port);
  Totals totals;
  std::vector<double> times;
  const auto until = Clock::now() + std::chrono::seconds(60);
  const auto all = [&](std::uint64_t steps) { return steps * static_cast<std::uint64_t>(streams); };
  do {  // heartbeats are not answered, so ask until all have arrived
    const auto asked = Clock::now();
    totals = ask(asking);
    times.push_back(seconds_since(asked));
  } while ((totals.consumed < all(2) || totals.produced < all(3) || times.size() < 5) &&
           Clock::now() < until);
  EXPECT_EQ(totals.groups, 2 * streams);
  EXPECT_EQ(totals.ranks, sessions);
  EXPECT_EQ(totals.streams, streams);
  EXPECT_EQ(totals.links, streams);
  EXPECT_EQ(totals.produced, all(3));
  EXPECT_EQ(totals.consumed, all(2));
  EXPECT_EQ(totals.load.sessions(), static_cast<std::uint64_t>(sessions));
  EXPECT_GT(totals.load.session_bytes(), 0u);
  std::ranges::sort(times);
  fmt::print(
      "{} sessions joined in {:.2f} s, {} streams linked in {:.2f} s, status of {} pages in {:.3f} "
      "s "
      "(median of {}), {:.1f} MB of memory, {} bytes a session\n",
      sessions, joined, streams, linked, totals.pages, times[times.size() / 2], times.size(),
      static_cast<double>(totals.load.memory_bytes()) / 1e6, totals.load.session_bytes());

  peers.clear();  // all at the same time
  do totals = ask(asking);
  while (totals.load.sessions() > 0 && Clock::now() < until + std::chrono::seconds(60));
  EXPECT_EQ(totals.groups, 0);
  EXPECT_EQ(totals.streams, 0);
  EXPECT_EQ(totals.load.held_bytes(), 0u);
  EXPECT_EQ(totals.load.connections(), 1u);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  for (const int fd : port_pipe) ::close(fd);
}

}  // namespace
}  // namespace tremula::server
