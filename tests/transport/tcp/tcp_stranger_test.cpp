// SPDX-License-Identifier: Apache-2.0
// Strangers at the port of a rank: nothing that they do harms a link whose exchange goes on meanwhile.
// Members that break the protocol: they end, and nobody else.
#include <poll.h>
#include <sys/epoll.h>
#include <sys/resource.h>

#include <cstring>
#include <fstream>

#include "tests/transport/tcp/tcp_pair.hpp"

namespace tremula::transport {

namespace {

using namespace tcp;

Bytes bytes_of(std::size_t count, unsigned char value) { return Bytes(count, std::byte{value}); }

/// A program that knows where the door is.
class Stranger {
public:
  explicit Stranger(const Place& door) : socket_(begin_connecting(Place("127.0.0.1", 0), door)) {
    pollfd ready{socket_.get(), POLLOUT, 0};
    poll(&ready, 1, 10000);
  }
  void say(BytesView bytes) const { tcp::say(socket_, bytes); }
  /// What comes, that many bytes or all before the end.
  Bytes hear(std::size_t most, TcpPair& pair) {
    Bytes all(most);
    std::size_t have = 0;
    for (const auto deadline = Deadline::after(20); have < most && !deadline.expired();) {
      pair.producer->progress();
      const auto count = recv(socket_.get(), all.data() + have, most - have, MSG_DONTWAIT);
      has_ended_ = count == 0 || (count < 0 && errno != EAGAIN);
      if (has_ended_) break;
      if (count > 0) have += static_cast<std::size_t>(count);
    }
    all.resize(have);
    return all;
  }
  bool is_closed(TcpPair& pair) { return hear(1, pair).empty() && has_ended_; }

private:
  Descriptor socket_;
  bool has_ended_ = false;
};

/// An exchange goes on, of small and large messages.
void expect_exchange(TcpPair& pair) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{20000}, std::size_t{2} << 20})
    pair.move(bytes_of(bytes, 7), 3);
}

/// The opening of a rank, as it goes over the wire.
Bytes opening_of(const Invitation& rank, const ClientExchange& exchange) {
  Bytes out(sizeof rank.id);
  std::memcpy(out.data(), &rank.id, sizeof rank.id);
  const Bytes opening = exchange.opening();
  out.insert(out.end(), opening.begin(), opening.end());
  return out;
}

std::int64_t resident_bytes() {
  std::int64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * 4096;
}

/// The connection of a rank that has proved itself, in the hands of the test.
Descriptor member(TcpPair& pair, const Invitation& own) {
  const Descriptor epoll(epoll_create1(EPOLL_CLOEXEC));
  Dial dial(own, pair.door(), epoll.get(), 0);
  for (const auto deadline = Deadline::after(20); !deadline.expired();) {
    pair.producer->progress();
    const auto state = dial.move();
    if (state == Dial::State::proved) return dial.take();
    if (state != Dial::State::under_way) break;
  }
  ADD_FAILURE() << "a member is not let in";
  return {};
}

/// All of it, unless the other end has gone.
void say_all(const Descriptor& socket, BytesView bytes, TcpPair& pair) {
  while (!bytes.empty()) {
    pair.producer->progress();
    const auto count = send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno != EAGAIN) return;
    if (count > 0) bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

}  // namespace

TEST(TcpStranger, IsClosedWhateverItSays) {
  TcpPair pair(1);
  expect_exchange(pair);
  const Place door = pair.door().place;
  const std::uint64_t huge = std::uint64_t{4} << 30;
  Bytes length = bytes_of(200, 0);
  std::memcpy(length.data(), &huge, sizeof huge);
  for (const Bytes& text : {bytes_of(4096, 'G'), bytes_of(100000, 0), bytes_of(49, 255), length}) {
    Stranger stranger(door);
    stranger.say(text);
    EXPECT_TRUE(stranger.is_closed(pair));
    expect_exchange(pair);
  }
  EXPECT_EQ(pair.producer->strangers(), 4u);
}

TEST(TcpStranger, IsNotLetInByTheIdOfARank) {
  TcpPair pair(1);
  expect_exchange(pair);
  const auto rank = Invitation::decode(pair.others[0]->address(), 0);
  Invitation guessed = rank;
  guessed.secret.fill(std::byte{1});
  const Nonce nonce = random_nonce();
  const ClientExchange right(key_of(pair.door(), rank), nonce);
  for (const bool answers : {false, true}) {
    Stranger stranger(pair.door().place);
    stranger.say(opening_of(rank, right));
    const Bytes challenge = stranger.hear(exchange_payload_bytes, pair);
    ASSERT_EQ(challenge.size(), exchange_payload_bytes);
    ClientExchange wrong(key_of(pair.door(), guessed), nonce);
    stranger.say(answers ? wrong.receive(challenge).reply : bytes_of(exchange_payload_bytes, 0));
    EXPECT_TRUE(stranger.is_closed(pair));
    expect_exchange(pair);
  }
  EXPECT_EQ(pair.producer->strangers(), 2u);
}

TEST(TcpStranger, IsNotLetInByAProofThatItHasSeen) {
  TcpPair pair(1);
  expect_exchange(pair);
  const auto rank = Invitation::decode(pair.others[0]->address(), 0);
  ClientExchange exchange(key_of(pair.door(), rank));
  const Bytes opening = opening_of(rank, exchange);
  Bytes proof;
  {
    Stranger relay(pair.door().place);  // between a rank and the door
    relay.say(opening);
    proof = exchange.receive(relay.hear(exchange_payload_bytes, pair)).reply;
    ASSERT_EQ(proof.size(), exchange_payload_bytes);
  }
  Stranger replay(pair.door().place);
  replay.say(opening);
  ASSERT_EQ(replay.hear(exchange_payload_bytes, pair).size(), exchange_payload_bytes);
  replay.say(proof);
  EXPECT_TRUE(replay.is_closed(pair));
  expect_exchange(pair);
  EXPECT_EQ(pair.producer->strangers(), 2u);
}

TEST(TcpStranger, TakesNoPlaceOfARankHoweverManyWait) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const auto count = static_cast<std::size_t>(std::min<rlim_t>(limit.rlim_cur - 100, 1000));
  TcpPair pair(1);
  expect_exchange(pair);
  const auto before = resident_bytes();
  std::vector<std::unique_ptr<Stranger>> strangers;
  for (std::size_t i = 0; i < count; ++i) {
    strangers.push_back(std::make_unique<Stranger>(pair.door().place));
    if (i % 3 == 0) strangers.back()->say(bytes_of(20, 1));  // half of what is expected
    pair.producer->progress();
  }
  expect_exchange(pair);
  EXPECT_GE(pair.producer->strangers(), count - 40);  // and their descriptors are free again
  EXPECT_LT(resident_bytes() - before, std::int64_t{16} << 20);
  // The rank comes, while more of them come.
  Bytes in(5);
  auto& late = *pair.others[0];
  Request receive = late.receive(0, 1, in);
  const Bytes out = bytes_of(5, 9);
  Request send = pair.producer->send(1, 1, out);
  for (const auto deadline = Deadline::after(30); !(receive.test() & send.test());) {
    ASSERT_FALSE(deadline.expired());
    if (!strangers.empty()) strangers.pop_back();
    strangers.push_back(std::make_unique<Stranger>(pair.door().place));
  }
  EXPECT_EQ(in, out);
  expect_exchange(pair);
}

TEST(TcpStranger, FindsNoPortOnceAllRanksAreThere) {
  TcpPair pair;
  expect_exchange(pair);
  const Descriptor epoll(epoll_create1(EPOLL_CLOEXEC));
  Dial dial(Invitation::decode(pair.consumer->address(), 0), pair.door(), epoll.get(), 0);
  const auto deadline = Deadline::after(20);
  while (dial.move() == Dial::State::under_way && !deadline.expired()) pair.producer->progress();
  EXPECT_EQ(dial.error(), ECONNREFUSED);
}

TEST(TcpStranger, AtThePortOfARankIsFoundOut) {
  TcpEndpoint consumer(Side::consumer, Place("127.0.0.1", 0));
  TcpEndpoint other(Side::producer, Place("127.0.0.1", 0));
  Invitation wrong = Invitation::decode(other.address(), 0);
  wrong.secret.fill(std::byte{1});
  other.connect(std::vector<Address>{consumer.address()}, Deadline::after(10));
  consumer.connect(std::vector<Address>{wrong.encode()}, Deadline::after(10));
  Bytes in(5);
  Request receive = consumer.receive(0, 1, in);
  const Descriptor door = listen_at(Place("127.0.0.1", 0));
  TcpEndpoint second(Side::consumer, Place("127.0.0.1", 0));
  wrong.place = Place::near_end_of(door);
  second.connect(std::vector<Address>{wrong.encode()}, Deadline::after(10));
  Request other_receive = second.receive(0, 1, in);
  pollfd ready{door.get(), POLLIN, 0};
  poll(&ready, 1, 10000);
  const Descriptor guest(accept4(door.get(), nullptr, nullptr, SOCK_CLOEXEC));
  say(guest, bytes_of(exchange_payload_bytes, 'x'));
  try {
    for (const auto deadline = Deadline::after(20); !other_receive.test();)
      if (deadline.expired()) break;
    ADD_FAILURE() << "found nothing";
  } catch (const core::Error& error) {
    EXPECT_EQ(error.code(), core::Errc::peer_lost);
    EXPECT_NE(std::string(error.what()).find("another program at its port"), std::string::npos)
        << error.what();
  }
  for (int i = 0; i < 1000; ++i) other.progress(), consumer.progress();
  EXPECT_FALSE(receive.test());  // it goes on trying
  EXPECT_GE(other.strangers(), 1u);
}

TEST(TcpMember, ThatBreaksTheProtocolIsLostAlone) {
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
    const Descriptor socket = member(pair, Invitation::decode(pair.others[0]->address(), 0));
    Bytes in(5);
    Request receive = pair.producer->receive(1, 2, in);
    say_all(socket, std::as_bytes(std::span(frames)), pair);
    try {
      for (const auto deadline = Deadline::after(20); !receive.test();)
        if (deadline.expired()) break;
      ADD_FAILURE() << "was not lost";
    } catch (const core::Error& error) {
      EXPECT_NE(std::string(error.what()).find("broke the protocol"), std::string::npos)
          << error.what();
    }
    expect_exchange(pair);
  }
}

TEST(TcpMember, ThatNamesWhatIsNotThereHarmsNothing) {
  TcpPair pair(1);
  expect_exchange(pair);
  const Descriptor socket = member(pair, Invitation::decode(pair.others[0]->address(), 0));
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
      {.kind = FrameKind::announce, .bytes = huge, .tag = 9, .send = 7},  // without a receive
      {.kind = FrameKind::message, .bytes = 0, .tag = 8},
  };
  say_all(socket, std::as_bytes(std::span(frames)), pair);
  Bytes in(5);
  Request receive = pair.producer->receive(1, 8, in);
  for (const auto deadline = Deadline::after(20); !receive.test();)
    ASSERT_FALSE(deadline.expired());
  pair.producer->progress();
  std::vector<Frame> answers(5);
  std::size_t have = 0;
  while (have < answers.size() * sizeof(Frame)) {
    pollfd ready{socket.get(), POLLIN, 0};
    ASSERT_EQ(poll(&ready, 1, 20000), 1);
    const auto count = recv(socket.get(), reinterpret_cast<char*>(answers.data()) + have,
                            answers.size() * sizeof(Frame) - have, 0);
    ASSERT_GT(count, 0);
    have += static_cast<std::size_t>(count);
  }
  for (std::size_t i = 0; i < answers.size(); ++i) {
    EXPECT_EQ(answers[i].kind, FrameKind::gone);
    EXPECT_EQ(answers[i].room, i + 1);
  }
  Request too_long = pair.producer->receive(1, 9, in);
  EXPECT_THROW(too_long.test(), core::Error);
  expect_exchange(pair);
}

}  // namespace tremula::transport
