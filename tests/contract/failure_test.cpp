// SPDX-License-Identifier: Apache-2.0
// Tests a transport when operations are given up, lengths differ or a peer dies. It may report an
// error or not complete an operation, but must never wait endlessly or deliver wrong bytes.
#include <chrono>
#include <optional>
#include <random>
#include <thread>

#include "core/error.hpp"
#include "tests/contract/contract.hpp"

namespace tremula::contract {

namespace {

constexpr std::size_t kibi = 1024, mebi = kibi * kibi;
/// If a cancel or a destructor takes longer, it is assumed to wait for its peer. It needs far less
/// time, but the machine may be busy.
constexpr double give_up_seconds = 40;

double seconds_of(const std::function<void()>& action) {
  const auto start = std::chrono::steady_clock::now();
  action();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Tests `request` for at most `seconds`. Returns the error with which it ended; nullopt if it
/// ended without an error, or has not ended.
std::optional<core::Error> error_of(Endpoint& link, Request& request, double seconds) {
  const auto deadline = Deadline::after(seconds);
  try {
    while (!request.test() && !deadline.expired()) {
      link.progress();
      std::this_thread::yield();
    }
  } catch (const core::Error& error) {
    return error;
  }
  return std::nullopt;
}

void expect_loss(const core::Error& error) {
  EXPECT_TRUE(error.code() == core::Errc::peer_lost || error.code() == core::Errc::transport)
      << error.what();
}

}  // namespace

TEST_P(TransportContract, RefusesAMessageLongerThanItsReceive) {
  on_link(1, 1, [](Participant& self, Link& link) {
    struct Lengths {
      std::size_t sent, posted;
    };
    for (auto [sent, posted] : {Lengths{200, 100}, Lengths{1, 0}, Lengths{9000, 8999},
                                Lengths{60 * kibi, 1000}, Lengths{4 * mebi, mebi}}) {
      for (bool posted_first : {true, false}) {
        const Bytes out = pattern(sent, 1);
        Bytes room(posted + 64, std::byte{42});
        Request request;
        if (self.side == Side::consumer && posted_first)
          request = link->receive(Rank{0}, 1, std::span(room).first(posted));
        self.meet(link.get());
        if (self.side == Side::producer) request = link->send(Rank{0}, 1, out);
        if (!posted_first) self.meet(link.get());
        if (self.side == Side::consumer && !posted_first)
          request = link->receive(Rank{0}, 1, std::span(room).first(posted));
        if (self.side == Side::consumer) {
          const auto error = error_of(*link, request, patience_seconds);
          ASSERT_TRUE(error) << sent << " bytes into " << posted;
          EXPECT_EQ(error->code(), core::Errc::transport) << error->what();
          EXPECT_NE(std::string(error->what()).find(std::to_string(posted)), std::string::npos)
              << error->what();
          for (std::size_t i = posted; i < room.size(); ++i) ASSERT_EQ(room[i], std::byte{42});
        }
        // The next message must arrive unharmed.
        Bytes next = self.side == Side::producer ? pattern(500, 2) : Bytes(500);
        Request after = self.side == Side::producer ? link->send(Rank{0}, 2, next)
                                                    : link->receive(Rank{0}, 2, next);
        finish(*link, after);
        EXPECT_TRUE(is_pattern(next, 2));
        self.meet(link.get());
        if (self.side == Side::producer) error_of(*link, request, 0);
      }
    }
  });
}

TEST_P(TransportContract, GivesUpAReceiveAndLeavesItsBytesUnchanged) {
  on_link(1, 1, [](Participant& self, Link& link) {
    for (std::size_t bytes : {std::size_t{100}, 2 * mebi}) {
      const Bytes out = pattern(bytes, 4);
      Bytes given_up(bytes, std::byte{42}), in(bytes);
      if (self.side == Side::consumer) {
        Request receive = link->receive(Rank{0}, 4, given_up);
        EXPECT_FALSE(receive.test());
        EXPECT_LT(seconds_of([&] { receive.reset(); }), give_up_seconds);
        EXPECT_TRUE(receive.test());
      }
      self.meet(link.get());
      Request request =
          self.side == Side::producer ? link->send(Rank{0}, 4, out) : link->receive(Rank{0}, 4, in);
      finish(*link, request);
      if (self.side == Side::consumer) {
        EXPECT_TRUE(is_pattern(in, 4));
        EXPECT_EQ(given_up, Bytes(bytes, std::byte{42}));
      }
      self.meet(link.get());
    }
  });
}

TEST_P(TransportContract, GivesUpAThousandReceivesInTime) {
  on_link(1, 1, [](Participant&, Link& link) {
    Bytes room(8000);
    std::vector<Request> requests;
    for (std::size_t i = 0; i < 1000; ++i)
      requests.push_back(link->receive(Rank{0}, i, std::span(room).subspan(8 * i, 8)));
    for (int i = 0; i < 5; ++i) link->progress();
    EXPECT_LT(seconds_of([&] { requests.clear(); }), give_up_seconds);
  });
}

TEST_P(TransportContract, GivesUpASend) {
  // The link may be unusable afterwards; a message that still arrives must be complete.
  on_link(1, 1, [](Participant& self, Link& link) {
    constexpr std::size_t bytes = 8 * mebi;
    if (self.side == Side::producer) {
      auto out = std::make_unique<Bytes>(pattern(bytes, 6));
      Request send = link->send(Rank{0}, 6, *out);
      EXPECT_FALSE(send.test());
      EXPECT_LT(seconds_of([&] { send.reset(); }), give_up_seconds);
      std::fill(out->begin(), out->end(), std::byte{13});
      out.reset();
    }
    self.meet(link.get());
    if (self.side == Side::consumer) {
      Bytes in(bytes);
      Request receive = link->receive(Rank{0}, 6, in);
      if (!error_of(*link, receive, 0.5) && receive.is_finished()) {
        EXPECT_TRUE(is_pattern(in, 6));
      }
      EXPECT_LT(seconds_of([&] { receive.reset(); }), give_up_seconds);
    }
    EXPECT_LT(seconds_of([&] { link.reset(); }), give_up_seconds);
  });
}

TEST_P(TransportContract, ClosesInTimeWithOperationsInFlight) {
  on_link(1, 1, [](Participant&, Link& link) {
    constexpr std::size_t count = 20, bytes = mebi;
    const Bytes out = pattern(bytes, 1);
    std::vector<Bytes> in(count, Bytes(bytes));
    std::vector<Request> requests;
    for (std::size_t i = 0; i < count; ++i) {
      requests.push_back(link->send(Rank{0}, 1, out));
      requests.push_back(link->receive(Rank{0}, 2, in[i]));
    }
    for (int i = 0; i < 20; ++i) link->progress();
    EXPECT_LT(seconds_of([&] {
                requests.clear();
                link.reset();
              }),
              give_up_seconds);
  });
}

TEST_P(TransportContract, SurvivesAPeerThatClosesItsEnd) {
  on_link(1, 1, [](Participant& self, Link& link) {
    const Bytes out = pattern(2 * mebi, 1);
    Bytes in(2 * mebi);
    Request receive = link->receive(Rank{0}, 1, in);
    self.meet(link.get());  // another test covers a side that leaves before the other connects
    if (self.side == Side::producer) {
      receive.reset();
      link.reset();
    }
    self.meet(link.get());
    if (self.side == Side::producer) return;
    if (const auto error = error_of(*link, receive, 0.3)) expect_loss(*error);
    try {
      Request send = link->send(Rank{0}, 2, out);
      if (const auto error = error_of(*link, send, 0.3)) expect_loss(*error);
    } catch (const core::Error& error) {
      expect_loss(error);
    }
    EXPECT_LT(seconds_of([&] {
                receive.reset();
                link.reset();
              }),
              give_up_seconds);
  });
}

TEST_P(TransportContract, ConnectsOrGivesUpByItsDeadline) {
  rig().run(1, 1, [](Participant& self) {
    auto link = self.open();
    const auto addresses = self.swap_addresses(link->address());
    if (self.side == Side::consumer) {
      const double seconds = seconds_of([&] {
        try {
          link->connect(addresses, Deadline::after(0.5));
        } catch (const core::Error& error) {
          EXPECT_EQ(error.code(), core::Errc::timed_out) << error.what();
        }
      });
      EXPECT_LT(seconds, 0.5 + give_up_seconds);
    }
    self.meet(nullptr);
    EXPECT_LT(seconds_of([&] { link.reset(); }), give_up_seconds);
  });
}

TEST_P(TransportContract, RefusesAMalformedAddress) {
  rig().run(1, 1, [](Participant& self) {
    auto link = self.open();
    if (self.side == Side::consumer) {
      const std::vector<Address> nonsense{pattern(999, 1)};
      EXPECT_THROW(link->connect(nonsense, Deadline::after(1)), core::Error);
    }
    self.meet(nullptr);
  });
}

TEST_P(TransportContract, OutlivesALostPeer) {
  for (Side survivor : {Side::producer, Side::consumer}) {
    for (Traffic traffic : {Traffic::idle, Traffic::sending, Traffic::receiving}) {
      SCOPED_TRACE(testing::Message() << "traffic " << static_cast<int>(traffic));
      const auto victim = rig().victim(survivor, traffic);
      if (victim == nullptr) GTEST_SKIP() << "this rig has no peer to lose";
      auto link = victim->link();
      const Bytes out = pattern(traffic_bytes, traffic_tag);
      Bytes in(traffic_bytes), small(8);
      if (traffic == Traffic::sending)  // the peer is alive and working
        for (int i = 0; i < 3; ++i) {
          Request receive = link->receive(Rank{0}, traffic_tag, in);
          finish(*link, receive);
          EXPECT_TRUE(is_pattern(in, traffic_tag));
        }
      if (traffic == Traffic::receiving)
        for (int i = 0; i < 3; ++i) {
          Request send = link->send(Rank{0}, traffic_tag, out);
          finish(*link, send);
        }
      std::vector<Request> requests;
      for (int i = 0; i < 3; ++i) requests.push_back(link->send(Rank{0}, traffic_tag, out));
      requests.push_back(link->receive(Rank{0}, traffic_tag, in));
      requests.push_back(link->receive(Rank{0}, traffic_tag + 1, small));
      for (int i = 0; i < 50; ++i) link->progress();
      victim->kill();
      for (auto& request : requests)
        if (const auto error = error_of(*link, request, 0.05)) expect_loss(*error);
      try {
        Request late = link->send(Rank{0}, 1, small);
        if (const auto error = error_of(*link, late, 0.05)) expect_loss(*error);
      } catch (const core::Error& error) {
        expect_loss(error);
      }
      EXPECT_LT(seconds_of([&] {
                  requests.clear();
                  link.reset();
                }),
                give_up_seconds);
    }
  }
}

TEST_P(TransportContract, OutlivesAPeerThatIsLostAtAnyMoment) {
  // The peer may be in the middle of a message or a call, or hold a lock.
  std::mt19937_64 random(random_seed());
  for (int round = 0; round < 5; ++round) {
    const auto victim = rig().victim(Side::producer, Traffic::chatting);
    if (victim == nullptr) GTEST_SKIP() << "this rig has no peer to lose";
    auto link = victim->link();
    const auto milliseconds = std::uniform_int_distribution(5, 40)(random);
    std::jthread killer([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
      victim->kill();
    });
    const double seconds = seconds_of([&] {
      const auto deadline = Deadline::after(0.5);
      try {
        run_traffic(Traffic::chatting, *link, [&] { return deadline.expired(); });
      } catch (const core::Error& error) {
        expect_loss(error);
      }
      link.reset();
    });
    EXPECT_LT(seconds, 0.5 + 2 * give_up_seconds) << "lost after " << milliseconds << " ms";
  }
}

}  // namespace tremula::contract
