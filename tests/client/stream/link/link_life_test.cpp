// SPDX-License-Identifier: Apache-2.0
// Tests streams that meet a stranger or a dead path: only the failed link ends, long before any deadline.
// All time limits are far longer than a test.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <numeric>
#include <optional>
#include <thread>

#include "client/exchange/signs_of_life.hpp"
#include "client/stream/link/link_plan.hpp"
#include "index_calc/lists/index_list.hpp"
#include "proto/convert.hpp"
#include "tests/client/world.hpp"

namespace tremula::client {
namespace {

using index_calc::Layout;
using transport::Network;

constexpr double far_too_long = 1000;
constexpr core::Index extent = 24;

proto::Field field(RankCount size) {
  return {.name = "f",
          .type = core::ElementType::i64,
          .layout = Layout::parse(fmt::format("shape={} grid={}", extent, size))};
}
/// Leaves a choice to both sides, as libfabric leaves the choice of a provider.
class Choosing final : public transport::Transport {
public:
  using Look = std::function<void()>;
  /// @param looks  called in choices()
  /// @param opens  called before an endpoint is opened
  explicit Choosing(Network& network, Look looks = {}, Look opens = {})
      : loopback_(network), looks_(std::move(looks)), opens_(std::move(opens)) {}
  std::string_view name() const noexcept override { return loopback_.name(); }
  std::vector<std::string> offers() const override { return loopback_.offers(); }
  bool has_choices(std::string_view) const override { return true; }
  std::vector<std::string> choices(std::string_view) override {
    if (looks_) looks_();
    return {"dear", "loopback"};
  }
  std::unique_ptr<transport::Endpoint> open(std::string_view offer, transport::Side side) override {
    EXPECT_EQ(offer, "dear");
    if (opens_) opens_();
    return loopback_.open("loopback", side);
  }

private:
  transport::Loopback loopback_;
  Look looks_, opens_;
};
void sleep_for(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}
/// Waits until `is_so` returns true.
template <class IsSo>
void await(const IsSo& is_so) {
  EXPECT_TRUE(wait_for(is_so, core::Deadline::after(60), [] {}).second);
}
/// Returns this rank's part of a step, in which element i is 100 * i + step.
std::vector<std::int64_t> part(Session& s, std::uint64_t step) {
  const core::Index each = extent / s.size();
  std::vector<std::int64_t> data(static_cast<std::size_t>(each));
  for (core::Index i = 0; i < each; ++i)
    data[static_cast<std::size_t>(i)] =
        100 * (s.rank().value * each + i) + static_cast<std::int64_t>(step);
  return data;
}
void put(Session& s, OutStream& out) {
  out.begin_step();
  const auto data = part(s, out.statistics().steps);
  out.put(0, std::as_bytes(std::span(data)));
  out.end_step();
}
/// Takes all remaining steps and checks every element. Returns the number of these steps.
std::uint64_t take_all(Session& s, InStream& in) {
  std::uint64_t count = 0;
  std::vector<std::int64_t> data(static_cast<std::size_t>(extent / s.size()));
  for (; in.begin_step(); ++count) {
    in.get(0, std::as_writable_bytes(std::span(data)));
    EXPECT_EQ(data, part(s, in.step()));
    in.end_step();
  }
  return count;
}

/// A consumer of one rank that talks to the server without a session, and answers the producer only
/// as far as a test requires.
class Stranger {
public:
  Stranger(const World& world, Network& network, const std::string& group, RankCount producers)
      : network_(network),
        log_(group, core::LogLevel::off),
        producers_(producers),
        loopback_(network),
        endpoint_(loopback_.open("loopback", transport::Side::consumer)) {
    wire::Hello hello;
    hello.set_protocol(proto::protocol_version);
    hello.set_group(group);
    hello.set_size(1);
    hello.set_job(group);
    hello.set_host("h");
    hello.set_version("1");
    hello.set_silence_seconds(no_limit);
    control_ = std::make_unique<Control>(transport::ServerName{world.config(1).server, "test"},
                                         hello, soon(), log_);
  }
  void subscribe() {
    const auto event = subscribe_and_await();
    ASSERT_TRUE(event && event->has_matched());
    link_ = event->matched().link();
  }
  /// Subscribes, and ignores the request for its choices.
  void subscribe_without_choosing() {
    const auto event = subscribe_and_await();
    EXPECT_TRUE(event && event->has_choices_wanted());
  }
  void send_address() {
    wire::ToServer message;
    message.mutable_link_addresses()->set_link(link_);
    const auto address = endpoint_->address();
    message.mutable_link_addresses()->add_addresses(address.data(), address.size());
    control_->call(message, soon());
  }
  /// Connects, and proves the link.
  void prove(double may_be_silent) {
    std::vector<transport::Address> theirs;
    const auto reply = control_->take_addresses(link_, soon());
    for (const std::string& address : reply.addresses()) {
      const auto view = std::as_bytes(std::span(address));
      theirs.emplace_back(view.begin(), view.end());
    }
    endpoint_->connect(theirs, soon());
    const std::vector<proto::Field> mine{field(1)}, of_them{field(producers_)};
    plan_ =
        plan_exchange(mine, of_them, transport::Side::consumer, Rank{0}, 1, producers_, plans_, {});
    signs_ = std::make_unique<SignsOfLife>(plan_, *endpoint_, link_, may_be_silent);
    wait_for([&] { return signs_->advance(), !signs_->unproved(); }, soon(), [] {});
    EXPECT_FALSE(signs_->unproved());
  }
  /// Waits until every producer rank has sent a step, so that none is still setting the link up.
  void await_step() {
    std::vector<std::array<std::byte, 4096>> steps(static_cast<std::size_t>(producers_));
    std::vector<transport::Request> requests;
    for (const Rank r : core::all_ranks(producers_))
      requests.push_back(endpoint_->receive(r, tags::step, steps[at(r)]));
    const auto is_here = [&] {
      return std::ranges::all_of(requests, [](auto& request) { return request.test(); });
    };
    EXPECT_TRUE(wait_for(is_here, soon(), [] {}).second);
  }
  /// Makes every send to it fail.
  void lose() { network_.lose(endpoint_->address()); }
  /// Waits until the producer has ended the link, and returns its reason.
  std::string await_end() {
    std::optional<Control::LinkEnd> end;
    wait_for([&] { return (end = control_->link_end(link_)).has_value(); },
             core::Deadline::after(120), [] {});
    return end ? end->why : "no end";
  }

private:
  static core::Deadline soon() { return core::Deadline::after(60); }
  /// Returns the first event from the server.
  std::optional<wire::ToClient> subscribe_and_await() {
    wire::ToServer message;
    auto& subscribe = *message.mutable_subscribe();
    subscribe.set_stream("s");
    *subscribe.add_fields() = proto::encode(field(1));
    auto& offer = *subscribe.add_offers();
    offer.set_transport("loopback");
    offer.set_offer("loopback");
    subscribe.set_incarnation(1);
    control_->call(message, soon());
    control_->begin_presence(0, soon());
    return control_->next_event(soon());
  }

  Network& network_;
  core::Log log_;
  RankCount producers_;
  transport::Loopback loopback_;
  std::unique_ptr<Control> control_;
  std::unique_ptr<transport::Endpoint> endpoint_;
  index_calc::PlanCache plans_;
  ExchangePlan plan_;
  std::unique_ptr<SignsOfLife> signs_;
  std::uint64_t link_ = 0;
};

/// A stream of two producer ranks with a healthy consumer of three ranks. Strangers join while it runs.
/// It ends once the test has finished with them; the healthy consumer must have every step.
class LinkLife : public ::testing::Test {
protected:
  LinkLife() { world.step_timeout = far_too_long; }
  double producer_timeout = far_too_long;
  std::atomic<double> longest_step = 0;  // seconds
  bool has_parts = false;                // other groups may produce the rest of the array
  void run(const std::function<void()>& strangers) {
    std::atomic<bool> is_linked = false, is_over = false;
    std::uint64_t put_steps = 0;
    world.start(
        "producer", 2,
        [&](Session& s) {
          OutStream out(s, "s", {});
          proto::Field declared = field(2);
          if (has_parts) declared.origin = {0}, declared.whole = {extent};
          out.declare(declared);
          const auto is_enough = [&] {  // as rank 0 sees it
            const std::byte mine{is_over.load()};
            return s.group().allgather({mine}, s.deadline())[0][0] == std::byte{1};
          };
          for (int more = 5; more > 0; more -= is_enough()) {
            const auto start = core::Deadline::Clock::now();
            put(s, out);
            const core::Deadline::Seconds seconds = core::Deadline::Clock::now() - start;
            longest_step = std::max(longest_step.load(), seconds.count());
            std::this_thread::sleep_for(std::chrono::milliseconds(1));  // as if it computed
          }
          out.close();
          if (s.rank() == Rank{0}) put_steps = out.statistics().steps;
        },
        producer_timeout);
    std::atomic<std::uint64_t> taken = 0;
    world.start(
        "healthy", 3,
        [&](Session& s) {
          InStream in(s, "s");
          in.declare(field(3));
          EXPECT_TRUE(in.begin_step());
          is_linked = true;
          in.end_step();
          taken += 1 + take_all(s, in);
          in.close();
        },
        far_too_long);
    while (!is_linked) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    strangers();
    is_over = true;
    EXPECT_EQ(text_of(world.join()), "");
    EXPECT_EQ(taken, 3 * put_steps);
  }
  /// Returns `count` strangers, after calling `subscribe` with each of them.
  std::vector<std::unique_ptr<Stranger>> strangers(
      int count, const std::function<void(Stranger&)>& subscribe) {
    std::vector<std::unique_ptr<Stranger>> mute;
    for (int i = 0; i < count; ++i) {
      mute.push_back(
          std::make_unique<Stranger>(world, world.network(), fmt::format("mute{}", i), 2));
      subscribe(*mute.back());
    }
    return mute;
  }
  /// Checks that a consumer that joins after the strangers is linked, and that no step takes long.
  void come_late() {
    std::atomic<int> late = 0;
    world.start(
        "late", 2,
        [&](Session& s) {
          InStream in(s, "s");
          in.declare(field(2));
          for (int step = 0; step < 3; ++step) {
            EXPECT_TRUE(in.begin_step());
            std::vector<std::int64_t> data(static_cast<std::size_t>(extent / 2));
            in.get(0, std::as_writable_bytes(std::span(data)));
            EXPECT_EQ(data, part(s, in.step()));
            in.end_step();
          }
          ++late;
          in.close();
        },
        far_too_long);
    EXPECT_TRUE(wait_for([&] { return late == 2; }, core::Deadline::after(60), [] {}).second);
    EXPECT_LT(longest_step, 8);
  }
  /// Checks that each stranger is refused with `why`.
  static void expect_end(const std::vector<std::unique_ptr<Stranger>>& strangers,
                         const std::string& why) {
    for (const auto& stranger : strangers) {
      const auto end = stranger->await_end();
      EXPECT_NE(end.find(why), std::string::npos) << end;
    }
  }
  World world;
};

TEST_F(LinkLife, DropsOnlyAConsumerThatIsUnreachable) {
  run([&] {
    for (const std::string name : {"unreachable1", "unreachable2"}) {
      Stranger stranger(world, world.network(), name, 2);
      stranger.subscribe();
      stranger.lose();
      stranger.send_address();
      const auto why = stranger.await_end();
      EXPECT_NE(why.find("of group 'producer': loopback: the peer of this receive is gone"),
                std::string::npos)
          << why;
    }
  });
}

TEST_F(LinkLife, DropsOnlyAConsumerThatNeverAnswers) {
  run([&] {  // the session's timeout would be far too long
    Stranger silent(world, world.network(), "silent", 2);
    silent.subscribe();
    const auto why = silent.await_end();
    EXPECT_NE(why.find("expected the other side's addresses in time"), std::string::npos) << why;
    Stranger mute(world, world.network(), "mute", 2);
    mute.subscribe();
    mute.send_address();  // and sends nothing after that
    const auto unproved = mute.await_end();
    EXPECT_NE(unproved.find("expected a first sign of life from rank 0 of group 'mute'"),
              std::string::npos)
        << unproved;
  });
  EXPECT_LT(longest_step, 8);
}

TEST_F(LinkLife, IsNotDelayedByManyThatNeverConnect) {
  run([&] {  // more than can be linked at a time
    const auto mute = strangers(66, [](Stranger& each) {
      each.subscribe();
      each.send_address();  // and sends nothing after that
    });
    expect_end(mute, "expected a first sign of life from rank 0");
  });
  EXPECT_LT(longest_step, 8);
}

// The strangers are not matched, so the producer never learns of them.
TEST_F(LinkLife, IsNotDelayedByManyThatNeverChoose) {
  world.other_way = [this] { return std::make_unique<Choosing>(world.network()); };
  run([&] {
    const auto mute = strangers(20, [](Stranger& each) { each.subscribe_without_choosing(); });
    come_late();
  });
}

TEST_F(LinkLife, IsNotDelayedByManyConsumersOfParts) {
  has_parts = true;
  run([&] {
    const auto mute = strangers(20, [](Stranger& each) { each.subscribe(); });
    come_late();
    expect_end(mute, "expected the other side's addresses in time");
  });
}

// Either the server asks both sides for their choices during the producer's last call, or the
// consumer is still looking for its own when that call begins.
TEST(LinkLifeAtItsEnd, DeliversKeptStepsOverAnOfferWithAChoice) {
  for (const double seconds : {0.0, 1.0}) {
    SCOPED_TRACE(fmt::format("the consumer takes {} s to find its choices", seconds));
    World world;
    world.step_timeout = far_too_long;
    std::atomic<int> made = 0;
    world.other_way = [&] {
      return std::make_unique<Choosing>(world.network(), [=, is_consumer = made++ == 2] {
        if (is_consumer) sleep_for(seconds);
      });
    };
    std::atomic<bool> is_there = false;
    world.start(
        "producer", 2,
        [&](Session& s) {
          OutStream out(s, "s", {.wait_for_consumers = 0, .keep_steps = 3});
          out.declare(field(2));
          for (int step = 0; step < 3; ++step) put(s, out);
          await([&] { return is_there.load(); });
          sleep_for(0.2);  // until the consumer waits
          out.close();
        },
        far_too_long);
    await([&] { return made == 2; });
    world.start(
        "consumer", 1,
        [&](Session& s) {
          InStream in(s, "s", {.start = Start::oldest});
          in.declare(field(1));
          is_there = true;
          EXPECT_EQ(take_all(s, in), 3u);
          in.close();
        },
        3);
    EXPECT_EQ(text_of(world.join()), "");
  }
}

// The group in the middle is a consumer that has its own reader. It has waited for its producer for
// longer than step_timeout while that reader is still looking for its choices. The producer sends
// its step once the reader is linked.
TEST(LinkLifeLate, HoldsALongCallForChoices) {
  World world;
  world.step_timeout = far_too_long;
  world.step_timeout_of["middle.0"] = world.step_timeout_of["middle.1"] = 3;
  std::atomic<bool> waits = false, is_asked = false, is_producer_linked = false, is_linked = false;
  std::atomic<int> made = 0, seen = 0;
  world.other_way = [&] {
    const int number = made++;  // 0 and 1: middle, 2: producer, 3: reader
    const auto looks = [&, number] {
      if (number != 3) return;
      is_asked = true;
      await([&] { return is_producer_linked.load(); });
      sleep_for(0.3);  // meanwhile the call could return
    };
    const auto opens = [&, number] {
      if (number == 2) is_producer_linked = true;
      if (number == 3) is_linked = true;
    };
    return std::make_unique<Choosing>(world.network(), looks, opens);
  };
  world.start(
      "middle", 2,
      [&](Session& s) {
        OutStream out(s, "s", {.wait_for_consumers = 0});
        out.declare(field(2));
        InStream in(s, "t");
        in.declare(field(2));
        waits = true;
        EXPECT_TRUE(in.begin_step());
        in.end_step();
        const auto is_taken = [&] {  // as rank 0 sees it
          const std::byte mine{seen == 1};
          return s.group().allgather({mine}, s.deadline())[0][0] == std::byte{1};
        };
        while (!is_taken()) put(s, out);
        out.close();
        in.close();
      },
      far_too_long);
  await([&] { return waits.load(); });
  world.start(
      "producer", 1,
      [&](Session& s) {
        OutStream out(s, "t", {});
        out.declare(field(1));
        await([&] { return is_asked.load(); });
        out.begin_step();
        await([&] { return is_linked.load(); });
        const auto data = part(s, 0);
        out.put(0, std::as_bytes(std::span(data)));
        out.end_step();
        out.close();
      },
      far_too_long);
  await([&] { return made == 3; });
  sleep_for(3.5);
  world.start(
      "reader", 1,
      [&](Session& s) {
        InStream in(s, "s");
        in.declare(field(1));
        EXPECT_TRUE(in.begin_step());
        in.end_step();
        ++seen;
        in.close();
      },
      far_too_long);
  EXPECT_EQ(text_of(world.join()), "");
}

// Before the first step, each consumer that the stream needs has the full `timeout`, regardless of its layout and of
// the number of consumers that are linked.
TEST(LinkLifeLate, GivesANeededConsumerWithListsMoreTime) {
  World world;
  world.step_timeout = far_too_long;
  std::atomic<bool> is_first_linked = false;
  std::atomic<int> made = 0;
  world.other_way = [&] {
    const int number = made++;  // 0 and 1: producer, 2: first consumer, 3: second consumer
    return std::make_unique<Choosing>(world.network(), Choosing::Look(), [&, number] {
      if (number == 2) is_first_linked = true;
      if (number == 3) sleep_for(11);  // longer than a running stream waits for a consumer
    });
  };
  world.start(
      "producer", 2,
      [&](Session& s) {
        OutStream out(s, "s", {.wait_for_consumers = 2});
        out.declare(field(2));
        for (int step = 0; step < 3; ++step) put(s, out);
        out.close();
      },
      far_too_long);
  const auto consume = [&](const std::string& group, const proto::Field& wanted) {
    world.start(
        group, 1,
        [wanted](Session& s) {
          InStream in(s, "s");
          in.declare(wanted);
          EXPECT_EQ(take_all(s, in), 3u) << s.name();
          in.close();
        },
        far_too_long);
  };
  await([&] { return made == 2; });
  consume("first", field(1));
  await([&] { return is_first_linked.load(); });
  std::vector<core::Index> points(extent);
  std::iota(points.begin(), points.end(), 0);
  proto::Field listed = field(1);
  const core::Index shape[] = {extent};
  listed.layout = index_calc::listed_layout(shape, 1, false, false,
                                            index_calc::IndexList::of_points(shape, points));
  consume("second", listed);
  EXPECT_EQ(text_of(world.join()), "");
}

// Rank 1 begins a step while the first consumer is linked, rank 0 after that consumer has left. No
// other consumer is linked then, so rank 0 gives the next consumer the full `timeout`.
TEST(LinkLifeLate, RanksWithOtherLinksWaitForRankZero) {
  World world;
  world.step_timeout = far_too_long;
  std::atomic<bool> is_begun = false, is_asked = false, has_left = false;
  std::atomic<int> made = 0;
  world.other_way = [&] {
    const int number = made++;  // 0 and 1: producer, 2: first consumer, 3: second consumer
    const auto looks = [&, number] { is_asked = is_asked || number == 3; };
    const auto opens = [number] {
      // Longer than a stream that has other consumers waits for a consumer, and longer than another
      // rank then waits for rank 0.
      if (number == 3) sleep_for(22);
    };
    return std::make_unique<Choosing>(world.network(), looks, opens);
  };
  world.start(
      "producer", 2,
      [&](Session& s) {
        OutStream out(s, "s", {});
        out.declare(field(2));
        put(s, out);
        if (s.rank() == Rank{0}) {
          await([&] { return has_left.load(); });
          // Until both ranks know that the first consumer has left, and rank 0 knows that the second
          // one is there.
          sleep_for(0.5);
        }
        is_begun = is_begun || s.rank() == Rank{1};
        for (int step = 0; step < 2; ++step) put(s, out);
        out.close();
      },
      far_too_long);
  await([&] { return made == 2; });
  world.start(
      "first", 1,
      [&](Session& s) {
        InStream in(s, "s");
        in.declare(field(1));
        EXPECT_TRUE(in.begin_step());
        in.end_step();
        await([&] { return is_begun && is_asked; });
        sleep_for(0.5);  // rank 1 waits for rank 0
        in.close();
        has_left = true;
      },
      far_too_long);
  await([&] { return is_begun.load(); });
  world.start(
      "second", 1,
      [&](Session& s) {
        InStream in(s, "s");
        in.declare(field(1));
        EXPECT_EQ(take_all(s, in), 2u);
        in.close();
      },
      far_too_long);
  EXPECT_EQ(text_of(world.join()), "");
}

// The stream that the second group reads is linked during a call of the first group, which then waits
// for data from the second group.
TEST(LinkLifeBothWays, MeetsOverAnOfferWithAChoice) {
  World world;
  world.step_timeout = far_too_long;
  world.other_way = [&] { return std::make_unique<Choosing>(world.network()); };
  std::atomic<int> seen = 0;
  world.start(
      "first", 2,
      [&](Session& s) {
        OutStream out(s, "s", {.wait_for_consumers = 0});
        out.declare(field(2));
        InStream in(s, "t");
        in.declare(field(2));
        EXPECT_TRUE(in.begin_step());
        in.end_step();
        const auto is_taken = [&] {  // as rank 0 sees it
          const std::byte mine{seen == 1};
          return s.group().allgather({mine}, s.deadline())[0][0] == std::byte{1};
        };
        while (!is_taken()) put(s, out);
        out.close();
        in.close();
      },
      far_too_long);
  world.start(
      "second", 1,
      [&](Session& s) {
        InStream in(s, "s");
        in.declare(field(1));
        OutStream out(s, "t", {});
        out.declare(field(1));
        put(s, out);
        EXPECT_TRUE(in.begin_step());
        in.end_step();
        ++seen;
        in.close();
        out.close();
      },
      far_too_long);
  EXPECT_EQ(text_of(world.join()), "");
  EXPECT_EQ(seen, 1);
}

TEST_F(LinkLife, DropsOnlyAConsumerWhoseDataPathFails) {
  run([&] {
    Stranger stranger(world, world.network(), "stranger", 2);
    stranger.subscribe();
    stranger.send_address();
    stranger.prove(no_limit);
    stranger.await_step();
    stranger.lose();
    const auto why = stranger.await_end();
    EXPECT_NE(why.find("of group 'producer' failed: "), std::string::npos) << why;
  });
}

TEST_F(LinkLife, DropsOnlyAConsumerThatFallsSilent) {
  run([&] {
    Stranger stranger(world, world.network(), "stranger", 2);
    stranger.subscribe();
    stranger.send_address();
    stranger.prove(0.5);  // then it is silent, while the server still receives its heartbeats
    const auto why = stranger.await_end();
    EXPECT_NE(why.find("expected a sign of life from rank 0"), std::string::npos) << why;
    EXPECT_NE(why.find("while the server reports that it is alive"), std::string::npos) << why;
  });
}

TEST_F(LinkLife, DropsOnlyAConsumerThatTakesNoStep) {
  world.step_timeout_of["producer.0"] = world.step_timeout_of["producer.1"] = 3;
  run([&] {
    Stranger stranger(world, world.network(), "stranger", 2);
    stranger.subscribe();
    stranger.send_address();
    stranger.prove(no_limit);
    const auto why = stranger.await_end();
    EXPECT_NE(why.find("waited 3 s for consumer group 'stranger' (rank 0) to"), std::string::npos)
        << why;
  });
}

/// The rank that throws in the middle of a step. The rank and its session continue, so only the stream
/// shows the failure.
struct Culprit {
  std::string group;
  Rank rank;
  int wait_for_consumers;
  friend std::ostream& operator<<(std::ostream& out, const Culprit& c) {
    return out << "rank " << c.rank.value << " of " << c.group << ", " << c.wait_for_consumers
               << " consumers needed";
  }
};
class InAStep : public ::testing::TestWithParam<Culprit> {};

TEST_P(InAStep, ExceptionOfOneRankEndsItOnBothSides) {
  constexpr RankCount producers = 3, consumers = 2;
  World world;
  world.step_timeout = far_too_long;
  std::atomic<int> reported = 0;
  const auto [group, rank, wait_for_consumers] = GetParam();
  const std::string expected =
      group == "producer"
          ? fmt::format("rank {} of group 'producer' gave up stream 's' in step ", rank.value)
          : fmt::format("rank {} of group 'consumer' left stream 's', step 3 without", rank.value);
  const auto play = [&](Session& s, const std::function<void(bool)>& take_steps) {
    const bool is_culprit = s.name() == group && s.rank() == rank;
    try {
      take_steps(is_culprit);
    } catch (const Error& e) {
      if (is_culprit) {
        EXPECT_STREQ(e.what(), "bad luck");
      } else {
        EXPECT_EQ(e.code(), Errc::peer_lost) << e.what();
        EXPECT_NE(std::string(e.what()).find(expected), std::string::npos) << e.what();
      }
      ++reported;
    }
    wait_for([&] { return reported == producers + consumers; }, core::Deadline::after(60), [] {});
  };
  world.start(
      "producer", producers,
      [&](Session& s) {
        play(s, [&](bool is_culprit) {
          OutStream out(s, "s", {.wait_for_consumers = wait_for_consumers});
          out.declare(field(producers));
          if (wait_for_consumers == 0)  // ends after the same step on all ranks
            while (out.peer_statistics().empty()) put(s, out);
          const auto first = out.statistics().steps;
          while (!is_culprit || out.statistics().steps < first + 3) put(s, out);
          out.begin_step();
          throw Error(Errc::internal, "bad luck");
        });
      },
      far_too_long);
  world.start(
      "consumer", consumers,
      [&](Session& s) {
        play(s, [&](bool is_culprit) {
          InStream in(s, "s");
          in.declare(field(consumers));
          std::optional<std::uint64_t> last;
          try {
            while (in.begin_step()) {
              if (is_culprit && in.step() == 3) throw Error(Errc::internal, "bad luck");
              in.end_step();
              last = in.step();
            }
          } catch (const Error& e) {  // the step's number in the stream, not in this rank's count
            const auto place = last ? fmt::format("step {}: ", *last + 1) : "first step: ";
            if (!is_culprit) {
              EXPECT_TRUE(std::string(e.what()).starts_with("stream 's', " + place)) << e.what();
            }
            throw;
          }
        });
      },
      far_too_long);
  EXPECT_EQ(text_of(world.join()), "");
  EXPECT_EQ(reported, producers + consumers);
}
INSTANTIATE_TEST_SUITE_P(
    Of, InAStep,
    ::testing::Values(Culprit{"producer", Rank{0}, 1}, Culprit{"producer", Rank{1}, 1},
                      Culprit{"producer", Rank{0}, 0}, Culprit{"producer", Rank{1}, 0},
                      Culprit{"consumer", Rank{0}, 1}, Culprit{"consumer", Rank{1}, 1}));

/// Rank 0 is a step ahead: it began step 1 before the consumer was lost, and gave up the stream
/// after that. Rank 1 begins step 1 after all of this.
TEST(InAStepOfTheRoot, LateRankLearnsWhyTheRootGaveUp) {
  World world;
  std::atomic<bool> has_begun = false, has_left = false, has_given_up = false;
  std::string text;
  const auto wait = [](const std::atomic<bool>& flag) {
    ASSERT_TRUE(wait_for([&] { return flag.load(); }, core::Deadline::after(60), [] {}).second);
  };
  const auto play = [&](const std::string& group, Rank rank) {
    auto config = world.config(30);
    config.transport = "local";
    const auto session = Session::open(group, rank.value, 2, config);
    if (group == "consumer") {
      InStream in(*session, "s");
      in.declare(field(2));
      ASSERT_TRUE(in.begin_step());
      in.end_step();
      if (rank == Rank{1}) wait(has_begun);
      if (rank == Rank{0}) wait(has_left);
    } else {
      OutStream out(*session, "s", {});
      out.declare(field(2));
      put(*session, out);
      if (rank == Rank{0}) put(*session, out);
      if (rank == Rank{0}) has_begun = true;
      wait(has_left);
      if (rank == Rank{1}) {
        wait(has_given_up);
        session->control().explain(
            {});  // its answer arrives after everything that the server sent before
        try {
          out.begin_step();
        } catch (const Error& e) {
          text = e.what();
        }
      }
    }
    (group == "consumer" ? has_left : has_given_up) = true;
    wait(has_given_up);
  };
  std::vector<std::thread> ranks;
  for (const char* group : {"producer", "consumer"})
    for (const Rank rank : core::all_ranks(2)) ranks.emplace_back(play, group, rank);
  for (auto& rank : ranks) rank.join();
  EXPECT_NE(text.find("rank 1 of group 'consumer' left stream 's'"), std::string::npos) << text;
  EXPECT_NE(text.find("rank 0 of group 'producer' gave up stream 's'"), std::string::npos) << text;
}

/// The network loses everything after some steps, while the server vouches for both sides. There is one producer
/// rank: threads of a group wait for each other in every agreement, even if one of them has failed.
TEST(DataPath, LossOfAllDataIsNoticedByBothSides) {
  World world;
  world.step_timeout = far_too_long;
  world.silence = 2;
  world.start(
      "producer", 1,
      [&](Session& s) {
        OutStream out(s, "s", {});
        out.declare(field(1));
        for (int i = 0; i < 3; ++i) put(s, out);
        world.network().inject_faults([](const auto&) { return Network::Fault{.drop = true}; });
        for (;;) put(s, out);
      },
      far_too_long);
  world.start(
      "consumer", 2,
      [](Session& s) {
        InStream in(s, "s");
        in.declare(field(2));
        take_all(s, in);
      },
      far_too_long);
  const auto errors = world.join();
  EXPECT_EQ(errors.size(), 3u);
  for (const auto& [who, e] : errors) {
    const std::string text = e.what();
    EXPECT_NE(text.find("expected a sign of life from rank"), std::string::npos) << who << text;
  }
}

TEST(DataPath, IsNotSuspectedWhileTheProducerComputes) {
  for (const Progress progress : {Progress::calls, Progress::automatic}) {
    World world;
    world.step_timeout = far_too_long;
    world.silence = 1;
    world.start(
        "producer", 1,
        [&](Session& s) {
          OutStream out(s, "s", {.progress = progress});
          out.declare(field(1));
          put(s, out);
          std::this_thread::sleep_for(std::chrono::seconds(5));  // it may be silent for 3 s
          put(s, out);
          out.close();
        },
        far_too_long);
    world.start(
        "consumer", 1,
        [](Session& s) {
          InStream in(s, "s");
          in.declare(field(1));
          EXPECT_EQ(take_all(s, in), 2u);
          in.close();
        },
        far_too_long);
    EXPECT_EQ(text_of(world.join()), "");
  }
}

}  // namespace
}  // namespace tremula::client
