// SPDX-License-Identifier: Apache-2.0
// A rank that proves itself and then sends arbitrary bytes can read only memory that it may read,
// uses a bounded part of this process's resources, and loses its own connection when it breaks the
// protocol.
#include <cstring>

#include "tests/transport/tcp/tcp_pair.hpp"

namespace tremula::transport {

namespace {

using namespace tcp;

/// Returns the connection of rank 1, which has proved itself, for the test to use.
Descriptor member(TcpPair& pair) {
  Attempt attempt(RankAddress::decode(pair.others[0]->address(), Rank{0}), pair.producer_address(),
                  *pair.producer);
  if (attempt.state == ConnectionAttempt::State::proved) return attempt.connection.take();
  ADD_FAILURE() << "a member was not admitted";
  return {};
}

/// Sends all of `bytes`, unless the other end has closed.
void send_all(const Descriptor& socket, BytesView bytes, TcpPair& pair) {
  while (!bytes.empty()) {
    pair.producer->progress();
    const auto count = send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno != EAGAIN) return;
    if (count > 0) bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}
void send_all(const Descriptor& socket, const std::vector<Frame>& frames, TcpPair& pair) {
  send_all(socket, std::as_bytes(std::span(frames)), pair);
}

/// Receives until `room` is full.
void receive_all(const Descriptor& socket, std::span<std::byte> room, TcpPair& pair) {
  for (const auto deadline = Deadline::after(60); !room.empty();) {
    ASSERT_FALSE(deadline.expired());
    pair.producer->progress();
    const auto count = recv(socket.get(), room.data(), room.size(), MSG_DONTWAIT);
    if (count > 0) room = room.subspan(static_cast<std::size_t>(count));
  }
}

void expect_breach(Request& request, const std::string& words = "broke the protocol") {
  try {
    for (const auto deadline = Deadline::after(60); !request.test();)
      if (deadline.expired()) break;
    ADD_FAILURE() << "the peer was not lost";
  } catch (const core::Error& error) {
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

}  // namespace

TEST(TcpMember, LosesItsConnectionForAProtocolBreach) {
  const std::uint64_t huge = std::uint64_t{4} << 30;
  const std::vector<std::vector<Frame>> breaches{
      {{.kind = static_cast<FrameKind>(99)}},
      {{.kind = FrameKind::message, .bytes = huge, .tag = 1}},
      {{.kind = FrameKind::message, .bytes = ~std::uint64_t{0}, .tag = 1}},
      {{.kind = FrameKind::credit, .bytes = huge}},
      {{.kind = FrameKind::credit, .bytes = 1}},
      std::vector<Frame>(5000, {.kind = FrameKind::message, .tag = 1}),  // without credit
  };
  for (const auto& frames : breaches) {
    TcpPair pair(1);
    expect_exchange(pair);
    const Descriptor socket = member(pair);
    Bytes in(5);
    Request receive = pair.producer->receive(Rank{1}, 2, in);
    send_all(socket, frames, pair);
    expect_breach(receive);
    expect_exchange(pair);
  }
}

TEST(TcpMember, HarmsNothingWithUnknownNumbers) {
  TcpPair pair(1);
  expect_exchange(pair);
  const Descriptor socket = member(pair);
  const Bytes secret = bytes_of(100, 5);
  Bytes region_bytes = secret;
  const auto region = pair.producer->register_memory(region_bytes, Access::peers_read);
  const auto key = region->key();
  const std::uint64_t huge = std::uint64_t{1} << 63;
  std::vector<Frame> frames{
      {.kind = FrameKind::pull, .send = 12345, .room = 1},
      {.kind = FrameKind::done, .send = huge},
      {.kind = FrameKind::gone, .room = huge},
      {.kind = FrameKind::fetch, .bytes = 8, .tag = key[0], .send = key[1] + 1, .room = 2},
      {.kind = FrameKind::fetch, .bytes = 101, .tag = key[0], .send = key[1], .room = 3},
      {.kind = FrameKind::fetch,
       .bytes = 8,
       .tag = key[0],
       .send = key[1],
       .room = 4,
       .offset = 93},
      {.kind = FrameKind::fetch,
       .bytes = huge,
       .tag = key[0],
       .send = key[1],
       .room = 5,
       .offset = huge},
      {.kind = FrameKind::fetch,
       .bytes = 8,
       .tag = key[0],
       .send = key[1],
       .room = 6,
       .offset = ~std::uint64_t{3}},
      {.kind = FrameKind::fetch, .tag = key[0], .send = key[1], .room = 7},
      {.kind = FrameKind::fetch, .bytes = 8, .tag = key[0] + 1, .send = key[1], .room = 8},
      {.kind = FrameKind::announce, .bytes = huge, .tag = 9, .send = 7},  // without a receive
      {.kind = FrameKind::message, .bytes = 0, .tag = 8},
  };
  send_all(socket, frames, pair);
  Bytes in(5);
  Request receive = pair.producer->receive(Rank{1}, 8, in);
  for (const auto deadline = Deadline::after(60); !receive.test();)
    ASSERT_FALSE(deadline.expired());
  pair.producer->progress();
  std::vector<Frame> answers(8);
  receive_all(socket, std::as_writable_bytes(std::span(answers)), pair);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    EXPECT_EQ(answers[i].kind, FrameKind::gone);
    EXPECT_EQ(answers[i].room, i + 1);
  }
  Request too_long = pair.producer->receive(Rank{1}, 9, in);
  EXPECT_THROW(too_long.test(), core::Error);
  expect_exchange(pair);
}

TEST(TcpMember, ReadsARegionUntilItEnds) {
  TcpPair pair(1);
  const Descriptor socket = member(pair);
  Bytes region_bytes = bytes_of(100, 5);
  region_bytes.back() = std::byte{6};
  auto region = pair.producer->register_memory(region_bytes, Access::peers_read);
  const auto key = region->key();
  const auto fetch = [&](std::uint64_t bytes, std::uint64_t offset) {
    send_all(socket,
             {{.kind = FrameKind::fetch,
               .bytes = bytes,
               .tag = key[0],
               .send = key[1],
               .offset = offset}},
             pair);
    Frame answer;
    receive_all(socket, std::as_writable_bytes(std::span(&answer, 1)), pair);
    return answer;
  };
  for (const std::uint64_t offset : {0u, 50u, 99u}) {
    const Frame answer = fetch(100 - offset, offset);
    ASSERT_EQ(answer.kind, FrameKind::data);
    ASSERT_EQ(answer.bytes, 100 - offset);
    Bytes found(answer.bytes);
    receive_all(socket, found, pair);
    EXPECT_TRUE(std::ranges::equal(found, std::span(region_bytes).subspan(offset)));
  }
  region.reset();
  EXPECT_EQ(fetch(1, 0).kind, FrameKind::gone);
}

TEST(TcpMember, LosesItsConnectionForUnrequestedBytes) {
  constexpr std::size_t asked = 1000;
  for (const std::vector<std::uint64_t>& parts :
       std::vector<std::vector<std::uint64_t>>{{asked + 1}, {600, 401}, {~std::uint64_t{0}}}) {
    TcpPair pair(1);
    const Descriptor socket = member(pair);
    Bytes memory = bytes_of(asked + 100, 3);
    Request receive = pair.producer->receive(Rank{1}, 5, std::span(memory).first(asked));
    send_all(socket, {{.kind = FrameKind::announce, .bytes = asked, .tag = 5, .send = 7}}, pair);
    Frame pull;
    receive_all(socket, std::as_writable_bytes(std::span(&pull, 1)), pair);
    ASSERT_EQ(pull.kind, FrameKind::pull);
    for (const std::uint64_t bytes : parts) {
      send_all(socket, {{.kind = FrameKind::data, .bytes = bytes, .room = pull.room}}, pair);
      send_all(socket, bytes_of(std::min<std::uint64_t>(bytes, 1100), 9), pair);
    }
    expect_breach(receive, "expected no more data than requested");
    EXPECT_EQ(memory[asked - 1], std::byte{3});
    EXPECT_EQ(memory[asked], std::byte{3});
    expect_exchange(pair);
  }
}

// The bounds of an endpoint are split among its peers: only a peer that exceeds its part is lost.
TEST(TcpMember, LosesItsConnectionForTooManyMessages) {
  constexpr std::size_t peers = 16;
  TcpPair pair(peers - 1);
  expect_exchange(pair);
  const Descriptor socket = member(pair);
  const std::size_t part = limits_per_peer(peers).announced;
  EXPECT_EQ(part * peers, limits_per_peer(1).announced);
  Bytes in(5);
  Request receive = pair.producer->receive(Rank{1}, 2, in);
  send_all(
      socket,
      std::vector<Frame>(part, {.kind = FrameKind::announce, .bytes = 100, .tag = 1, .send = 1}),
      pair);
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(receive.test());
  send_all(socket, {{.kind = FrameKind::announce, .bytes = 100, .tag = 1, .send = 1}}, pair);
  expect_breach(receive, "fewer unmatched messages, found " + std::to_string(part + 1));
  expect_exchange(pair);
}

TEST(TcpMember, LosesItsConnectionIfItDoesNotRead) {
  constexpr std::size_t peers = 16;
  const PeerLimits part = limits_per_peer(peers);
  EXPECT_EQ(part.serves * peers, limits_per_peer(1).serves);
  EXPECT_EQ(part.unwritten * peers, limits_per_peer(1).unwritten);
  for (const bool is_there : {true, false}) {
    TcpPair pair(peers - 1);
    expect_exchange(pair);
    const Descriptor socket = member(pair);
    Bytes region_bytes(std::size_t{1} << 20);
    const auto region = pair.producer->register_memory(region_bytes, Access::peers_read);
    const Frame fetch{.kind = FrameKind::fetch,
                      .bytes = region_bytes.size(),
                      .tag = region->key()[0],
                      .send = is_there ? region->key()[1] : 0};
    // Exceeds the limit even though the system's buffers hold some of the frames.
    const std::size_t count =
        is_there ? part.serves + 100 : part.unwritten / sizeof fetch + 1'000'000;
    Bytes in(5);
    Request receive = pair.producer->receive(Rank{1}, 2, in);
    send_all(socket, std::vector<Frame>(count, fetch), pair);
    expect_breach(receive,
                  is_there ? "fewer concurrent reads" : "it to read the data that it requests");
    expect_exchange(pair);
  }
}

}  // namespace tremula::transport
