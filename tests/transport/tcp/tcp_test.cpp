// SPDX-License-Identifier: Apache-2.0
// Behaviour of tcp beyond the contract: where it listens, what it keeps, which wire `auto` chooses.
#include "transport/tcp/tcp.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <thread>

#include "core/error.hpp"
#include "tests/transport/both.hpp"
#include "tests/transport/count_allocations.hpp"
#include "tests/transport/tcp/tcp_pair.hpp"
#include "transport/local/hybrid.hpp"
#include "transport/local/wait_words.hpp"
#include "transport/tcp/best_wire.hpp"

namespace tremula::transport {

namespace {

using Texts = std::vector<std::string>;

/// A transport that provides only offers and choices.
class Named final : public Transport {
public:
  Named(Texts offers, Texts choices) : offers_(std::move(offers)), choices_(std::move(choices)) {}
  std::string_view name() const noexcept override { return "named"; }
  Texts offers() const override { return offers_; }
  bool has_choices(std::string_view) const override { return true; }
  Texts choices(std::string_view) override {
    if (choices_.empty()) throw core::Error(core::Errc::unsupported, "there is nothing");
    return choices_;
  }
  std::unique_ptr<Endpoint> open(std::string_view, Side) override { return nullptr; }

private:
  Texts offers_, choices_;
};

}  // namespace

TEST(Tcp, ListensBeyondLoopbackOnlyIfConfigured) {
  EXPECT_EQ(Tcp().offers().size(), 1u);
  EXPECT_TRUE(Tcp().offers().front().starts_with("tcp@"));
  EXPECT_EQ(Tcp("127.0.0.1").offers().back(), "tcp");
  EXPECT_THROW(Tcp().open("tcp", Side::producer), core::Error);
  EXPECT_THROW(Tcp("nowhere").open("tcp", Side::producer), core::Error);
  const auto own = tcp::RankAddress::decode(
      Tcp().open(Tcp().offers().front(), Side::producer)->address(), Rank{0});
  EXPECT_TRUE(own.host_port.text().starts_with("127.0.0.1:")) << own.host_port.text();
}

TEST(Tcp, ProbesADeadHostEvenBeforeTheProof) {
  const tcp::HostPort here("127.0.0.1", 0);
  const tcp::Descriptor listener = tcp::listen_at(here);
  const tcp::Descriptor socket = tcp::begin_connecting(here, tcp::HostPort::near_end_of(listener));
  int probes = 0;
  socklen_t bytes = sizeof probes;
  ASSERT_EQ(getsockopt(socket.get(), SOL_SOCKET, SO_KEEPALIVE, &probes, &bytes), 0);
  EXPECT_EQ(probes, 1);
}

TEST(Tcp, KeepsNoDescriptorOfLinksThatHaveEnded) {
  const auto before = open_files();
  for (int i = 0; i < 3; ++i) {
    TcpPair pair;
    pair.move(Bytes(10), 1);
    EXPECT_GT(open_files(), before);
  }
  EXPECT_EQ(open_files(), before);
}

TEST(Tcp, AllocatesNothingForAMessage) {
  if (!testing_only::counts_allocations()) GTEST_SKIP() << "a sanitizer allocates here";
  TcpPair pair;
  const Bytes small(100), long_one(std::size_t{300} << 10), late(5000);
  Bytes room(long_one.size());
  const auto round = [&] {
    for (const Bytes* const message : {&small, &long_one}) pair.move(*message, 1, room);
    Request send = pair.producer->send(Rank{0}, 2, late);
    for (int i = 0; i < 100; ++i) pair.consumer->progress();
    Request receive = pair.consumer->receive(Rank{0}, 2, room);
    pair.finish(send, receive);
  };
  for (int i = 0; i < 20; ++i) round();
  const long before = testing_only::allocations();
  for (int i = 0; i < 200; ++i) round();
  EXPECT_EQ(testing_only::allocations() - before, 0);
}

// An announced message is lost with its sender. A later message with the same tag must not complete
// the receive of the lost one.
TEST(Tcp, LetsNoMessageOvertakeOneThatIsLost) {
  for (const bool is_pulled : {false, true}) {
    TcpPair pair;
    pair.move(Bytes(1), 1);
    Bytes room(std::size_t{100} << 10);
    const Bytes large(room.size()), small(8);
    Request first = pair.producer->send(Rank{0}, 9, large),
            second = pair.producer->send(Rank{0}, 9, small),
            other = pair.producer->send(Rank{0}, 8, small);
    for (int i = 0; i < 100; ++i) pair.producer->progress(), pair.consumer->progress();
    if (is_pulled) {
      Request given_up = pair.consumer->receive(Rank{0}, 9, room);
      EXPECT_FALSE(given_up.test());
    }
    for (Request* const send : {&first, &second, &other}) send->reset();
    pair.producer.reset();
    for (int i = 0; i < 100; ++i) pair.consumer->progress();
    for (int i = 0; i < 2; ++i) {
      Request receive = pair.consumer->receive(Rank{0}, 9, room);
      EXPECT_THROW(receive.test(), core::Error) << is_pulled << i;
    }
    Request receive = pair.consumer->receive(Rank{0}, 8, room);
    EXPECT_TRUE(receive.test()) << "this message has arrived whole";
  }
}

// The receive of a long message is given up while its bytes arrive, and the next receive has no room
// for the message.
TEST(Tcp, RefusesALongMessageAfterAGivenUpReceive) {
  TcpPair pair;
  pair.move(Bytes(1), 1);
  const Bytes message(std::size_t{128} << 20);
  Bytes room(message.size()), small(std::size_t{1} << 20);
  Request send = pair.producer->send(Rank{0}, 9, message);
  {
    Request receive = pair.consumer->receive(Rank{0}, 9, room);
    for (int i = 0; i < 10; ++i) pair.producer->progress(), pair.consumer->progress();
    ASSERT_FALSE(receive.test()) << "the receive ended too early for this test";
  }
  Request receive = pair.consumer->receive(Rank{0}, 9, small);
  EXPECT_THROW(receive.test(), core::Error);
  const auto deadline = Deadline::after(30);
  while (!send.test() && !deadline.expired()) pair.consumer->progress();
  EXPECT_TRUE(send.test());
  pair.move(Bytes(5000), 2);
  pair.move(message, 3, room);
}

// A rank that has posted no receive keeps 256 KiB of a peer's small messages; all further messages
// wait at the sender.
TEST(Tcp, BuffersABoundedPartWithoutAReceive) {
  TcpPair pair;
  pair.move(Bytes(1), 1);
  constexpr std::size_t count = 20000;
  const Bytes message(8000);
  std::vector<Request> sends;
  for (std::size_t i = 0; i < count; ++i) sends.push_back(pair.producer->send(Rank{0}, 7, message));
  for (int i = 0; i < 1000; ++i) pair.producer->progress(), pair.consumer->progress();
  std::size_t tested = 0;
  for (Request& send : sends)
    if (send.test()) ++tested;
  EXPECT_LE(tested * message.size(), std::size_t{256} << 10);
  Bytes room(message.size());
  for (std::size_t i = 0; i < count; ++i) {
    Request receive = pair.consumer->receive(Rank{0}, 7, room);
    pair.finish(sends[i], receive);
  }
}

TEST(Tcp, WakesARankThatSleeps) {
  using std::chrono::seconds;
  TcpPair pair;
  pair.move(Bytes(1), 1);
  for (const auto quiet = Deadline::after(60); pair.consumer->wake_descriptor() < 0;) {
    ASSERT_FALSE(quiet.expired());
    pair.consumer->progress();
  }
  const Bytes out(5);
  Bytes in(5);
  Request receive = pair.consumer->receive(Rank{0}, 2, in);
  const auto start = Deadline::Clock::now();
  Request send;
  {
    const std::jthread producer([&] { send = pair.producer->send(Rank{0}, 2, out); });
    EXPECT_TRUE(
        local::sleep_on(std::array{local::WaitWord{.descriptor = pair.consumer->wake_descriptor()}},
                        seconds(60), seconds(60)));
  }
  EXPECT_LT(Deadline::Clock::now() - start, seconds(30));
  pair.finish(send, receive);
}

TEST(WaitWords, SleepOnPolledWordsOnlyWithWakingOnes) {
  const local::WaitWord polled{};
  const std::chrono::microseconds moment(100);
  EXPECT_FALSE(local::sleep_on({}, moment, moment));
  EXPECT_FALSE(local::sleep_on(std::array{polled}, moment, moment));
  TcpPair pair;
  pair.consumer->progress();
  const local::WaitWord waking{.descriptor = pair.consumer->wake_descriptor()};
  ASSERT_GE(waking.descriptor, 0);
  // Sleeps for the shorter time.
  EXPECT_TRUE(local::sleep_on(std::array{waking, polled}, moment, std::chrono::hours(1)));
}

// Ranks that share memory do not connect over tcp.
TEST(Tcp, StopsListeningOnceAllFarRanksAreThere) {
  const auto before = listening_sockets();
  const std::string offer = "local+" + Tcp().offers().front();
  HybridTransport here(std::make_unique<Tcp>(), "a"), there(std::make_unique<Tcp>(), "b");
  const auto producer = here.open(offer, Side::producer);
  std::vector<std::unique_ptr<Endpoint>> consumers;
  std::vector<Address> addresses;
  for (HybridTransport* const machine : {&here, &there, &here, &there})
    addresses.push_back(consumers.emplace_back(machine->open(offer, Side::consumer))->address());
  {
    std::vector<std::jthread> threads;
    for (const auto& consumer : consumers)
      threads.emplace_back([&] {
        consumer->connect(std::vector<Address>{producer->address()}, Deadline::after(30));
      });
    producer->connect(addresses, Deadline::after(30));
  }
  EXPECT_EQ(listening_sockets(), before + 1);
  // It exchanges nothing with the last one.
  producer->expect_only(std::vector<Rank>{{0}, {1}, {2}});
  const Bytes out(5);
  Bytes in(5);
  Request receive = consumers[1]->receive(Rank{0}, 1, in), send = producer->send(Rank{1}, 1, out);
  for (const auto deadline = Deadline::after(30); !testing_only::both_complete(receive, send);)
    ASSERT_FALSE(deadline.expired());
  EXPECT_EQ(listening_sockets(), before);
}

TEST(BestWire, TakesTcpUnlessTheOtherWireIsBetter) {
  const std::string near = Tcp().offers().front();
  const auto is_better = [](std::string_view choice) { return choice == "x:fast"; };
  const auto wire = [&](Texts choices, bool may_have_better) {
    return BestWire(Tcp("127.0.0.1"), std::make_unique<Named>(Texts{"x@here", "x"}, choices),
                    is_better, may_have_better);
  };
  EXPECT_EQ(wire({}, false).offers(), (Texts{near, "tcp", "x@here", "x"}));
  EXPECT_EQ(wire({}, true).offers(), (Texts{"x@here", "x", near, "tcp"}));
  EXPECT_FALSE(wire({}, true).has_choices("tcp"));
  EXPECT_TRUE(wire({}, true).has_choices("x"));
  EXPECT_EQ(wire({"x:slow"}, true).choices("x"), (Texts{"tcp"}));
  EXPECT_EQ(wire({"x:fast", "x:slow"}, true).choices("x"), (Texts{"x:fast", "tcp"}));
  EXPECT_EQ(wire({"x:slow"}, true).choices("x@here"), (Texts{near}));
  EXPECT_EQ(wire({}, true).choices("x"), (Texts{"tcp"}));
  EXPECT_NE(wire({}, true).open("tcp", Side::consumer), nullptr);
}

}  // namespace tremula::transport
