// SPDX-License-Identifier: Apache-2.0
// Tests the messages that a transport delivers. failure_test.cpp tests how it behaves when
// operations fail.
#include "tests/contract/contract.hpp"

#include <algorithm>
#include <random>
#include <ranges>

namespace tremula::contract {

namespace {

constexpr std::size_t kibi = 1024, mebi = kibi * kibi;

/// Returns a seed that distinguishes the messages of one test.
std::uint64_t seed_of(Side from, Rank sender, Rank receiver, std::uint64_t message = 0) {
  return (from == Side::producer ? 1u : 2u) + 4 * static_cast<std::uint64_t>(sender.value) +
         (static_cast<std::uint64_t>(receiver.value) << 20) + (message << 40);
}
Side other(Side side) { return side == Side::producer ? Side::consumer : Side::producer; }

/// Moves one message from the producer to the consumer, and one of the same size back.
void there_and_back(Participant& self, Endpoint& link, std::size_t bytes) {
  const Bytes out = pattern(bytes, seed_of(self.side, Rank{0}, Rank{0}));
  Bytes in(bytes);
  Request receive = link.receive(Rank{0}, 5, in);
  Request send = link.send(Rank{0}, 5, out);
  finish(link, receive);
  finish(link, send);
  EXPECT_EQ(receive.bytes(), bytes);
  EXPECT_EQ(send.bytes(), bytes);
  EXPECT_TRUE(is_pattern(in, seed_of(other(self.side), Rank{0}, Rank{0})));
}

}  // namespace

TEST_P(TransportContract, MovesMessagesOfEverySizeClass) {
  on_link(1, 1, [](Participant& self, Link& link) {
    for (std::size_t bytes :
         {std::size_t{1}, std::size_t{8}, std::size_t{63}, std::size_t{64}, std::size_t{65},
          4 * kibi - 1, 4 * kibi + 1, 16 * kibi, 64 * kibi + 3, mebi, 3 * mebi + 7})
      there_and_back(self, *link, bytes);
  });
}

TEST_P(TransportContract, MovesAMessageOf64MiB) {
  on_link(1, 1, [](Participant& self, Link& link) { there_and_back(self, *link, 64 * mebi); });
}

TEST_P(TransportContract, MovesMessagesOfZeroBytes) {
  on_link(1, 1, [](Participant& self, Link& link) {
    there_and_back(self, *link, 0);
    if (self.side == Side::producer) {
      Request send = link->send(Rank{0}, 1, {});
      finish(*link, send);
    } else {
      Bytes room(100, std::byte{42});
      Request receive = link->receive(Rank{0}, 1, room);
      finish(*link, receive);
      EXPECT_EQ(receive.bytes(), 0u);
      EXPECT_EQ(room, Bytes(100, std::byte{42}));
    }
  });
}

TEST_P(TransportContract, MatchesAllBitsOfTheTagInAnyOrder) {
  std::vector<Tag> tags{0, ~Tag{0}};
  for (int bit = 0; bit < 64; ++bit) tags.push_back(Tag{1} << bit);
  auto order = tags;
  std::shuffle(order.begin(), order.end(), std::mt19937_64(random_seed()));

  on_link(1, 1, [&](Participant& self, Link& link) {
    for (const bool is_reversed :
         {false, true}) {  // so that each tag precedes every other tag once
      for (const std::size_t bytes : {std::size_t{16}, 40 * kibi}) {
        std::vector<Request> requests;
        std::vector<Bytes> messages;
        const auto receive_order = is_reversed ? std::vector(order.rbegin(), order.rend()) : order;
        if (self.side == Side::consumer) {
          messages.assign(order.size(), Bytes(bytes));
          for (std::size_t i = 0; i < order.size(); ++i)
            requests.push_back(link->receive(Rank{0}, receive_order[i], messages[i]));
        }
        self.meet(link.get());
        if (self.side == Side::producer) {
          for (Tag tag : tags) messages.push_back(pattern(bytes, tag));
          for (std::size_t i = 0; i < tags.size(); ++i)
            requests.push_back(link->send(Rank{0}, tags[i], messages[i]));
        }
        finish(*link, requests);
        for (std::size_t i = 0; i < order.size() && self.side == Side::consumer; ++i)
          EXPECT_TRUE(is_pattern(messages[i], receive_order[i]))
              << "tag " << std::hex << receive_order[i];
      }
    }
  });
}

TEST_P(TransportContract, KeepsTheOrderOfEqualTags) {
  // Sizes that backends move in different ways alternate, so that a message moved in a fast way
  // could overtake one moved in a slow way.
  const auto bytes_of = [](std::uint64_t i) {
    return i % 3 == 0 ? 8 : i % 3 == 1 ? 6 * kibi : 300 * kibi;
  };
  constexpr std::uint64_t count = 60;
  on_link(1, 1, [&](Participant& self, Link& link) {
    for (const Side first : {Side::producer, Side::consumer}) {
      std::vector<Request> requests;
      std::vector<Bytes> messages;
      for (std::uint64_t i = 0; i < count; ++i)
        messages.push_back(self.side == Side::producer ? pattern(bytes_of(i), i)
                                                       : Bytes(300 * kibi));
      if (self.side != first) self.meet(link.get());
      for (std::uint64_t i = 0; i < count; ++i)
        requests.push_back(self.side == Side::producer ? link->send(Rank{0}, 9, messages[i])
                                                       : link->receive(Rank{0}, 9, messages[i]));
      if (self.side == first) self.meet(link.get());
      finish(*link, requests);
      for (std::uint64_t i = 0; i < count && self.side == Side::consumer; ++i) {
        ASSERT_EQ(requests[i].bytes(), bytes_of(i));
        EXPECT_TRUE(is_pattern(std::span(messages[i]).first(bytes_of(i)), i));
      }
    }
  });
}

TEST_P(TransportContract, KeepsTheOrderOfMoreMessagesThanItHasRoomFor) {
  on_link(1, 1, [](Participant& self, Link& link) {
    std::vector<std::uint64_t> numbers(8000);
    std::vector<Request> requests;
    for (std::uint64_t i = 0; i < numbers.size(); ++i) {
      const std::span number(&numbers[i], 1);
      if (self.side == Side::producer) numbers[i] = i;
      requests.push_back(self.side == Side::producer
                             ? link->send(Rank{0}, 9, std::as_bytes(number))
                             : link->receive(Rank{0}, 9, std::as_writable_bytes(number)));
    }
    finish(*link, requests);
    for (std::uint64_t i = 0; i < numbers.size(); ++i) ASSERT_EQ(numbers[i], i);
  });
}

TEST_P(TransportContract, DeliversMessagesSentBeforeTheirReceives) {
  on_link(1, 1, [](Participant& self, Link& link) {
    for (std::size_t bytes : {std::size_t{0}, std::size_t{100}, 12 * kibi, 2 * mebi}) {
      const Bytes out = pattern(bytes, 3);
      Bytes in(bytes);
      Request request;
      if (self.side == Side::producer) request = link->send(Rank{0}, 3, out);
      self.meet(link.get());
      if (self.side == Side::consumer) request = link->receive(Rank{0}, 3, in);
      finish(*link, request);
      EXPECT_EQ(request.bytes(), bytes);
      if (self.side == Side::consumer) {
        EXPECT_TRUE(is_pattern(in, 3));
      }
      self.meet(link.get());
    }
  });
}

TEST_P(TransportContract, KeepsManyMessagesUntilTheirReceivesAreThere) {
  on_link(1, 1, [](Participant& self, Link& link) {
    constexpr std::size_t count = 500, bytes = 100;
    std::vector<Request> requests;
    std::vector<Bytes> messages;
    for (std::size_t i = 0; i < count; ++i)
      messages.push_back(self.side == Side::producer ? pattern(bytes, i) : Bytes(bytes));
    for (std::size_t i = 0; i < count && self.side == Side::producer; ++i)
      requests.push_back(link->send(Rank{0}, i, messages[i]));
    self.meet(link.get());
    for (std::size_t i = count; i-- > 0 && self.side == Side::consumer;)
      requests.push_back(link->receive(Rank{0}, i, messages[i]));
    finish(*link, requests);
    for (std::size_t i = 0; i < count && self.side == Side::consumer; ++i)
      ASSERT_TRUE(is_pattern(messages[i], i)) << "message " << i;
  });
}

TEST_P(TransportContract, MovesBothDirectionsAtOnce) {
  on_link(1, 1, [](Participant& self, Link& link) {
    constexpr std::size_t rounds = 8, bytes = 4 * mebi;
    std::vector<Bytes> out, in(rounds, Bytes(bytes));
    std::vector<Request> requests;
    for (std::size_t i = 0; i < rounds; ++i)
      out.push_back(pattern(bytes, seed_of(self.side, Rank{0}, Rank{0}, i)));
    for (std::size_t i = 0; i < rounds; ++i) requests.push_back(link->send(Rank{0}, i, out[i]));
    for (std::size_t i = 0; i < rounds; ++i) requests.push_back(link->receive(Rank{0}, i, in[i]));
    finish(*link, requests);
    for (std::size_t i = 0; i < rounds; ++i)
      EXPECT_TRUE(is_pattern(in[i], seed_of(other(self.side), Rank{0}, Rank{0}, i)));
  });
}

TEST_P(TransportContract, KeepsPeersApart) {
  on_link(3, 2, [](Participant& self, Link& link) {
    for (std::size_t bytes : {std::size_t{0}, std::size_t{24}, 100 * kibi}) {
      std::vector<Bytes> out, in(static_cast<std::size_t>(self.peers), Bytes(bytes));
      std::vector<Request> requests;
      // In reverse order of the sends, with equal tags.
      for (const Rank p : core::all_ranks(self.peers) | std::views::reverse)
        requests.push_back(link->receive(p, 77, in[at(p)]));
      for (const Rank p : core::all_ranks(self.peers))
        out.push_back(pattern(bytes, seed_of(self.side, self.rank, p)));
      for (const Rank p : core::all_ranks(self.peers))
        requests.push_back(link->send(p, 77, out[at(p)]));
      finish(*link, requests);
      for (const Rank p : core::all_ranks(self.peers))
        EXPECT_TRUE(is_pattern(in[at(p)], seed_of(other(self.side), p, self.rank)))
            << "from " << p.value << " to " << self.rank.value;
    }
  });
}

#if defined(__SANITIZE_THREAD__) || defined(TREMULA_EMULATED)
constexpr RankCount many = 100;  // it would take minutes to start a thousand threads
#else
constexpr RankCount many = 1000;
#endif

TEST_P(TransportContract, ReachesManyPeers) {
  const RankCount peers = std::min<RankCount>(many, rig().participants() - 1);
  on_link(1, peers, [](Participant& self, Link& link) {
    const auto count = static_cast<std::size_t>(self.peers);
    std::vector<std::uint64_t> in(count), out(count);
    std::vector<Request> requests;
    for (const Rank p : core::all_ranks(self.peers)) {
      const auto i = at(p);
      out[i] = seed_of(self.side, self.rank, p);
      requests.push_back(link->receive(p, 1, std::as_writable_bytes(std::span(&in[i], 1))));
      requests.push_back(link->send(p, 1, std::as_bytes(std::span(&out[i], 1))));
    }
    finish(*link, requests);
    for (const Rank p : core::all_ranks(self.peers))
      EXPECT_EQ(in[at(p)], seed_of(other(self.side), p, self.rank));
  });
}

TEST_P(TransportContract, ReportsTheLengthOfAShorterMessage) {
  on_link(1, 1, [](Participant& self, Link& link) {
    for (std::size_t bytes : {std::size_t{1}, std::size_t{1000}, 5 * kibi, mebi}) {
      if (self.side == Side::producer) {
        const Bytes out = pattern(bytes, 8);
        Request send = link->send(Rank{0}, 8, out);
        finish(*link, send);
      } else {
        Bytes room(2 * mebi, std::byte{42});
        Request receive = link->receive(Rank{0}, 8, room);
        finish(*link, receive);
        EXPECT_EQ(receive.bytes(), bytes);
        EXPECT_TRUE(is_pattern(std::span(room).first(bytes), 8));
        EXPECT_EQ(room[bytes], std::byte{42});
      }
    }
  });
}

TEST_P(TransportContract, MovesManyLinksAtOnceInOneProcess) {
  if (rig().participants() < 2) GTEST_SKIP();
  rig().run(1, 1, [](Participant& self) {
    constexpr std::size_t links = 5;
    std::vector<std::unique_ptr<Endpoint>> open;
    for (std::size_t i = 0; i < links; ++i) open.push_back(self.connected());
    std::vector<Bytes> out, in(links, Bytes(200 * kibi));
    for (std::size_t i = 0; i < links; ++i)
      out.push_back(pattern(200 * kibi, seed_of(self.side, Rank{0}, Rank{0}, i)));
    std::vector<Request> requests;
    for (std::size_t i = 0; i < links; ++i) {
      requests.push_back(open[i]->receive(Rank{0}, 1, in[i]));
      requests.push_back(open[i]->send(Rank{0}, 1, out[i]));
    }
    for (std::size_t i = 0; i < links; ++i) finish(*open[i], std::span(requests).subspan(2 * i, 2));
    for (std::size_t i = 0; i < links; ++i)
      EXPECT_TRUE(is_pattern(in[i], seed_of(other(self.side), Rank{0}, Rank{0}, i)))
          << "link " << i;
    for (auto& link : open) self.meet(link.get());
  });
}

TEST_P(TransportContract, LargeMessageOfMoreThan2GiBArrives) {
  on_link(1, 1, [](Participant& self, Link& link) {
    constexpr std::size_t bytes = (std::size_t{2} << 30) + 4097;
    Bytes message = self.side == Side::producer ? pattern(bytes, 2) : Bytes(bytes);
    Request request = self.side == Side::producer ? link->send(Rank{0}, 2, message)
                                                  : link->receive(Rank{0}, 2, message);
    finish(*link, std::span(&request, 1),
           Patience(240, 100));  // polls often, because the bytes arrive in small parts
    EXPECT_EQ(request.bytes(), bytes);
    if (self.side == Side::consumer) {
      EXPECT_TRUE(is_pattern(message, 2));
    }
  });
}

}  // namespace tremula::contract
