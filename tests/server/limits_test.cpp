// SPDX-License-Identifier: Apache-2.0
// Tests how much memory and time claims cost, on the Rendezvous alone.
#include "play.hpp"

namespace tremula::server {
namespace {

constexpr int many = proto::max_group_size;

std::string heartbeat(int counters) {
  std::string text;
  for (int i = 0; i < counters; ++i) text += fmt::format("counters {{ stream: 's{}' }} ", i);
  return "heartbeat { " + text + "}";
}

std::string announce(const std::string& stream, const std::string& layout) {
  return fmt::format("request: 2 announce {{ stream: '{}' incarnation: 1 {}{} }}", stream,
                     Play::field("u", 10, layout), Play::offers({"tcp"}));
}

TEST(Limits, RanksThatAreOnlyClaimedTakeNoMemory) {
  Play play;
  play.send(1, Play::hello("g", 0, many), {Play::welcome(1)});
  const std::string layout = fmt::format("shape={} grid={}", many, many);
  play.send(1, announce("s", layout), {Play::done(1, 2)});
  EXPECT_LT(play.held_bytes(), 10'000u);
  play.send(1, "heartbeat { counters { stream: 's' steps: 5 bytes: 7 } }", {});
  EXPECT_LT(play.held_bytes(), 10'000u);
  EXPECT_EQ(play.status(true).streams(0).produced().ranks_size(), 1);
  EXPECT_EQ(play.status().streams(0).produced().steps(), 0u);  // complete on one rank only
  EXPECT_EQ(play.status().streams(0).produced().bytes(), 7u);
  play.send(
      1, "request: 3 explain { agreement: 1 }",
      {fmt::format("1: request: 3 explained {{ text: \"rank 1, which has not joined the server; "
                   "rank 2, which has not joined the server; rank 3, which has not joined the "
                   "server; rank 4, which has not joined the server; rank 5, which has not joined "
                   "the server; rank 6, which has not joined the server; rank 7, which has not "
                   "joined the server; rank 8, which has not joined the server; {} more\" }}",
                   many - 9)});
}

TEST(Limits, GroupHoldsAtMostItsBytes) {
  Play play(0, {.group_bytes = 20'000, .held_bytes = 30'000});
  play.join("a", 1, 1);
  play.join("b", 1, 2);
  const auto announced = [&](ConnectionId from, int number) {
    Output output =
        play.receive(from, announce(fmt::format("{}.{}", from, number), "shape=8 grid=1"));
    return output.messages.at(0).message;
  };
  int of_a = 0, of_b = 0;
  wire::ToClient last;
  while ((last = announced(1, of_a)).has_done()) ++of_a;
  EXPECT_GT(of_a, 3);
  EXPECT_LT(of_a, 10);
  EXPECT_EQ(last.refused().code(), static_cast<int>(core::Errc::refused));
  EXPECT_EQ(
      last.refused().text().find("group 'a': expected its streams, links, subscriptions and "
                                 "shares to take at most 0.0190735 MiB of the server, found "),
      0u)
      << last.refused().text();
  while ((last = announced(2, of_b)).has_done()) ++of_b;
  EXPECT_LT(of_b, of_a);
  EXPECT_EQ(last.refused().text().find("group 'b': the server keeps "), 0u)
      << last.refused().text();
  EXPECT_GT(play.held_bytes(), 20'000u);
  play.receive(1, "request: 3 goodbye {}");  // its memory is free again
  EXPECT_LT(play.held_bytes(), 20'000u);
  EXPECT_TRUE(announced(2, of_b).has_done());
  play.receive(2, "request: 3 goodbye {}");
  EXPECT_EQ(play.held_bytes(), 0u);
}

TEST(Limits, SubscriptionsAndSharesAreHeldUntilTheyAreOver) {
  Play play(0, {.group_bytes = 20'000, .held_bytes = 30'000});
  play.join("a", 2, 1);
  const std::string fields = Play::field("u", 10, "shape=8 grid=2") + Play::offers({"tcp"});
  int count = 0;
  const auto subscribe = [&] {
    return play
        .receive(1, fmt::format("request: 2 subscribe {{ stream: 's{}' incarnation: 1 {} }}", count,
                                fields))
        .messages.at(0)
        .message.has_done();
  };
  while (subscribe()) ++count;
  EXPECT_LT(count, 10);
  play.send(1, "request: 3 unsubscribe { stream: 's0' }", {Play::done(1, 3)});
  EXPECT_TRUE(subscribe());
  for (int i = 0; i <= count; ++i)
    play.receive(1, fmt::format("request: 3 unsubscribe {{ stream: 's{}' }}", i));
  EXPECT_EQ(play.held_bytes(), 0u);

  const std::string share = "share { round: 1 bytes: '" + std::string(15'000, 'x') + "' }";
  play.send(1, "request: 4 " + share, {});
  EXPECT_GT(play.held_bytes(), 15'000u);
  EXPECT_TRUE(play.receive(2, "request: 4 " + share).messages.at(0).message.has_refused());
  const Output shared = play.receive(2, "request: 5 share { round: 1 bytes: 'y' }");
  ASSERT_EQ(shared.messages.size(), 2u);
  EXPECT_EQ(shared.messages[0].common, shared.messages[1].common);  // one message for all ranks
  EXPECT_EQ(play.held_bytes(), 0u);
}

TEST(Limits, OffersAreHeld) {
  std::string offers;
  for (int i = 0; i < proto::max_offers; ++i)
    offers += fmt::format("offers {{ transport: 'ofi' offer: '{:*>250}' has_choices: true }} ", i);
  constexpr std::size_t bytes_of_texts = std::size_t{proto::max_offers} * 250;
  Play play;
  play.join("a", 1, 1);
  play.send(1,
            "request: 1 announce { queue_depth: 1 stream: 's' incarnation: 1 " +
                Play::field("u", 10, "shape=8 grid=1") + offers + "}",
            {Play::done(1)});
  EXPECT_GT(play.held_bytes(), 2 * bytes_of_texts);  // in a list and a set: they have choices
  play.join("b", 1, 2);
  const std::size_t before = play.held_bytes();
  play.send(2,
            "request: 1 subscribe { stream: 't' incarnation: 1 " +
                Play::field("u", 10, "shape=8 grid=1") + offers + "}",
            {Play::done(2)});
  EXPECT_GT(play.held_bytes() - before, bytes_of_texts);
}

// The group waits for its other ranks, and at first even for rank 0.
TEST(Limits, DataOfAReturningGroupIsCounted) {
  Play play(5, {.group_bytes = 50'000, .held_bytes = 80'000});
  const auto come_back = [&](ConnectionId from, int rank) {
    auto hello = Play::parsed(Play::hello("g", rank, 3));
    hello.mutable_hello()->set_left_server(4);
    EXPECT_TRUE(play.receive(from, hello).messages.at(0).message.has_welcome());
  };
  const auto give_up = [&](ConnectionId from, int incarnation) {
    play.send(from,
              fmt::format("request: 2 close_stream {{ stream: 's' incarnation: {} gave_up: true "
                          "why: '{}' }}",
                          incarnation, std::string(15'000, 'x')),
              {Play::done(from, 2)});
  };
  come_back(2, 1);
  for (int incarnation = 1; incarnation <= 3; ++incarnation) {
    give_up(2, incarnation), give_up(2, incarnation);
    EXPECT_GT(play.held_bytes(), 15'000u * static_cast<std::size_t>(incarnation));
  }
  give_up(2, 4);  // left out: there is no room for it
  EXPECT_LT(play.held_bytes(), 50'000u);
  come_back(1, 0);
  play.send(1, "request: 3 resume { presence {} }", {Play::done(1, 3)});
  EXPECT_EQ(play.held_bytes(), 0u) << "the streams are over";

  // Rank 2 is to be notified of the streams that are given up now.
  for (int number = 1; number <= 4; ++number) {
    const std::string stream = fmt::format("stream: 's' incarnation: {} ", number);
    play.receive(1, "request: 2 announce { " + stream + Play::field("u", 10, "shape=8 grid=3") +
                        Play::offers({"t"}) + "}");
    const Output output =
        play.receive(1, "request: 3 close_stream { " + stream + "gave_up: true why: '" +
                            std::string(15'000, 'x') + "' }");
    EXPECT_EQ(output.messages.size(), 2u);
    EXPECT_GT(play.held_bytes(), 15'000u * static_cast<std::size_t>(std::min(number, 3)));
    EXPECT_LT(play.held_bytes(), 50'000u);
  }
  come_back(3, 2);
  EXPECT_EQ(play.held_bytes(), 0u);
}

TEST(Limits, AddressesThatAllRanksGetAreHeldOnce) {
  constexpr int producers = 1024, consumers = 64;
  static_assert(std::int64_t{producers} * consumers == proto::max_addresses_to_all);
  Play play;
  play.join("ocean", producers, 1);
  play.join("viewer", consumers, 2001);
  const auto what = [&](int ranks) {
    return "incarnation: 1 " + Play::offers({"tcp"}) +
           Play::field("u", 10, fmt::format("shape={} grid={}", producers, ranks)) + "}";
  };
  play.receive(1, "request: 2 announce { stream: 's' " + what(producers));
  play.receive(2001, "request: 2 subscribe { stream: 's' " + what(consumers));
  play.receive(1, "request: 3 presence { is_present: true incarnation: 1 }");
  play.receive(2001, "request: 3 presence { is_present: true }");
  wire::ToServer addresses;
  addresses.set_request(4);
  addresses.mutable_link_addresses()->set_link(1);
  for (int rank = 0; rank < consumers; ++rank)
    addresses.mutable_link_addresses()->add_addresses(std::string(proto::max_address_bytes, 'a'));
  const Output output = play.receive(2001, addresses);
  ASSERT_EQ(output.messages.size(), 1u + producers);
  std::size_t bytes = 0;
  std::set<const wire::ToClient*> shared;
  for (const Outgoing& out : output.messages) {
    bytes += out.message.SpaceUsedLong();
    if (shared.insert(out.common.get()).second && out.common) bytes += out.common->SpaceUsedLong();
  }
  EXPECT_LT(bytes, 2 * addresses.SpaceUsedLong());
  EXPECT_EQ(output.messages.back().common->link_addresses().addresses_size(), consumers);
}

TEST(Limits, TooLongSharesAreNotKept) {
  Play play;
  play.join("g", 3, 1);
  const std::string megabytes(9 << 20, 'x');
  play.send(1, "request: 2 share { round: 1 bytes: '" + megabytes + "' }", {});
  EXPECT_GT(play.held_bytes(), megabytes.size());
  play.send(2, "request: 2 share { round: 1 bytes: '" + megabytes + "' }", {});
  EXPECT_EQ(play.held_bytes(), 0u);
  EXPECT_EQ(play.receive(3, "request: 2 share { round: 1 bytes: 'x' }").messages.size(), 3u);
}

TEST(Limits, HeartbeatTakesTimeOnlyForItsCounters) {
  constexpr int streams = 2000;
  Play play;
  play.join("g", 1, 1);
  for (int i = 0; i < streams; ++i)
    play.receive(1, announce(fmt::format("s{}", i), "shape=8 grid=1"));
  // If the cost is linear in counters and in streams, this takes a moment; if it is their product,
  // 32 heartbeats take minutes.
  const std::string text = heartbeat(20'000);
  const wire::ToServer message = Play::parsed(text);
  for (int i = 0; i < 32; ++i) play.receive(1, message);
  EXPECT_EQ(play.status(true).streams(0).produced().ranks_size(), 1);
}

TEST(Limits, AConnectionWaitsOnceForAName) {
  Play play;
  play.join("g", 2, 1);
  play.send(1, "request: 2 goodbye {}", {Play::done(1, 2)});
  play.send(3, Play::hello("g", 0, 1, "another"), {});
  play.send(3, Play::hello("g", 0, 1, "another"),
            {Play::refused(3, -7, "Hello: expected once per connection, found a second one")});
}

TEST(Limits, ReasonsLoseTheirInvisibleCharacters) {
  Play play;
  play.join("ocean", 1, 1);
  play.join("viewer", 1, 2);
  play.be_present(1);
  play.be_present(2);
  play.receive(1, announce("s", "shape=8 grid=1"));
  play.receive(2, "request: 2 subscribe { stream: 's' incarnation: 1 " +
                      Play::field("u", 10, "shape=8 grid=1") + Play::offers({"tcp"}) + "}");
  play.send(2, "request: 3 close_link { link: 1 why: 'red \\033[31m \\342\\200\\256' }",
            {Play::done(2, 3), "1: link_closed { link: 1 why: 'red ?[31m ?' }"});
}

}  // namespace
}  // namespace tremula::server
