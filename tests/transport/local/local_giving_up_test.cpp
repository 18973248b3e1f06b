// SPDX-License-Identifier: Apache-2.0
// Sends and receives over local are given up at any moment: every message that is not given up
// arrives exactly once and complete, as if the given-up messages had never existed.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <iostream>
#include <random>
#include <set>

#include "tests/transport/local/local_pair.hpp"

namespace tremula::transport {

namespace {

constexpr std::size_t sizes[] = {4, 8, 4 * kibi, 5 * kibi, 300 * kibi, 700 * kibi};
constexpr std::size_t tags = 3, most_in_flight = 12;

/// Performs random operations at one end of a link.
class RandomUser {
public:
  RandomUser(Endpoint& end, std::uint64_t seed) : link(end), random_(seed) {}
  virtual ~RandomUser() = default;

  void step() {
    const auto choice = below(16);
    if (choice < 6 && flights.size() < most_in_flight) start();
    if (choice == 6) give_up_one();
    if (choice == 7) collect();
    if (choice > 7) link.progress();
  }
  void collect() {
    std::erase_if(flights, [this](Flight& flight) {
      if (!flight.request.test()) return false;
      end(flight);
      return true;
    });
  }
  void give_up_one() {
    if (flights.empty()) return;
    const auto at = flights.begin() + static_cast<std::ptrdiff_t>(below(flights.size()));
    if (at->request.test()) return collect();
    at->request.reset();
    std::fill(at->bytes.begin(), at->bytes.end(), std::byte{0xee});
    forget(*at);
    flights.erase(at);
    ++given_up;
  }
  int given_up = 0;

protected:
  struct Flight {
    Bytes bytes;  // a send holds its number, repeated
    Request request;
    int number = -1;
  };
  virtual void start() = 0;
  virtual void end(Flight&) {}
  virtual void forget(Flight&) {}
  std::size_t below(std::size_t n) { return random_() % n; }

  Endpoint& link;
  std::deque<Flight> flights;

private:
  std::mt19937_64 random_;
};

struct Sender final : RandomUser {
  using RandomUser::RandomUser;
  void start() override {
    auto& flight = flights.emplace_back(Bytes(sizes[below(std::size(sizes))]));
    flight.number = numbers++;
    for (std::size_t at = 0; at < flight.bytes.size(); at += sizeof(int))
      std::memcpy(flight.bytes.data() + at, &flight.number, sizeof(int));
    flight.request = link.send(Rank{0}, below(tags), flight.bytes);
    sent.insert(flight.number);
  }
  void forget(Flight& flight) override { sent.erase(flight.number); }

  int numbers = 0;
  std::set<int> sent;  // numbers of sends not given up
};

struct Receiver final : RandomUser {
  using RandomUser::RandomUser;
  void start() override {
    auto& flight = flights.emplace_back(Bytes(700 * kibi));
    flight.request = link.receive(Rank{0}, below(tags), flight.bytes);
  }
  void end(Flight& flight) override {
    int found = 0;
    std::memcpy(&found, flight.bytes.data(), sizeof found);
    for (std::size_t at = 0; at < flight.request.bytes(); at += sizeof found)
      if (std::memcmp(flight.bytes.data() + at, &found, sizeof found) != 0) {
        ADD_FAILURE() << "message " << found << " differs at byte " << at;
        break;
      }
    EXPECT_TRUE(arrived.insert(found).second) << "message " << found << " arrived before";
  }

  std::set<int> arrived;
};

std::uint64_t test_seed() {
  const char* given = std::getenv("TREMULA_TEST_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : 20260711;
}

struct BothEnds {
  BothEnds() { std::cout << "TREMULA_TEST_SEED=" << seed << '\n'; }
  /// Checks that every message that was not given up eventually arrives.
  void expect_all() {
    const auto is_complete = [this] {
      return std::includes(receiver.arrived.begin(), receiver.arrived.end(), sender.sent.begin(),
                           sender.sent.end());
    };
    for (const auto deadline = Deadline::after(60); !is_complete() && !deadline.expired();) {
      for (std::size_t i = 0; i < most_in_flight; ++i) receiver.step();
      sender.collect();
      pair.producer->progress();
    }
    EXPECT_TRUE(is_complete());
    EXPECT_GT(sender.given_up, 10);
    EXPECT_GT(receiver.given_up, 10);
    EXPECT_GT(sender.sent.size(), 50u);
  }

  std::uint64_t seed = test_seed();
  Pair pair;
  Sender sender{*pair.producer, seed};
  Receiver receiver{*pair.consumer, seed + 1};
};

}  // namespace

TEST(LocalGivingUp, HarmsNoOtherMessageStepByStep) {
  BothEnds ends;
  std::mt19937_64 random(ends.seed);
  for (int round = 0; round < 8000; ++round)
    random() % 2 == 0 ? ends.sender.step() : ends.receiver.step();
  ends.expect_all();
  for (const int number : ends.receiver.arrived)
    EXPECT_TRUE(ends.sender.sent.contains(number)) << number << " was given up before it was read";
}

TEST(LocalGivingUp, HarmsNoOtherMessageAtTheSameTime) {
  BothEnds ends;
  // Runs for a second; on a slow machine, until both sides have given up enough operations.
  const auto second = Deadline::after(1), limit = Deadline::after(30);
  std::atomic<int> unsatisfied = 2;
  const auto run = [&](RandomUser& user) {
    for (bool is_satisfied = false; !second.expired() || (unsatisfied > 0 && !limit.expired());) {
      user.step();
      if (!is_satisfied && user.given_up > 20) --unsatisfied;
      is_satisfied = user.given_up > 20;
    }
  };
  std::thread other([&] { run(ends.sender); });
  run(ends.receiver);
  other.join();
  ends.expect_all();
}

// A complete message is in the ring when its receive is given up, and the ring has no room for the
// command that reports this. If the message were read now, its sender would consider it delivered.
TEST(LocalGivingUp, LeavesAnUnreadMessageToTheNextReceive) {
  const Pair pair;
  const Bytes out = filled(200 * kibi, 7), small = filled(8, 1);
  Bytes given_up(out.size()), in(out.size());
  Request send = pair.producer->send(Rank{0}, 1, out);
  Request receive = pair.consumer->receive(Rank{0}, 1, given_up);
  pair.consumer->progress();  // requests the message
  pair.producer->progress();  // writes the message
  std::vector<Request> crowd;
  for (int i = 0; i < 600; ++i) crowd.push_back(pair.consumer->send(Rank{0}, 2, small));
  receive.reset();
  for (int i = 0; i < 3; ++i) pair.consumer->progress();
  ASSERT_FALSE(crowd.back().test()) << "the ring still has room";
  for (int i = 0; i < 3; ++i) pair.producer->progress();
  receive = pair.consumer->receive(Rank{0}, 1, in);
  pair.finish(receive);
  pair.finish(send);
  EXPECT_EQ(in, out);
}

}  // namespace tremula::transport
