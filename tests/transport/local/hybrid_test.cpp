// SPDX-License-Identifier: Apache-2.0
// Checks which transport a pair of ranks uses, and that a transport that is not used is not called.
#include "transport/local/hybrid.hpp"

#include <gtest/gtest.h>

#include "tests/transport/both.hpp"
#include "tests/transport/local/local_pair.hpp"
#include "transport/loopback/loopback.hpp"

namespace tremula::transport {

namespace {

/// An endpoint that counts the calls to its progress().
class Counted final : public Endpoint {
public:
  Counted(std::unique_ptr<Endpoint> inner, int& calls) : inner_(std::move(inner)), calls_(calls) {}
  Address address() const override { return inner_->address(); }
  void connect(std::span<const Address> peers, Deadline deadline) override {
    inner_->connect(peers, deadline);
  }
  Request send(Rank peer, Tag tag, BytesView bytes) override {
    return inner_->send(peer, tag, bytes);
  }
  Request receive(Rank peer, Tag tag, std::span<std::byte> bytes) override {
    return inner_->receive(peer, tag, bytes);
  }
  void progress() override {
    ++calls_;
    inner_->progress();
  }

private:
  std::unique_ptr<Endpoint> inner_;
  int& calls_;
};

class CountedLoopback final : public Transport {
public:
  CountedLoopback(Network& network, int& calls) : loopback_(network), calls_(calls) {}
  std::string_view name() const noexcept override { return loopback_.name(); }
  std::vector<std::string> offers() const override { return {"loopback", "worse"}; }
  bool has_choices(std::string_view offer) const override { return offer == "worse"; }
  std::vector<std::string> choices(std::string_view offer) override {
    return {std::string(offer) + ":a", std::string(offer) + ":b"};
  }
  std::unique_ptr<Endpoint> open(std::string_view offer, Side side) override {
    return std::make_unique<Counted>(loopback_.open(offer, side), calls_);
  }

private:
  Loopback loopback_;
  int& calls_;
};

/// A producer on machine "a" and consumers on the given machines.
struct Link {
  explicit Link(const std::vector<std::string>& machines) {
    for (const auto& machine : machines) consumers.push_back(open(Side::consumer, machine));
    std::vector<Address> addresses;
    std::vector<std::thread> threads;
    for (auto& consumer : consumers) {
      addresses.push_back(consumer->address());
      threads.emplace_back([&] {
        consumer->connect(std::vector<Address>{producer->address()}, Deadline::after(60));
      });
    }
    producer->connect(addresses, Deadline::after(60));
    for (auto& thread : threads) thread.join();
    progress_of_far = 0;
  }
  std::unique_ptr<Endpoint> open(Side side, const std::string& machine) {
    transports.push_back(std::make_unique<HybridTransport>(
        std::make_unique<CountedLoopback>(network, progress_of_far), machine));
    return transports.back()->open("local+loopback", side);
  }
  Network network;
  int progress_of_far = 0;
  std::vector<std::unique_ptr<Transport>> transports;
  std::unique_ptr<Endpoint> producer = open(Side::producer, "a");
  std::vector<std::unique_ptr<Endpoint>> consumers;
};

}  // namespace

TEST(HybridTransport, OffersTheMixedTransportFirst) {
  Network network;
  int calls = 0;
  HybridTransport both(std::make_unique<CountedLoopback>(network, calls));
  EXPECT_EQ(both.name(), "loopback");
  EXPECT_EQ(both.offers(),
            (std::vector<std::string>{"local+loopback", "local+worse", "loopback", "worse"}));
  EXPECT_FALSE(both.open("loopback", Side::producer)->is_near(Rank{0}));
  EXPECT_THROW(both.open("local+elsewhere", Side::producer), core::Error);
}

TEST(HybridTransport, HasTheChoicesOfTheOtherTransport) {
  Network network;
  int calls = 0;
  HybridTransport both(std::make_unique<CountedLoopback>(network, calls));
  for (const char* without : {"loopback", "local+loopback"})
    EXPECT_FALSE(both.has_choices(without)) << without;
  for (const std::string offer : {"worse", "local+worse"}) {
    EXPECT_TRUE(both.has_choices(offer)) << offer;
    EXPECT_EQ(both.choices(offer), (std::vector<std::string>{offer + ":a", offer + ":b"}));
  }
}

TEST(HybridTransport, SendsThroughMemoryOnlyOnTheSameMachine) {
  const std::vector<std::string> machines{"a", "b", "a", "c", "b"};
  Link link(machines);
  for (std::size_t i = 0; i < machines.size(); ++i) {
    const Rank rank = core::to_rank(i);
    const bool is_near = machines[i] == "a";
    EXPECT_EQ(link.producer->is_near(rank), is_near) << i;
    EXPECT_EQ(link.consumers[i]->is_near(Rank{0}), is_near) << i;
    const auto before = link.network.counters().messages_sent;
    const Bytes out = filled(100 * kibi, rank.value);
    Bytes in(out.size());
    Request receive = link.consumers[i]->receive(Rank{0}, 1, in),
            send = link.producer->send(rank, 1, out);
    for (const auto deadline = Deadline::after(60); !testing_only::both_complete(send, receive);)
      ASSERT_FALSE(deadline.expired());
    EXPECT_EQ(receive.bytes(), out.size());
    EXPECT_EQ(in, out);
    EXPECT_EQ(link.network.counters().messages_sent - before, is_near ? 0 : 1) << i;
  }
}

TEST(HybridTransport, DoesNotCallTheOtherWayIfAllAreNear) {
  Link link({"a", "a"});
  for (int i = 0; i < 1000; ++i) link.producer->progress();
  EXPECT_EQ(link.progress_of_far, 0);
}

TEST(HybridTransport, AdvancesBothWaysWhileOneIsTested) {
  Link link({"a", "b"});
  Bytes in(8);
  Request near = link.producer->receive(Rank{0}, 1, in),
          far = link.producer->receive(Rank{1}, 1, in);
  EXPECT_FALSE(near.test());
  EXPECT_GT(link.progress_of_far, 0) << "testing a near request must advance the far one";
  const Bytes large = filled(mebi, 1);
  Bytes arrived(mebi);
  Request send = link.producer->send(Rank{0}, 2, large),
          receive = link.consumers[0]->receive(Rank{0}, 2, arrived);
  for (const auto deadline = Deadline::after(60); !receive.test() && !deadline.expired();)
    EXPECT_FALSE(far.test());
  EXPECT_EQ(arrived, large) << "testing a far request must advance the near one";
}

TEST(HybridTransport, RefusesMalformedAddresses) {
  Link link({"a"});
  const Address good = link.open(Side::consumer, "b")->address();
  for (const auto& address : {Address{}, Address(good.begin(), good.end() - 1),
                              Address(good.begin(), good.begin() + 3), filled(999, 255)}) {
    const auto error = error_of([&] {
      link.open(Side::producer, "a")->connect(std::vector<Address>{address}, Deadline::after(1));
    });
    EXPECT_EQ(error.code(), core::Errc::transport) << error.what();
  }
}

TEST(HybridTransport, StopsConnectingOnRequest) {
  Network network;
  HybridTransport transport(std::make_unique<Loopback>(network), "a");
  const auto open = [&](Side side) { return transport.open("local+loopback", side); };
  const auto silent = open(Side::consumer), end = open(Side::producer);
  const auto stopped = stopped_error(*end, silent->address());
  EXPECT_EQ(stopped.code(), core::Errc::cancelled) << stopped.what();
}

}  // namespace tremula::transport
