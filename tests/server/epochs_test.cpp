// SPDX-License-Identifier: Apache-2.0
// A producer is lost and started again: server/rendezvous/epochs.cpp.
#include <gtest/gtest.h>

#include "tests/server/play.hpp"

namespace tremula::server {
namespace {

// Connections 10 to 19 have proved alice's key, and connections 20 to 29 have proved bob's.
class Epochs : public testing::Test {
protected:
  Epochs() { start_server(0); }
  /// Starts a server.
  /// @param names  names of the keys, in the order of the file
  void start_server(std::uint32_t server,
                    const std::vector<std::string>& names = {"operator", "alice", "bob"}) {
    number = server;
    std::vector<std::string> keys;
    for (const auto& name : names) keys.push_back(name + ": the key that belongs to " + name);
    play = Play(number, {}, keys);
    const auto owner = [&](const char* name) {
      return static_cast<Owner>(std::ranges::find(names, name) - names.begin());
    };
    for (ConnectionId id = 10; id < 30; ++id) play.own(id, owner(id < 20 ? "alice" : "bob"));
  }
  static std::string fields() { return Play::field("u", 10, "shape=8 grid=1"); }
  std::string welcome(ConnectionId to) const {
    return fmt::format("{}: request: 1 welcome {{ version: '0.1' heartbeat_seconds: 1{} }}", to,
                       number == 0 ? "" : fmt::format(" server: {}", number));
  }
  void join(const std::string& group, ConnectionId from) {
    play.send(from, Play::hello(group, 0, 1), {welcome(from)});
  }
  static std::string announcement(const std::string& more = "") {
    return "announce { stream: 's' queue_depth: 1 incarnation: 7 number: 70 " + fields() +
           Play::offers({"tcp"}) + more + "}";
  }
  static std::string subscription(const std::string& more) {
    return "stream: 's' incarnation: 5 " + fields() + Play::offers({"tcp"}) + more;
  }
  /// Starts a producer, which is linked if viewer waits in a call that opens links.
  void start_producer(ConnectionId from) {
    join("ocean", from);
    play.receive(from, "request: 2 " + announcement());
    play.receive(from, "request: 9 presence { is_present: true incarnation: 7 }");
  }
  static std::string link_of_producer(int number, const std::string& consumer) {
    return fmt::format(
        "links {{ link: {} stream: 's' peer_group: '{}' peer_size: 1 offer: 'tcp' queue_depth: 1 "
        "incarnation: 7 outlives: true {} }} ",
        number, consumer, fields());
  }
  /// Lets a producer that kept running return from an earlier server.
  void resume_producer(ConnectionId from, const std::string& links) {
    join("ocean", from);
    const auto announced = announcement();
    play.receive(
        from, "request: 2 resume { streams " + announced.substr(announced.find('{')) + links + "}");
  }
  /// Subscribes viewer to the stream or, with `least_epoch`, again after it has lost epoch
  /// `least_epoch` - 1.
  void subscribe(const std::string& more) {
    play.receive(viewer, "request: 9 presence {}");
    EXPECT_EQ(refusal_of_subscription(viewer, more, token), "");
  }
  std::string refusal_of_subscription(ConnectionId from, const std::string& more,
                                      const std::string& shown) {
    auto message = Play::parsed("request: 2 subscribe { " + subscription(more) + "}");
    message.mutable_subscribe()->set_token(shown);
    return play.receive(from, message).messages.at(0).message.refused().text();
  }
  /// Lets viewer return from an earlier server.
  Output resume(const std::string& more) {
    auto message = Play::parsed("request: 2 resume { subscriptions { " + subscription(more) +
                                "} presence {} }");
    message.mutable_resume()->mutable_subscriptions(0)->set_token(token);
    return play.receive(viewer, message);
  }
  std::string matched(std::uint64_t link, int epoch) const {
    return fmt::format(
        "{}: matched {{ link: {} stream: 's' peer_group: 'ocean' peer_size: 1 {} offer: 'tcp' "
        "queue_depth: 1 incarnation: 5 stream_number: 70 epoch: {} outlives: true why: \"the "
        "producer's first of tcp that the consumer also has (it has tcp)\" }}",
        viewer, link, fields(), epoch);
  }
  /// Checks the match that viewer receives when it enters a call that opens links.
  void expect_matched(std::uint64_t link, int epoch) {
    std::string found, seal, peer_mark;
    for (const Outgoing& out :
         play.receive(viewer, "request: 9 presence { is_present: true }").messages)
      if (out.to == viewer && out.message.has_matched()) {
        token = out.message.matched().token();
        seal = out.message.matched().seal();  // owners_test checks this and the mark
        peer_mark = out.message.matched().peer_mark();
        found = fmt::format("{}: {}", viewer, out.message.ShortDebugString());
      }
    EXPECT_EQ(token.size(), 48u);
    wire::ToClient wanted;
    const std::string text = matched(link, epoch);
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text.substr(text.find(' ')), &wanted))
        << text;
    wanted.mutable_matched()->set_token(token);
    wanted.mutable_matched()->set_seal(seal);
    wanted.mutable_matched()->set_peer_mark(peer_mark);
    wanted.mutable_matched()->clear_epoch();  // 0 is not written
    if (epoch > 0) wanted.mutable_matched()->set_epoch(static_cast<std::uint64_t>(epoch));
    EXPECT_EQ(found, fmt::format("{}: {}", viewer, wanted.ShortDebugString()));
  }
  /// Announces the stream over `connection`, and returns the text of the refusal; empty if none.
  std::string refusal_of_announcement(ConnectionId connection, const std::string& more = "") {
    for (const Outgoing& out :
         play.receive(connection, "request: 3 " + announcement(more)).messages)
      if (out.to == connection && out.message.has_refused()) return out.message.refused().text();
    return {};
  }
  std::uint64_t shown_epoch() const { return play.status().streams(0).epoch(); }

  static constexpr ConnectionId viewer = 11;
  std::uint32_t number = 0;  // number of the server
  std::string token;         // token of the last link of viewer
  Play play;
};

constexpr auto outlives = "outlives: true ";

TEST_F(Epochs, LinkASurvivingConsumerToTheNextProducer) {
  join("viewer", viewer);
  subscribe(outlives);
  start_producer(12);
  expect_matched(1, 0);
  EXPECT_EQ(shown_epoch(), 0u);
  EXPECT_EQ(play.status().ShortDebugString().find("epoch"), std::string::npos);
  play.close(12, {"11: group_lost { group: 'ocean' links: 1 why: \"rank 0 of group 'ocean' on host "
                  "node, pid 100, closed its connection without goodbye (reset)\" }"});
  subscribe("outlives: true least_epoch: 1 ");
  start_producer(13);
  expect_matched(2, 1);
  EXPECT_EQ(shown_epoch(), 1u);
  // The producer gives up the stream.
  play.receive(13, "request: 3 close_stream { stream: 's' gave_up: true incarnation: 7 }");
  subscribe("outlives: true least_epoch: 2 ");
  play.receive(13, "request: 4 goodbye {}");
  start_producer(14);
  expect_matched(3, 2);
}

TEST_F(Epochs, LinkALateConsumerToAGreaterEpoch) {
  join("viewer", viewer);
  subscribe(outlives);
  start_producer(12);
  expect_matched(1, 0);
  play.close_in_any_order(
      12, {"11: group_lost { group: 'ocean' links: 1 why: \"rank 0 of group 'ocean' "
           "on host node, pid 100, closed its connection without goodbye "
           "(reset)\" }"});
  start_producer(13);
  EXPECT_EQ(shown_epoch(), 1u);
  play.close(13, {});
  start_producer(14);
  EXPECT_EQ(shown_epoch(), 2u);
  subscribe("outlives: true least_epoch: 1 ");
  expect_matched(2, 2);
}

TEST_F(Epochs, KeepNothingWithoutSurvivingConsumers) {
  join("viewer", viewer);
  subscribe("");
  start_producer(12);
  play.receive(viewer, "request: 9 presence { is_present: true }");
  const auto before = play.held_bytes();
  play.receive(viewer, "request: 3 close_link { link: 1 }");
  EXPECT_LT(play.held_bytes(), before);
  subscribe("");
  play.receive(12, "request: 9 presence { is_present: true incarnation: 7 }");
  play.receive(viewer, "request: 9 presence { is_present: true }");
  play.close_in_any_order(
      12, {"11: group_lost { group: 'ocean' links: 2 why: \"rank 0 of group 'ocean' "
           "on host node, pid 100, closed its connection without goodbye "
           "(reset)\" }"});
  EXPECT_EQ(play.held_bytes(), 0u);
  join("bob", 20);
  EXPECT_EQ(refusal_of_announcement(20), "");
  EXPECT_EQ(shown_epoch(), 0u);
}

/// A server that has lost the producer of viewer.
class LostProducer : public Epochs {
protected:
  LostProducer() {
    join("viewer", viewer);
    subscribe(outlives);
    start_producer(12);
    expect_matched(1, 0);
    play.close_in_any_order(12, {"11: group_lost { group: 'ocean' links: 1 why: \"rank 0 of group "
                                 "'ocean' on host node, pid 100, closed its connection without "
                                 "goodbye (reset)\" }"});
    join("bob", 20);
  }
  static constexpr auto claimed =
      "stream 's': consumers wait for its producer, which was lost, to be started again; expected "
      "a group with that producer's key, found group 'bob' with a different key; choose another "
      "name";
  static constexpr auto again = "outlives: true least_epoch: 1 ";
};

TEST_F(LostProducer, IsNotFollowedByAStranger) {
  EXPECT_EQ(refusal_of_announcement(20), claimed) << "before viewer knows of the loss";
  subscribe(again);
  EXPECT_EQ(refusal_of_announcement(20, "readable_by_all: true "), claimed);
  start_producer(13);
  expect_matched(2, 1);
  play.receive(viewer, "request: 3 close_link { link: 2 }");
  play.receive(13, "request: 3 close_stream { stream: 's' }");
  EXPECT_EQ(refusal_of_announcement(20), "") << "the stream ended in order: the name is free";
}

TEST_F(LostProducer, IsAwaitedOnlyByItsConsumers) {
  play.receive(viewer, "request: 3 unsubscribe { stream: 's' }");
  EXPECT_EQ(refusal_of_announcement(20), "");
  play.receive(20, "request: 3 close_stream { stream: 's' }");
  EXPECT_EQ(play.held_bytes(), 0u);
}

TEST_F(LostProducer, IsNotAwaitedByALostConsumer) {
  play.close(viewer, {});
  EXPECT_EQ(refusal_of_announcement(20), "");
}

TEST_F(LostProducer, IsRememberedAfterAServerRestart) {
  start_server(7);
  join("bob", 20);
  join("viewer", viewer);
  EXPECT_TRUE(resume(again).messages.at(0).message.has_done());
  EXPECT_EQ(refusal_of_announcement(20), claimed);
  start_producer(13);
  expect_matched((std::uint64_t{7} << 32) + 1, 1);

  // The producer comes back first, and the file names the keys in another order.
  start_server(8, {"bob", "operator", "alice"});
  start_producer(13);
  EXPECT_EQ(shown_epoch(), 0u);
  join("viewer", viewer);
  subscribe("outlives: true least_epoch: 2 ");
  expect_matched((std::uint64_t{8} << 32) + 1, 2);
}

TEST_F(LostProducer, IsNotFollowedByAFastStrangerAfterARestart) {
  start_server(7);
  join("bob", 20);
  EXPECT_EQ(refusal_of_announcement(20, "readable_by_all: true "), "");
  join("viewer", viewer);
  const auto messages = resume(again).messages;
  ASSERT_EQ(messages.size(), 2u);  // the stranger need not know
  EXPECT_TRUE(messages[0].message.has_done());
  EXPECT_EQ(messages[1].to, viewer);
  EXPECT_EQ(messages[1].message.stream_refused().refused().text(),
            "stream 's': consumer 'viewer' waits for its producer to be started again; expected "
            "a group with that producer's key, found one with a different key");
  play.receive(20, "request: 3 close_stream { stream: 's' }");
  EXPECT_EQ(refusal_of_announcement(20), "") << "the claim has ended with the subscription";
}

TEST_F(LostProducer, IsForgottenWithItsKey) {
  start_server(7, {"operator", "bob"});
  for (ConnectionId id = 10; id < 20; ++id) play.own(id, 1);  // viewer has bob's key now
  join("bob", 20);
  join("viewer", viewer);
  const auto messages = resume(again).messages;
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(
      messages[0].message.stream_refused().refused().text(),
      "stream 's': expected the token of a link that group 'viewer' had in epoch 0; found one "
      "that no key of this server has made: has the producer's key been changed? Open the "
      "stream again");
  EXPECT_EQ(messages[0].message.stream_refused().incarnation(), 5u);
  EXPECT_TRUE(messages[1].message.has_done()) << "the rest of the group comes back";
  EXPECT_EQ(play.held_bytes(), 0u);
  EXPECT_EQ(refusal_of_announcement(20), "");
}

TEST_F(LostProducer, IsAwaitedOnlyWithATokenOfIt) {
  play.receive(viewer, "request: 3 unsubscribe { stream: 's' }");
  const auto before = play.held_bytes();
  join("other", 15);
  const auto found = [](const std::string& group, std::uint64_t epoch) {
    return fmt::format(
        "stream 's': expected the token of a link that group '{}' had in epoch {}; found one that "
        "no key of this server has made: has the producer's key been changed? Open the stream "
        "again",
        group, epoch);
  };
  EXPECT_EQ(refusal_of_subscription(20, again, ""), found("bob", 0));
  EXPECT_EQ(refusal_of_subscription(20, again, std::string(32, 'x')), found("bob", 0));
  EXPECT_EQ(refusal_of_subscription(20, again, token), found("bob", 0));
  EXPECT_EQ(refusal_of_subscription(15, again, token), found("other", 0))
      << "the token is viewer's";
  const std::string later = "outlives: true least_epoch: 4294967295 ";
  EXPECT_EQ(refusal_of_subscription(viewer, later, token), found("viewer", 4294967294));
  EXPECT_EQ(play.held_bytes(), before);
  EXPECT_EQ(refusal_of_announcement(20), "") << "nothing is claimed";
  EXPECT_EQ(shown_epoch(), 0u);
}

TEST_F(LostProducer, IsFollowedForAConsumerThatMayReadTheNext) {
  start_server(7, {"operator", "alice", "bob"});
  start_producer(13);
  play.own(viewer, 2);  // bob's key, and the stream is not readable by all
  join("viewer", viewer);
  EXPECT_EQ(refusal_of_subscription(viewer, again, token), "");
  EXPECT_EQ(shown_epoch(), 0u) << "a subscription that is refused changes nothing";
}

TEST_F(LostProducer, IsNoLongerClaimedIfTheNextDoesNotFit) {
  subscribe(again);
  join("ocean", 13);
  play.receive(13, "request: 2 announce { stream: 's' queue_depth: 1 incarnation: 7 " +
                       Play::field("u", 10, "shape=9 grid=1") + Play::offers({"tcp"}) + "}");
  play.receive(13, "request: 3 close_stream { stream: 's' }");
  EXPECT_EQ(refusal_of_announcement(20), "");
  play.receive(20, "request: 3 close_stream { stream: 's' }");
  subscribe(again);
  EXPECT_EQ(refusal_of_announcement(20), claimed) << "it still has its token";
}

TEST_F(LostProducer, WasLinkedByAnEarlierServer) {
  start_server(7);
  join("viewer", viewer);
  join("bob", 20);
  const std::string link =
      "links { link: 99 stream: 's' peer_size: 1 offer: 'tcp' queue_depth: 1 epoch: 4 outlives: "
      "true " +
      fields();
  play.receive(viewer, "request: 2 resume { " + link + "peer_group: 'ocean' incarnation: 5 } }");
  join("ocean", 12);
  play.receive(12, "request: 2 resume { streams { stream: 's' queue_depth: 1 incarnation: 7 " +
                       fields() + Play::offers({"tcp"}) + "} " + link +
                       "peer_group: 'viewer' incarnation: 7 } }");
  EXPECT_EQ(shown_epoch(), 4u);
  play.close_in_any_order(
      12, {"11: group_lost { group: 'ocean' links: 99 why: \"rank 0 of group 'ocean' "
           "on host node, pid 100, closed its connection without goodbye "
           "(reset)\" }"});
  EXPECT_EQ(refusal_of_announcement(20), claimed);
  start_producer(13);
  EXPECT_EQ(shown_epoch(), 5u);
}

TEST_F(Epochs, StayTheSameWhileTheProducerContinues) {
  constexpr auto again = "outlives: true least_epoch: 1 lost_streams: 70 ";
  constexpr auto lose = "request: 3 close_link { link: 1 gave_up: true why: 'cut' }";
  const auto begin_step = [&] {
    play.receive(12, "request: 9 presence {}");
    play.receive(12, "request: 9 presence { is_present: true incarnation: 7 }");
  };
  join("viewer", viewer);
  subscribe(outlives);
  start_producer(12);
  expect_matched(1, 0);
  play.receive(viewer, lose);
  subscribe(again);
  begin_step();
  expect_matched(2, 0);
  // It makes no difference whether the server is restarted meanwhile, or which group comes back
  // first.
  for (const bool is_consumer_first : {true, false}) {
    SCOPED_TRACE(is_consumer_first);
    start_server(is_consumer_first ? 7 : 8);
    const auto come_back = [&] {
      join("viewer", viewer);
      resume(again);
      play.receive(viewer, lose);
    };
    if (is_consumer_first) come_back();
    resume_producer(12, link_of_producer(1, "viewer"));
    if (!is_consumer_first) come_back();
    begin_step();
    expect_matched((std::uint64_t{number} << 32) + 1, 0);
  }
}

// A rank of the producer dropped the link of viewer before the server ended; group "other" still
// has its link.
TEST_F(Epochs, StayTheSameIfTheProducerHasOtherLinks) {
  join("viewer", viewer);
  subscribe(outlives);
  start_producer(12);
  expect_matched(1, 0);
  for (const bool is_consumer_first : {true, false}) {
    SCOPED_TRACE(is_consumer_first);
    start_server(is_consumer_first ? 7 : 8);
    const auto come_back = [&] {
      join("viewer", viewer);
      resume("outlives: true least_epoch: 1 lost_streams: 70 ");
    };
    if (is_consumer_first) come_back();
    resume_producer(12, link_of_producer(99, "other"));
    if (!is_consumer_first) come_back();
    EXPECT_EQ(shown_epoch(), 0u);
    play.receive(12, "request: 9 presence { is_present: true incarnation: 7 }");
    expect_matched((std::uint64_t{number} << 32) + 1, 0);
  }
}

// viewer had epoch 1 of an earlier producer; group "other" is linked to the current producer before
// viewer comes back.
TEST_F(Epochs, AreNotChangedByAnEarlierConsumer) {
  play = Play();  // without keys there are no tokens to show
  constexpr ConnectionId other = 15;
  const auto epoch_of = [&](ConnectionId to, const std::string& more) {
    play.receive(to, "request: 9 presence {}");
    EXPECT_EQ(refusal_of_subscription(to, more, ""), "");
    play.receive(12, "request: 9 presence { is_present: true incarnation: 7 }");
    for (const Outgoing& out :
         play.receive(to, "request: 9 presence { is_present: true }").messages)
      if (out.to == to && out.message.has_matched())
        return std::pair(out.message.matched().link(), out.message.matched().epoch());
    return std::pair(std::uint64_t{0}, ~std::uint64_t{0});
  };
  join("viewer", viewer);
  join("other", other);
  start_producer(12);
  const auto [link, epoch] = epoch_of(other, outlives);
  EXPECT_EQ(epoch, 0u);
  EXPECT_EQ(epoch_of(viewer, "outlives: true least_epoch: 2 lost_streams: 69 ").second, 2u);
  play.receive(other,
               fmt::format("request: 3 close_link {{ link: {} gave_up: true why: 'cut' }}", link));
  EXPECT_EQ(epoch_of(other, "outlives: true least_epoch: 1 lost_streams: 70 ").second, 0u);
}

TEST_F(Epochs, AreCountedUpToTheMaximum) {
  play = Play();  // without keys there are no tokens to show
  join("viewer", viewer);
  subscribe("outlives: true least_epoch: 4294967295 ");
  start_producer(12);
  EXPECT_EQ(shown_epoch(), 4294967295u);
  play.receive(viewer, "request: 9 presence { is_present: true }");
  play.close_in_any_order(12, {"11: group_lost { group: 'ocean' links: 1 why: \"rank 0 of group "
                               "'ocean' on host node, pid 100, closed its connection without "
                               "goodbye (reset)\" }"});
  EXPECT_EQ(
      refusal_of_subscription(viewer, "outlives: true least_epoch: 4294967296 ", ""),
      "stream 's': expected an epoch below 4294967295, the last one, as the one lost by group "
      "'viewer'; found the last one: choose another name");
  start_producer(13);
  EXPECT_EQ(shown_epoch(), 4294967295u);
}

TEST_F(Epochs, AreSharedByThePartsOfOneArray) {
  play = Play();  // without keys there are no tokens to show
  join("viewer", viewer);
  const auto part = [](int origin) {
    return fmt::format(
        "request: 2 announce {{ stream: 's' queue_depth: 1 incarnation: 7 fields {{ name: 'u' "
        "element_type: 10 layout: 'shape=4 grid=1' origin: {} whole: 8 }} {} }}",
        origin, Play::offers({"tcp"}));
  };
  subscribe("outlives: true least_epoch: 3 ");
  join("west", 12);
  join("east", 13);
  play.receive(12, part(0));
  play.receive(13, part(4));
  EXPECT_EQ(play.status().streams(0).epoch(), 3u);
  EXPECT_EQ(play.status().streams(1).epoch(), 3u);
}

}  // namespace
}  // namespace tremula::server
