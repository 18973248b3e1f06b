// SPDX-License-Identifier: Apache-2.0
// Programs that connect to the port of a rank and prove nothing: none of them harms the link.
#include <poll.h>
#include <sys/epoll.h>
#include <sys/resource.h>

#include <cstring>
#include <fstream>

#include "tests/transport/both.hpp"
#include "tests/transport/tcp/tcp_pair.hpp"

namespace tremula::transport {

namespace {

using namespace tcp;

/// A program that knows the port of a rank.
class Client {
public:
  explicit Client(const HostPort& port)
      : socket_(begin_connecting(HostPort("127.0.0.1", 0), port)) {
    pollfd ready{socket_.get(), POLLOUT, 0};
    poll(&ready, 1, 10000);
  }
  void send(BytesView bytes) const { send_at_once(socket_, bytes); }
  /// Receives `most` bytes, or fewer if the connection ends first.
  Bytes receive(std::size_t most, TcpPair& pair) {
    Bytes all(most);
    std::size_t have = 0;
    for (const auto deadline = Deadline::after(60); have < most && !deadline.expired();) {
      pair.producer->progress();
      const auto count = recv(socket_.get(), all.data() + have, most - have, MSG_DONTWAIT);
      has_ended_ = count == 0 || (count < 0 && errno != EAGAIN);
      if (has_ended_) break;
      if (count > 0) have += static_cast<std::size_t>(count);
    }
    all.resize(have);
    return all;
  }
  bool is_closed(TcpPair& pair) { return receive(1, pair).empty() && has_ended_; }

private:
  Descriptor socket_;
  bool has_ended_ = false;
};

/// Returns the opening of a rank, as it travels over the wire.
Bytes opening_of(const RankAddress& rank, const ClientExchange& exchange) {
  Bytes out(sizeof rank.id);
  std::memcpy(out.data(), &rank.id, sizeof rank.id);
  const Bytes opening = exchange.opening();
  out.insert(out.end(), opening.begin(), opening.end());
  return out;
}

/// The most unproved connections that a listener keeps if no other listener has any.
constexpr std::size_t most_unproved = slots_of_process + slots_of_listener;

std::int64_t resident_bytes() {
  std::int64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * 4096;
}

}  // namespace

TEST(TcpUnauthenticatedPeer, IsDisconnectedAfterAnyBytes) {
  TcpPair pair(1);
  expect_exchange(pair);
  const HostPort port = pair.producer_address().host_port;
  const std::uint64_t huge = std::uint64_t{4} << 30;
  Bytes length = bytes_of(200, 0);
  std::memcpy(length.data(), &huge, sizeof huge);
  for (const Bytes& text : {bytes_of(4096, 'G'), bytes_of(100000, 0), bytes_of(49, 255), length}) {
    Client client(port);
    client.send(text);
    EXPECT_TRUE(client.is_closed(pair));
    expect_exchange(pair);
  }
  EXPECT_EQ(pair.producer->rejected(), 4u);
}

TEST(TcpUnauthenticatedPeer, IsNotAdmittedByTheIdOfARank) {
  TcpPair pair(1);
  expect_exchange(pair);
  const auto rank = RankAddress::decode(pair.others[0]->address(), Rank{0});
  RankAddress guessed = rank;
  guessed.secret.fill(std::byte{1});
  const Nonce nonce = random_nonce();
  const ClientExchange right(key_of(pair.producer_address(), rank), nonce);
  for (const bool answers : {false, true}) {
    Client client(pair.producer_address().host_port);
    client.send(opening_of(rank, right));
    const Bytes challenge = client.receive(exchange_payload_bytes, pair);
    ASSERT_EQ(challenge.size(), exchange_payload_bytes);
    ClientExchange wrong(key_of(pair.producer_address(), guessed), nonce);
    client.send(answers ? wrong.receive(challenge).reply : bytes_of(exchange_payload_bytes, 0));
    EXPECT_TRUE(client.is_closed(pair));
    expect_exchange(pair);
  }
  EXPECT_EQ(pair.producer->rejected(), 2u);
}

TEST(TcpUnauthenticatedPeer, IsNotAdmittedByAReplayedProof) {
  TcpPair pair(1);
  expect_exchange(pair);
  const auto rank = RankAddress::decode(pair.others[0]->address(), Rank{0});
  ClientExchange exchange(key_of(pair.producer_address(), rank));
  const Bytes opening = opening_of(rank, exchange);
  Bytes proof;
  {
    Client relay(pair.producer_address().host_port);  // between a rank and the listener
    relay.send(opening);
    proof = exchange.receive(relay.receive(exchange_payload_bytes, pair)).reply;
    ASSERT_EQ(proof.size(), exchange_payload_bytes);
  }
  Client replay(pair.producer_address().host_port);
  replay.send(opening);
  ASSERT_EQ(replay.receive(exchange_payload_bytes, pair).size(), exchange_payload_bytes);
  replay.send(proof);
  EXPECT_TRUE(replay.is_closed(pair));
  expect_exchange(pair);
  EXPECT_EQ(pair.producer->rejected(), 2u);
}

TEST(TcpUnauthenticatedPeer, TakesNoPlaceOfARankEvenInACrowd) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const auto count = static_cast<std::size_t>(std::min<rlim_t>(limit.rlim_cur - 100, 1000));
  TcpPair pair(1);
  expect_exchange(pair);
  const auto before = resident_bytes();
  std::vector<std::unique_ptr<Client>> clients;
  for (std::size_t i = 0; i < count; ++i) {
    clients.push_back(std::make_unique<Client>(pair.producer_address().host_port));
    if (i % 3 == 0) clients.back()->send(bytes_of(20, 1));  // fewer than are expected
    pair.producer->progress();
  }
  expect_exchange(pair);
  EXPECT_GE(pair.producer->rejected(),
            count - most_unproved);  // and their descriptors are free again
  EXPECT_LT(resident_bytes() - before, std::int64_t{16} << 20);
  // The rank connects while further clients connect.
  Bytes in(5);
  auto& late = *pair.others[0];
  Request receive = late.receive(Rank{0}, 1, in);
  const Bytes out = bytes_of(5, 9);
  Request send = pair.producer->send(Rank{1}, 1, out);
  for (const auto deadline = Deadline::after(30); !testing_only::both_complete(receive, send);) {
    ASSERT_FALSE(deadline.expired());
    if (!clients.empty()) clients.pop_back();
    clients.push_back(std::make_unique<Client>(pair.producer_address().host_port));
  }
  EXPECT_EQ(in, out);
  expect_exchange(pair);
}

// Connections use descriptors of the process, whichever of its listeners has accepted them.
TEST(TcpUnauthenticatedPeer, TakesFewDescriptorsAtManyListeners) {
  constexpr std::size_t listeners = 16, at_each = 30;
  std::vector<std::unique_ptr<TcpPair>> pairs;
  for (std::size_t i = 0; i < listeners; ++i) {
    pairs.push_back(std::make_unique<TcpPair>(1));
    expect_exchange(*pairs.back());
  }
  const auto before = open_files();
  std::vector<std::unique_ptr<Client>> clients;
  for (std::size_t i = 0; i < listeners * at_each; ++i) {
    clients.push_back(std::make_unique<Client>(pairs[i % listeners]->producer_address().host_port));
    pairs[i % listeners]->producer->progress();
  }
  for (const auto& pair : pairs)
    for (int i = 0; i < 100; ++i) pair->producer->progress();
  EXPECT_LE(open_files() - before - clients.size(),
            slots_of_process + listeners * slots_of_listener);
  for (const auto& pair : pairs) pair->move_late(bytes_of(5, 9));
}

// A rank's connection is the oldest at the listener, and has carried nothing yet, when more clients
// connect than the listener has room for.
TEST(TcpUnauthenticatedPeer, CanOnlyMakeARankTryAgain) {
  TcpPair pair(1);
  expect_exchange(pair);
  const auto before = open_files();
  Bytes in(5);
  Request receive = pair.others[0]->receive(Rank{0}, 1, in);
  for (const auto deadline = Deadline::after(60); open_files() < before + 2;) {  // both ends
    ASSERT_FALSE(deadline.expired());
    pair.producer->progress();
  }
  std::vector<std::unique_ptr<Client>> clients;
  while (clients.size() < most_unproved) {
    clients.push_back(std::make_unique<Client>(pair.producer_address().host_port));
    for (int i = 0; i < 10; ++i) pair.producer->progress();
  }
  for (const auto deadline = Deadline::after(60); pair.producer->rejected() == 0;) {
    ASSERT_FALSE(deadline.expired());
    pair.producer->progress();
  }
  EXPECT_EQ(pair.producer->rejected(), 1u);
  const Bytes out = bytes_of(5, 9);
  Request send = pair.producer->send(Rank{1}, 1, out);
  pair.finish(send, receive);
  EXPECT_EQ(in, out);
  EXPECT_EQ(pair.producer->rejected(), 2u) << "a client must make room for the rank";
}

TEST(TcpUnauthenticatedPeer, FindsNoPortOnceAllRanksAreConnected) {
  TcpPair pair;
  expect_exchange(pair);
  expect_no_port(pair.producer_address(), *pair.producer);
}

TEST(TcpUnauthenticatedPeer, FindsNoPortOnceAllNeededRanksAreThere) {
  for (const bool is_expected_first : {true, false}) {
    TcpPair pair(1);
    const std::vector<Rank> peers{Rank{0}};
    if (is_expected_first) pair.producer->expect_only(peers);
    expect_exchange(pair);
    if (!is_expected_first) pair.producer->expect_only(peers);
    expect_no_port(pair.producer_address(), *pair.producer);
    Bytes in(5);
    Request receive = pair.producer->receive(Rank{1}, 1, in);
    EXPECT_THROW(receive.test(), core::Error) << "no rank connects";
    pair.producer->expect_only({});
    EXPECT_THROW(pair.move(in, 1), core::Error);
  }
  TcpPair pair(1);
  pair.producer->expect_only({});
  expect_no_port(pair.producer_address(), *pair.producer);
}

TEST(TcpUnauthenticatedPeer, IsDetectedAtThePortOfARank) {
  tcp::Endpoint consumer(Side::consumer, HostPort("127.0.0.1", 0));
  tcp::Endpoint other(Side::producer, HostPort("127.0.0.1", 0));
  RankAddress wrong = RankAddress::decode(other.address(), Rank{0});
  wrong.secret.fill(std::byte{1});
  other.connect(std::vector<Address>{consumer.address()}, Deadline::after(60));
  consumer.connect(std::vector<Address>{wrong.encode()}, Deadline::after(60));
  Bytes in(5);
  Request receive = consumer.receive(Rank{0}, 1, in);
  const Descriptor listener = listen_at(HostPort("127.0.0.1", 0));
  tcp::Endpoint second(Side::consumer, HostPort("127.0.0.1", 0));
  wrong.host_port = HostPort::near_end_of(listener);
  second.connect(std::vector<Address>{wrong.encode()}, Deadline::after(60));
  Request other_receive = second.receive(Rank{0}, 1, in);
  pollfd ready{listener.get(), POLLIN, 0};
  poll(&ready, 1, 10000);
  const Descriptor socket(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  send_at_once(socket, bytes_of(exchange_payload_bytes, 'x'));
  try {
    for (const auto deadline = Deadline::after(60); !other_receive.test();)
      if (deadline.expired()) break;
    ADD_FAILURE() << "the other program was not detected";
  } catch (const core::Error& error) {
    EXPECT_EQ(error.code(), core::Errc::peer_lost);
    EXPECT_NE(std::string(error.what()).find("another program listening on its port"),
              std::string::npos)
        << error.what();
  }
  for (int i = 0; i < 1000; ++i) other.progress(), consumer.progress();
  EXPECT_FALSE(receive.test());  // it keeps trying
  EXPECT_GE(other.rejected(), 1u);
}

}  // namespace tremula::transport
