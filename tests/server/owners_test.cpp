// SPDX-License-Identifier: Apache-2.0
// Several keys at one server: groups, streams and links of one key do not belong to another.
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/server/play.hpp"

namespace tremula::server {
namespace {

// Connections below 10 have proved the operator's key, 10 to 19 alice's, 20 to 29 bob's.
class Owners : public testing::Test {
protected:
  Owners() {
    for (ConnectionId id = 10; id < 30; ++id) play.own(id, id < 20 ? 1 : 2);
    play.join("ocean", 1, 10);
    play.send(10, announce("sst"), {Play::done(10)});
  }
  static std::string what(const std::string& stream) {
    return "stream: '" + stream + "' incarnation: 7 " + Play::field("u", 10, "shape=8 grid=1") +
           Play::offers({"local"});
  }
  static std::string announce(const std::string& stream, const std::string& more = "") {
    return "request: 1 announce { queue_depth: 1 " + what(stream) + more + "}";
  }
  static std::string subscribe(const std::string& stream) {
    return "request: 1 subscribe { " + what(stream) + "}";
  }
  static std::string not_for_all(const std::string& stream) {
    return "stream \\'" + stream +
           "\\' is announced by a group with a different key: expected that it lets others read "
           "(\\'readable_by: all\\' among the options of its producer), found that it does not";
  }
  std::string shown_to(Owner owner) const { return play.status_for(owner).ShortDebugString(); }
  Play play;
  static constexpr int refused = -7;
};

TEST_F(Owners, NameAndSeatsOfAGroupBelongToItsKey) {
  const auto held = [](ConnectionId to) {
    return Answers{
        Play::refused(to, refused,
                      "group \\'pair\\': the name is held by a job with a different key; "
                      "choose another name")};
  };
  // A job with a different key is refused even if it claims to be the same job and the rank is free.
  play.send(12, Play::hello("pair", 0, 2), {Play::welcome(12)});
  play.send(20, Play::hello("pair", 1, 2), held(20));
  play.send(1, Play::hello("pair", 1, 2), held(1));
  play.send(13, Play::hello("pair", 1, 2), {Play::welcome(13)});
  // Nor does it wait for the name while the group is leaving.
  play.send(12, "request: 2 goodbye {}", {Play::done(12, 2)});
  play.send(20, Play::hello("pair", 0, 1), held(20));
  play.send(13, "request: 2 goodbye {}", {Play::done(13, 2)});
  play.send(20, Play::hello("pair", 0, 1), {Play::welcome(20)});
}

TEST_F(Owners, StreamIsReadableOnlyWithItsKey) {
  play.join("viewer", 1, 11);
  play.join("spy", 1, 20);
  play.send(11, subscribe("sst"), {Play::done(11)});
  // The producer is not notified.
  play.send(20, subscribe("sst"),
            {Play::done(20), Play::stream_refused(20, refused, not_for_all("sst"), 7)});
  play.send(20, "request: 3 describe { stream: 'sst' }",
            {Play::refused(20, refused, not_for_all("sst"), 3)});
  play.send(20, "request: 4 describe { stream: 'none' }", {"20: request: 4 streams {}"});
  play.send(11, "request: 4 describe { stream: 'none' }",
            {"11: request: 4 streams { names: 'sst' }"});
  play.send(20, announce("sst"),
            {Play::refused(20, refused,
                           "stream \\'sst\\' is already announced by a group with a different key; "
                           "choose another name or announce it when that group has closed it")});
  play.send(20, "request: 5 close_stream { stream: 'sst' }",
            {Play::refused(20, refused,
                           "stream \\'sst\\': expected one that group \\'spy\\' has announced, "
                           "found that of a group with a different key",
                           5)});
}

TEST_F(Owners, WaitingConsumerIsRefusedForAnotherKey) {
  play.join("spy", 1, 20);
  play.send(20, subscribe("late"), {Play::done(20)});
  play.send(10, announce("late"),
            {Play::done(10), Play::stream_refused(20, refused, not_for_all("late"), 7)});
}

TEST_F(Owners, StreamRejectsPartsOfAnotherKey) {
  const auto part = [](int row) {
    return "request: 1 announce { queue_depth: 1 stream: 'parts' incarnation: 9 readable_by_all: "
           "true fields { name: 'u' element_type: 10 layout: 'shape=4 grid=1' whole: 8 origin: " +
           std::to_string(row) + " } " + Play::offers({"local"}) + "}";
  };
  play.join("west", 1, 11);
  play.join("east", 1, 20);
  play.join("also east", 1, 12);
  play.send(11, part(0), {Play::done(11)});
  play.send(20, part(4),
            {Play::refused(20, refused,
                           "stream \'parts\' is already announced by group \'west\'; choose "
                           "another name or announce it when that group has closed it")});
  play.send(12, part(4), {Play::done(12)});
}

TEST_F(Owners, StreamMayBeReadableByAll) {
  play.join("guest", 1, 20);
  play.send(10, announce("open", "readable_by_all: true "), {Play::done(10)});
  play.send(20, subscribe("open"), {Play::done(20)});
  play.be_present(10, 7, {"20: awaited {}"});
  EXPECT_EQ(play.receive(20, "request: 9 presence { is_present: true }").messages.size(), 3u);
  EXPECT_NE(shown_to(2).find("\"open\""), std::string::npos) << shown_to(2);
  EXPECT_EQ(shown_to(2).find("\"sst\""), std::string::npos) << shown_to(2);
  // Permission to read is not permission to write.
  play.send(20, announce("open"),
            {Play::refused(20, refused,
                           "stream \\'open\\' is already announced by group \\'ocean\\'; choose "
                           "another name or announce it when that group has closed it")});
}

// The producer may wait for another consumer, and would fail if it were notified.
TEST_F(Owners, UnfitStrangerIsNotReportedToTheProducer) {
  play.join("guest", 1, 20);
  play.join("viewer", 1, 11);
  const auto subscribe_other = [](std::uint64_t incarnation) {
    return fmt::format("request: 1 subscribe {{ stream: 'open' incarnation: {} {} {} }}",
                       incarnation, Play::field("other", 10, "shape=8 grid=1"),
                       Play::offers({"local"}));
  };
  play.send(10, announce("open", "readable_by_all: true "), {Play::done(10)});
  const auto notified_by = [&](ConnectionId from) {
    std::vector<ConnectionId> refused_on;
    for (const Outgoing& out : play.receive(from, subscribe_other(8)).messages)
      if (out.message.has_stream_refused()) refused_on.push_back(out.to);
    return refused_on;
  };
  EXPECT_EQ(notified_by(20), (std::vector<ConnectionId>{20}));
  EXPECT_EQ(notified_by(11), (std::vector<ConnectionId>{11, 10}));
}

TEST_F(Owners, StatusShowsOnlyItsKeyExceptToTheOperator) {
  play.join("viewer", 1, 11);
  play.join("lonely", 1, 20);
  play.send(11, subscribe("hidden"), {Play::done(11)});
  play.send(20, subscribe("wanted"), {Play::done(20)});
  const std::string words[] = {"\"ocean\"",  "\"viewer\"", "\"sst\"",
                               "\"hidden\"", "\"lonely\"", "\"wanted\""};
  for (const Owner owner : {0u, 1u, 2u})
    for (std::size_t i = 0; i < std::size(words); ++i) {
      const bool is_shown = owner == 0 || (owner == 1) == (i < 4);
      EXPECT_EQ(shown_to(owner).find(words[i]) != std::string::npos, is_shown)
          << owner << words[i] << shown_to(owner);
    }
  // Over a connection, the status shows what belongs to the key that the connection has proved.
  const Output output = play.receive(20, "request: 5 status {}");
  EXPECT_EQ(output.messages.at(0).message.status().streams_size(), 1);
}

TEST_F(Owners, WaitsAreShownOnlyToTheirKey) {
  play.receive(10,
               "heartbeat { wait { number: 1 seconds: 20 call: 'begin_step' stream: 'sst' group: "
               "'viewer' link: 1 } }");
  wire::StatusRequest request;
  request.set_waits(true);
  EXPECT_EQ(play.status_for(0, request).waits_size(), 1);
  EXPECT_EQ(play.status_for(1, request).waits_size(), 1);
  EXPECT_EQ(play.status_for(2, request).waits_size(), 0);
}

// An absent consumer with a different key is no reason to report a circle, whatever wait it claims.
TEST_F(Owners, WaitsOfAnotherKeyEndNoCall) {
  play.send(10, announce("for_all", " readable_by_all: true"), {Play::done(10)});
  play.join("evil", 1, 20);
  play.send(20, subscribe("for_all"), {Play::done(20)});
  for (int second = 0; second < 9; ++second) {
    play.at(second);
    for (const ConnectionId rank : {10u, 20u}) play.record_heard(rank);
    play.receive(10,
                 "heartbeat { wait { number: 1 call: 'begin_step' stream: 'for_all' incarnation: 7 "
                 "consumers: 1 } }");
    play.receive(20,
                 "heartbeat { wait { number: 1 call: 'x' group: 'ocean' ranks: 0 count: "
                 "18446744073709551615 } }");
    EXPECT_TRUE(play.check_silence().messages.empty()) << second;
  }
}

// There is no circle either if the consumer really waits for the other group's next action: a
// consumer with the producer's own key may still join.
TEST_F(Owners, WaitingConsumerOfAnotherKeyMakesNoCircle) {
  const auto of = [](const std::string& stream, int incarnation) {
    return fmt::format("stream: '{}' incarnation: {} {}{}", stream, incarnation,
                       Play::field("u", 10, "shape=8 grid=1"), Play::offers({"local"}));
  };
  play.join("guest", 1, 20);
  for (const auto& [stream, incarnation] : {std::pair{"linked", 8}, {"waits", 9}}) {
    play.receive(10, "request: 1 announce { queue_depth: 1 readable_by_all: true " +
                         of(stream, incarnation) + " }");
    play.receive(20, "request: 1 subscribe { " + of(stream, incarnation) + " }");
    if (incarnation == 9) break;
    for (const std::string is_present : {"true", "false"})
      for (const ConnectionId rank_0 : {10u, 20u})
        play.receive(rank_0, "request: 1 presence { is_present: " + is_present + " }");
  }
  for (int second = 0; second < 9; ++second) {
    play.at(second);
    for (const ConnectionId rank : {10u, 20u}) play.record_heard(rank);
    play.receive(10,
                 "heartbeat { wait { number: 1 call: 'begin_step' stream: 'waits' incarnation: 9 "
                 "consumers: 1 turns { link: 1 } } }");
    play.receive(20,
                 "heartbeat { wait { number: 1 call: 'begin_step' stream: 'linked' group: 'ocean' "
                 "ranks: 0 link: 1 turns { link: 1 } } }");
    EXPECT_TRUE(play.check_silence().messages.empty()) << second;
  }
}

TEST_F(Owners, ExplanationsOmitNamesOfOtherKeys) {
  play.join("viewer", 1, 11);
  play.join("lonely", 1, 20);
  play.send(21, Play::hello("half", 0, 2), {Play::welcome(21)});
  play.send(11, subscribe("no such"), {Play::done(11)});
  play.send(20, subscribe("wanted"), {Play::done(20)});
  const auto explained = [&](ConnectionId id) {
    return play.receive(id, "request: 5 explain { incarnation: 7 }")
        .messages.at(0)
        .message.explained()
        .text();
  };
  EXPECT_EQ(explained(10), "consumers of other streams only: 'no such'");
  EXPECT_EQ(explained(11), "only 'sst'");
  EXPECT_EQ(explained(20), "no stream of another group; 1 of 2 ranks of group 'half' have joined");
}

// Explanations also omit the streams and groups that a group with a different key waits for, even if
// one of its streams is readable by all.
TEST_F(Owners, ExplanationsOmitWaitsOfOtherKeys) {
  const auto announced = [](const std::string& stream, const std::string& more) {
    return "request: 1 announce { queue_depth: 1 stream: '" + stream + "' incarnation: 9 " +
           Play::field("u", 10, "shape=8 grid=1") + Play::offers({"local"}) + more + "}";
  };
  play.send(10, announced("open", "readable_by_all: true "), {Play::done(10)});
  play.join("guest", 1, 20);
  play.send(20, subscribe("open"), {Play::done(20)});
  play.send(20, announce("bobs"), {Play::done(20)});
  play.send(20, "heartbeat { counters { stream: 'bobs' waits_for: 'friend of bob' } }", {});
  play.send(10, "heartbeat { counters { stream: 'sst' waits_for: 'friend of alice' } }", {});
  play.send(
      10, "request: 5 explain { incarnation: 9 }",
      {"10: request: 5 explained { text: \"group 'guest' has subscribed, but is not in a call "
       "that opens links\" has_come: true }"});
  play.send(20, "request: 5 unsubscribe { stream: 'open' }", {Play::done(20, 5)});
  play.send(20,
            "request: 6 subscribe { stream: 'open' incarnation: 8 " +
                Play::field("u", 10, "shape=8 grid=1") + Play::offers({"local"}) + "}",
            {Play::done(20, 6)});
  play.send(
      20, "request: 7 explain { incarnation: 8 }",
      {"20: request: 7 explained { text: \"group 'ocean' offers it, but is not in a call that "
       "opens links\" has_come: true }"});
}

// Every group that may read a stream sees its progress, but not which groups with other keys it waits for.
TEST_F(Owners, ReadersDoNotSeeConsumersOfOtherKeys) {
  play.send(10, announce("open", "readable_by_all: true "), {Play::done(10)});
  play.join("viewer", 1, 11);
  play.send(11, subscribe("open"), {Play::done(11)});
  play.receive(10, "request: 9 presence { is_present: true incarnation: 7 }");
  play.receive(11, "request: 9 presence { is_present: true }");
  play.receive(10,
               "heartbeat { counters { stream: 'open' steps: 5 waits_for: 'viewer' lags { link: 1 "
               "steps: 3 waited_seconds: 2 } } }");
  wire::StatusRequest request;
  request.set_ranks(true);
  for (const Owner owner : {0u, 1u, 2u}) {
    const auto shown = play.status_for(owner, request);
    const auto stream = std::ranges::find(shown.streams(), "open", &wire::StreamStatus::name);
    ASSERT_NE(stream, shown.streams().end());
    EXPECT_EQ(stream->produced().steps(), 5u);
    EXPECT_EQ(stream->produced().ranks_size(), 1);
    EXPECT_EQ(stream->slowest(), owner == 2 ? "" : "viewer");
    EXPECT_EQ(shown.ShortDebugString().find("viewer") == std::string::npos, owner == 2)
        << shown.ShortDebugString();
  }
}

// A circle through groups with two keys is reported to each of these groups, with only the names
// that the group may see.
TEST_F(Owners, CircleIsReportedWithoutForeignStreams) {
  play.join("b", 1, 20);
  play.join("c", 1, 21);
  const auto link = [&](ConnectionId producer, ConnectionId consumer, const std::string& stream,
                        const std::string& more) {
    const std::string of = fmt::format("stream: '{}' incarnation: {} {}{}", stream, 90 + producer,
                                       Play::field("u", 10, "shape=8 grid=1"), Play::offers({"t"}));
    play.receive(producer, "request: 1 announce { queue_depth: 3 " + of + more + " }");
    play.receive(consumer, "request: 1 subscribe { " + of + " }");
    for (const std::string is_present : {"true", "false"})
      for (const ConnectionId rank_0 : {producer, consumer})
        play.receive(rank_0, "request: 1 presence { is_present: " + is_present + " }");
  };
  link(10, 20, "from alice", "readable_by_all: true");
  link(20, 21, "of bob alone", "");
  link(21, 10, "to alice", "readable_by_all: true");
  const auto wait = [&](ConnectionId from, const std::string& stream, const std::string& group,
                        int number, int mine) {
    play.receive(from, fmt::format("heartbeat {{ wait {{ number: 1 seconds: 5 call: 'begin_step' "
                                   "stream: '{}' what: 'to send the next step' group: '{}' ranks: "
                                   "0 link: {} turns {{ link: {} }} turns {{ link: {} }} }} }}",
                                   stream, group, number, number, mine));
  };
  std::map<ConnectionId, std::string> texts;
  for (int second = 0; second < 9; ++second) {
    play.at(second);
    for (const ConnectionId rank : {10u, 20u, 21u}) play.record_heard(rank);
    wait(10, "to alice", "c", 3, 1);
    wait(20, "from alice", "ocean", 1, 2);
    wait(21, "of bob alone", "b", 2, 3);
    for (const Outgoing& out : play.check_silence().messages)
      texts[out.to] = out.message.deadlock().text();
  }
  ASSERT_EQ(texts.size(), 3u);
  EXPECT_NE(texts[10].find("rank 0 of group 'ocean' waits in begin_step of stream 'to alice', step "
                           "0, for rank 0 of group 'c' to send the next step"),
            std::string::npos)
      << texts[10];
  EXPECT_NE(texts[10].find("2 waits of groups with other keys"), std::string::npos) << texts[10];
  EXPECT_EQ(texts[10].find("of bob alone"), std::string::npos) << texts[10];
  EXPECT_NE(texts[20].find("of bob alone"), std::string::npos) << texts[20];
  EXPECT_NE(texts[20].find("1 wait of groups with other keys"), std::string::npos) << texts[20];
}

// Link numbers that this server has yet to assign belong to no group.
TEST(OwnersAfterARestart, LinkOfTheFutureIsRefused) {
  Play play(5);
  play.receive(10,
               "request: 1 hello { protocol: 2 rank: 0 size: 1 job: 'j' host: 'node' pid: 1 "
               "version: '0.1' group: 'ocean' left_server: 4 }");
  const std::uint64_t link = std::uint64_t{5} << 32 | 1;
  play.send(
      10,
      "request: 2 resume { streams { stream: 'sst' queue_depth: 1 incarnation: 7 " +
          Play::field("u", 10, "shape=8 grid=1") + Play::offers({"local"}) +
          "} links { link: " + std::to_string(link) +
          " stream: 'sst' peer_group: 'viewer' peer_size: 1 offer: 'local' incarnation: 7 } }",
      {Play::refused(10, -7,
                     fmt::format("Resume: expected links numbered by an earlier server, found link "
                                 "{}, numbered by this one",
                                 link),
                     2)});
}

/// A producer and a consumer with different keys, linked by server 4, which server 5 replaces. The
/// group 'squatter' has a third key and reaches server 5 first.
class SealedLinks : public testing::Test {
protected:
  static constexpr ConnectionId ocean = 10, viewer = 20, squatter = 30;
  const std::vector<std::string> keys{
      "operator: the key that belongs to operator", "alice: the key that belongs to alice",
      "bob: the key that belongs to bob", "mallory: the key that belongs to mallory"};
  const std::string field = Play::field("u", 10, "shape=8 grid=1") + Play::offers({"t"});
  const std::string announced =
      "stream: 'sst' queue_depth: 1 incarnation: 7 readable_by_all: true " + field;

  SealedLinks() : before(4, {}, keys), after(5, {}, keys) {
    start(before, {1, 2, 3});
    say_hello(before, ocean, "ocean", 0), say_hello(before, viewer, "viewer", 0);
    sst = announce(before, ocean, announced);
    take(before, viewer, "request: 2 subscribe { stream: 'sst' incarnation: 9 " + field + "}");
    take(before, ocean, "request: 3 presence { is_present: true incarnation: 7 }");
    take(before, viewer, "request: 3 presence { is_present: true }");
    start(after, {1, 2, 3});
  }
  static void start(Play& play, std::array<Owner, 3> owners) {
    play.own(ocean, owners[0]), play.own(viewer, owners[1]), play.own(squatter, owners[2]);
  }
  /// Returns a Hello with the seal that the connection got from the earlier server, if it was
  /// connected there.
  wire::ToServer hello(ConnectionId from, const std::string& group, int left_server) {
    wire::ToServer message = Play::parsed(
        fmt::format("request: 1 hello {{ protocol: 2 rank: 0 size: 1 job: 'j' host: 'node' pid: 1 "
                    "version: '0.1' group: '{}' left_server: {} }}",
                    group, left_server));
    if (left_server == 0) return message;
    message.mutable_hello()->set_seal(welcomed[from].seal());
    message.mutable_hello()->set_sealed_at(welcomed[from].sealed_at());
    return message;
  }
  void say_hello(Play& play, ConnectionId from, const std::string& group, int left_server) {
    welcome.reset();
    take(play, from, hello(from, group, left_server));
    ASSERT_TRUE(welcome) << group;
    if (left_server == 0 && &play == &before) welcomed[from] = *welcome;
  }
  void expect_refusal(ConnectionId from, const wire::ToServer& hello) {
    const Output answer = after.receive(from, hello);
    ASSERT_EQ(answer.messages.size(), 1u);
    EXPECT_NE(answer.messages.at(0).message.refused().text().find("a job with a different key"),
              std::string::npos)
        << answer.messages.at(0).message.ShortDebugString();
  }
  /// Announces a stream. Returns the announcement with its seal, which the group sends again when it
  /// resumes at the next server.
  wire::Announce announce(Play& play, ConnectionId from, const std::string& stream) {
    const wire::ToServer message = Play::parsed("request: 2 announce { " + stream + "}");
    take(play, from, message);
    wire::Announce sealed = message.announce();
    if (done.seals_size() > 0) sealed.set_seal(done.seals(0));
    sealed.set_sealed_at(done.sealed_at());
    return sealed;
  }
  /// Makes the group resume with only these streams.
  void resume(ConnectionId from, const std::vector<wire::Announce>& streams) {
    wire::ToServer message = Play::parsed("request: 2 resume { presence {} }");
    message.mutable_resume()->mutable_streams()->Assign(streams.begin(), streams.end());
    take(after, from, message);
  }
  /// Returns the names of the groups that have a stream of that name, each followed by a space.
  std::string producers(const std::string& name) const {
    std::string shown;
    const wire::Status status = after.status();
    for (const auto& stream : status.streams())
      if (stream.name() == name) shown += stream.producer() + " ";
    return shown;
  }
  void take(Play& play, ConnectionId from, const std::string& message) {
    take(play, from, Play::parsed(message));
  }
  void take(Play& play, ConnectionId from, const wire::ToServer& message) {
    for (const Outgoing& out : play.receive(from, message).messages) {
      note(out);
      EXPECT_FALSE(out.message.has_refused()) << out.message.ShortDebugString();
    }
  }
  void note(const Outgoing& out) {
    const wire::ToClient& message = out.common ? *out.common : out.message;
    if (message.has_welcome()) welcome = message.welcome();
    if (message.has_done()) done = message.done();
    if (message.has_group_lost()) lost[out.to] = message.group_lost().why();
    if (message.has_matched()) matched[out.to] = message.matched();
    if (message.has_link_closed()) closed[out.to].insert(message.link_closed().link());
    if (message.has_stream_given_up()) given_up[out.to] = message.stream_given_up().why();
  }
  void ocean_comes_back() {
    say_hello(after, ocean, "ocean", 4);
    wire::ToServer resume = Play::parsed("request: 2 resume { presence {} }");
    *resume.mutable_resume()->add_streams() = sst;
    *resume.mutable_resume()->add_links() = matched.at(ocean);
    take(after, ocean, resume);
  }
  void viewer_comes_back() {
    say_hello(after, viewer, "viewer", 4);
    wire::ToServer resume = Play::parsed("request: 2 resume { presence {} }");
    *resume.mutable_resume()->add_links() = matched.at(viewer);
    take(after, viewer, resume);
  }
  void both_come_back(bool is_ocean_first) {
    if (is_ocean_first) ocean_comes_back();
    viewer_comes_back();
    if (!is_ocean_first) ocean_comes_back();
  }
  /// Claims the link under the name of one of its groups, with everything that this group would send
  /// except its seals.
  void claim_as(const std::string& name) {
    const bool is_producer = name == "ocean";
    say_hello(after, squatter, name, 0);
    wire::ToServer claim = Play::parsed("request: 2 resume { presence {} }");
    if (is_producer) *claim.mutable_resume()->add_streams() = sst;
    *claim.mutable_resume()->add_links() = matched.at(is_producer ? ocean : viewer);
    for (auto& stream : *claim.mutable_resume()->mutable_streams()) stream.clear_seal();
    for (auto& link : *claim.mutable_resume()->mutable_links())
      link.clear_seal(), link.clear_peer_mark();
    take(after, squatter, claim);
  }
  /// Gives up the link; the server may refuse this if the link does not belong to the group.
  void give_up(ConnectionId from) {
    const std::string message = fmt::format(
        "request: 5 close_link {{ link: {} gave_up: true why: 'w' }}", matched.at(ocean).link());
    for (const Outgoing& out : after.receive(from, message).messages) note(out);
  }
  /// Checks that 'sst' and its link continue as if no other group had claimed them.
  void expect_link(const std::string& what) {
    EXPECT_FALSE(closed.contains(ocean)) << what;
    EXPECT_FALSE(closed.contains(viewer)) << what;
    std::string shown;
    const wire::Status status = after.status();
    for (const auto& stream : status.streams()) {
      if (stream.name() != "sst") continue;
      shown += fmt::format("{}:", stream.producer());
      for (const auto& link : stream.consumers())
        shown += fmt::format(" {} by {}", link.consumer(), link.link());
    }
    EXPECT_EQ(shown, fmt::format("ocean: viewer by {}", matched.at(ocean).link())) << what;
  }
  std::optional<wire::Welcome> welcome;
  wire::Done done;
  wire::Announce sst;
  std::map<ConnectionId, wire::Welcome> welcomed;
  std::map<ConnectionId, std::string> lost;
  std::map<ConnectionId, wire::Matched> matched;
  std::map<ConnectionId, std::set<std::uint64_t>> closed;
  std::map<ConnectionId, std::string> given_up;
  Play before, after;
};

TEST_F(SealedLinks, ReturnToTheirGroupsDespiteEarlierClaims) {
  ASSERT_EQ(matched.at(ocean).seal().size(), 48u);
  ASSERT_NE(matched.at(ocean).seal(), matched.at(viewer).seal());
  const auto link = matched.at(ocean).link();
  for (const bool is_producer : {false, true})
    for (const bool is_ocean_first : {false, true})
      for (const std::string& seal :
           {std::string(), std::string(48, 'x'), matched.at(ocean).seal(),
            matched.at(ocean).seal().substr(0, 16) + std::string(32, 'x')}) {
        after = Play(5, {}, keys);
        start(after, {1, 2, 3});
        closed.clear();
        say_hello(after, squatter, "squatter", is_ocean_first ? 0 : 4);
        wire::ToServer claim = Play::parsed(
            fmt::format("request: 2 resume {{ {} presence {{}} }}",
                        is_producer ? "streams { stream: 'bait' queue_depth: 1 incarnation: 7 "
                                      "readable_by_all: true " +
                                          field + "}"
                                    : ""));
        wire::Matched& claimed = *claim.mutable_resume()->add_links();
        claimed = matched.at(ocean);
        claimed.set_stream(is_producer ? "bait" : "sst");
        claimed.set_peer_group(is_producer ? "viewer" : "none");
        claimed.set_seal(seal);
        take(after, squatter, claim);
        both_come_back(is_ocean_first);
        const std::string what = fmt::format("claimed by a producer: {}, ocean first: {}, seal: {}",
                                             is_producer, is_ocean_first, seal.size());
        expect_link(what);
        EXPECT_TRUE(closed[squatter].contains(link)) << what;
      }
}

TEST_F(SealedLinks, ContinueThoughAGroupNameWasTaken) {
  ASSERT_EQ(welcomed[ocean].seal().size(), 52u);
  for (const std::string name : {"ocean", "viewer"})
    for (const bool is_ocean_first : {false, true}) {
      after = Play(5, {}, keys);
      start(after, {1, 2, 3});
      closed.clear(), lost.clear();
      say_hello(after, squatter, name, 0);
      take(after, squatter,
           "request: 2 announce { stream: 'other' queue_depth: 1 incarnation: 7 " + field + "}");
      both_come_back(is_ocean_first);
      expect_link(name);
      EXPECT_EQ(lost.size(), 1u);
      EXPECT_NE(lost[squatter].find("has lost the name of its group to a job with a different key"),
                std::string::npos)
          << lost[squatter];
      EXPECT_EQ(after.status().groups_size(), 2);
      EXPECT_EQ(after.status().streams_size(), 1);
      expect_refusal(32, hello(32, name, 0));
    }
}

TEST_F(SealedLinks, LeaveAGroupNameToALongTimeHolder) {
  say_hello(after, squatter, "ocean", 0);
  after.at(31);
  after.record_heard(squatter);
  expect_refusal(ocean, hello(ocean, "ocean", 4));
}

// A seal is valid for only one name and one time, and a job cannot make one, even if it has one of the
// keys.
TEST_F(SealedLinks, GiveNoGroupNameToAWrongSeal) {
  say_hello(after, squatter, "ocean", 0);
  wire::ToServer claim = hello(viewer, "ocean", 4);
  expect_refusal(viewer, claim);
  const std::string right = claim.hello().seal();
  const std::string named = right.substr(0, 20) + std::string(32, 'x');  // names the right key
  for (const std::string& seal : {std::string(), right.substr(0, 19), right.substr(0, 20), named,
                                  std::string(52, 'x'), std::string(64, 'x')}) {
    claim.mutable_hello()->set_seal(seal);
    expect_refusal(viewer, claim);
  }
  claim = hello(ocean, "ocean", 4);
  claim.mutable_hello()->set_sealed_at(claim.hello().sealed_at() + 1);
  expect_refusal(ocean, claim);
  say_hello(after, ocean, "ocean", 4);
}

// A seal is useless to a job with a different key, even if that job has seen it.
TEST_F(SealedLinks, HelpOnlyTheKeyThatTheyWereMadeFor) {
  welcomed[squatter] = welcomed[ocean];
  say_hello(after, squatter, "ocean", 4);
  both_come_back(true);
  expect_link("the seal of a group");
  EXPECT_TRUE(lost.contains(squatter));

  after = Play(5, {}, keys);
  start(after, {1, 2, 3});
  say_hello(after, viewer, "viewer", 4), say_hello(after, squatter, "ocean", 0);
  announce(after, viewer, announced);
  resume(squatter, {sst});
  EXPECT_EQ(producers("sst"), "viewer ");

  after = Play(5, {}, keys);
  start(after, {1, 2, 3});
  say_hello(after, squatter, "viewer", 0);
  wire::ToServer claim = Play::parsed("request: 2 resume { presence {} }");
  *claim.mutable_resume()->add_links() = matched.at(viewer);
  take(after, squatter, claim);
  give_up(squatter);
  closed.clear();
  both_come_back(true);
  expect_link("the seal of a link");
}

// A job that takes a name also gets a seal for it, but that seal is not valid at the server that
// made it.
TEST_F(SealedLinks, MustHaveSealsOfTheServerBefore) {
  for (const bool is_by_second_rank : {true, false}) {
    after = Play(5, {}, keys);
    start(after, {1, 2, 3}), after.own(31, 3);
    lost.clear();
    wire::ToServer claim = hello(squatter, "ocean", 0);
    if (is_by_second_rank) claim.mutable_hello()->set_size(2);
    take(after, squatter, claim);
    if (is_by_second_rank)
      claim.mutable_hello()->set_rank(1), claim.mutable_hello()->set_left_server(4);
    else
      take(after, squatter, "request: 2 goodbye {}");
    claim.mutable_hello()->set_seal(welcome->seal());
    claim.mutable_hello()->set_sealed_at(welcome->sealed_at());
    ASSERT_EQ(welcome->seal().size(), 52u);
    take(after, 31, claim);
    ocean_comes_back();
    EXPECT_TRUE(lost.contains(31));
    EXPECT_EQ(producers("sst"), "ocean ");
  }
  after = Play(5, {}, keys);
  start(after, {1, 2, 3});
  say_hello(after, squatter, "squatter", 0);
  const wire::Announce taken = announce(after, squatter, announced);
  ASSERT_EQ(taken.seal().size(), 52u);
  take(after, squatter, "request: 3 close_stream { stream: 'sst' }");
  resume(squatter, {taken});
  ocean_comes_back();
  EXPECT_EQ(producers("sst"), "ocean ");
  // Nor does such a seal return the name to a group that has closed the stream.
  after = Play(5, {}, keys);
  start(after, {1, 2, 3});
  say_hello(after, squatter, "squatter", 0);
  const wire::Announce closed_again = announce(after, squatter, announced);
  take(after, squatter, "request: 3 close_stream { stream: 'sst' }");
  ocean_comes_back();
  resume(squatter, {closed_again});
  EXPECT_EQ(producers("sst"), "ocean ");
}

// The Resume that contains the group's presence is the last one of the group.
TEST_F(SealedLinks, AreRefusedAfterTheLastResume) {
  ocean_comes_back();
  const Output answer = after.receive(ocean, "request: 3 resume { presence {} }");
  ASSERT_EQ(answer.messages.size(), 1u);
  EXPECT_TRUE(answer.messages.at(0).message.has_refused());
}

// A name may pass from group to group: it belongs to the group that had it last.
TEST_F(SealedLinks, FollowTheNewestSealOfAGroupName) {
  take(before, viewer, "request: 8 goodbye {}");
  before.at(100);
  say_hello(before, squatter, "viewer", 0);
  for (const bool is_newer_first : {false, true}) {
    after = Play(5, {}, keys);
    start(after, {1, 2, 3});
    lost.clear();
    if (!is_newer_first) say_hello(after, viewer, "viewer", 4);
    say_hello(after, squatter, "viewer", 4);
    if (is_newer_first) expect_refusal(viewer, hello(viewer, "viewer", 4));
    EXPECT_FALSE(lost.contains(squatter));
    EXPECT_EQ(lost.contains(viewer), !is_newer_first);
  }
}

// The server after the next one also knows which group has regained a group name.
TEST_F(SealedLinks, FollowARegainedNameToTheNextServer) {
  say_hello(after, squatter, "viewer", 0);
  const wire::Welcome of_squatter = *welcome;
  after.at(10);
  viewer_comes_back();
  welcomed[viewer] = *welcome, welcomed[squatter] = of_squatter;
  after = Play(6, {}, keys);
  start(after, {1, 2, 3});
  say_hello(after, squatter, "viewer", 5);
  say_hello(after, viewer, "viewer", 5);
  EXPECT_TRUE(lost.contains(squatter));
}

// The clock of a server may be set back.
TEST_F(SealedLinks, GetSealsThatAreNewerThanShownOnes) {
  after = Play(1, {}, keys);  // its clock is behind that of the earlier server
  start(after, {1, 2, 3});
  ocean_comes_back();
  EXPECT_EQ(welcome->sealed_at(), welcomed[ocean].sealed_at() + 1);
  EXPECT_EQ(done.sealed_at(), sst.sealed_at() + 1);
  const std::uint64_t latest = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(newer_than(latest, 5), latest);
}

// A job that waits for the name of a group with its own key does not get the name when that group
// loses it.
TEST_F(SealedLinks, GiveAGroupNameToNoWaitingJob) {
  say_hello(after, squatter, "viewer", 0);
  after.own(31, 3);
  after.at(5);  // the squatter has been silent, so it may be lost
  wire::ToServer other = hello(31, "viewer", 0);
  other.mutable_hello()->set_job("k");
  ASSERT_TRUE(after.receive(31, other).messages.empty());
  viewer_comes_back();
  const Output answer = after.check_silence();
  ASSERT_EQ(answer.messages.size(), 1u);
  EXPECT_EQ(answer.messages.at(0).to, 31u);
  EXPECT_TRUE(answer.messages.at(0).message.has_refused());
  EXPECT_TRUE(after.is_member(viewer));
}

TEST_F(SealedLinks, ReturnAStreamNameToItsProducer) {
  for (const bool is_ocean_first : {false, true}) {
    after = Play(5, {}, keys);
    start(after, {1, 2, 3});
    closed.clear(), given_up.clear();
    say_hello(after, squatter, "squatter", 0);
    take(after, squatter, "request: 2 announce { " + announced + "}");
    both_come_back(is_ocean_first);
    expect_link(is_ocean_first ? "ocean first" : "viewer first");
    EXPECT_NE(given_up[squatter].find("a group that has a different key and has returned"),
              std::string::npos)
        << given_up[squatter];
  }
}

// A name stays with a group that has had it for longer than a group may take to return.
TEST_F(SealedLinks, LeaveAStreamNameToALongTimeHolder) {
  say_hello(after, squatter, "squatter", 0);
  take(after, squatter, "request: 2 announce { " + announced + "}");
  after.at(31);
  after.record_heard(squatter);
  ocean_comes_back();
  EXPECT_FALSE(given_up.contains(squatter));
  EXPECT_NE(given_up[ocean].find("already announced by group 'squatter'"), std::string::npos)
      << given_up[ocean];
  EXPECT_TRUE(closed[ocean].contains(matched.at(ocean).link()));
}

// A stream gets its name back even if it has no links and is in a later part of a Resume.
TEST_F(SealedLinks, ReturnAStreamNameEvenWithoutLinks) {
  const wire::Announce other =
      announce(before, ocean,
               "stream: 'other' queue_depth: 1 incarnation: 8 readable_by_all: true " + field);
  EXPECT_EQ(other.seal().size(), 52u);
  say_hello(after, squatter, "squatter", 0);
  announce(after, squatter, "stream: 'other' queue_depth: 1 incarnation: 7 " + field);
  say_hello(after, ocean, "ocean", 4);
  wire::ToServer first = Play::parsed("request: 2 resume {}");
  *first.mutable_resume()->add_streams() = sst;
  take(after, ocean, first);
  EXPECT_FALSE(given_up.contains(squatter));
  resume(ocean, {other});
  EXPECT_EQ(producers("other"), "ocean ");
  EXPECT_FALSE(given_up.contains(ocean));
  EXPECT_NE(given_up[squatter].find("a group that has a different key and has returned"),
            std::string::npos)
      << given_up[squatter];
}

// Bob's group once had the name; a seal for another name or time does not count.
TEST_F(SealedLinks, GiveAStreamNameOnlyToItsNewestSeal) {
  const auto stream = [&](const std::string& name) {
    return "stream: '" + name + "' queue_depth: 1 incarnation: 8 " + field;
  };
  const wire::Announce old = announce(before, viewer, stream("other"));
  const wire::Announce mine = announce(before, viewer, stream("mine"));
  take(before, viewer, "request: 4 close_stream { stream: 'other' }");
  before.at(50);
  const wire::Announce other = announce(before, ocean, stream("other"));
  ASSERT_GT(other.sealed_at(), old.sealed_at());
  wire::Announce of_mine = old, of_time = old;
  of_mine.set_seal(mine.seal());
  of_time.set_sealed_at(other.sealed_at() + 1);
  for (const wire::Announce& claim : {old, of_mine, of_time})
    for (const bool is_ocean_first : {false, true}) {
      after = Play(5, {}, keys);
      start(after, {1, 2, 3});
      say_hello(after, viewer, "viewer", 4), say_hello(after, ocean, "ocean", 4);
      if (is_ocean_first) resume(ocean, {other});
      resume(viewer, {claim});
      if (!is_ocean_first) resume(ocean, {other});
      EXPECT_EQ(producers("other"), "ocean ") << claim.ShortDebugString();
    }
}

// A group whose stream cannot be announced does not take the name from another group.
TEST_F(SealedLinks, LeaveAStreamNameIfItCannotBeAnnounced) {
  std::array<wire::Announce, 3> wrong{sst, sst, sst};
  wrong[0].mutable_fields(0)->set_layout("nonsense");
  wrong[1].mutable_fields(0)->set_layout("shape=8 grid=4");  // but the group has one rank
  wrong[2].set_attributes(std::string(10'000, 'x'));
  for (const wire::Announce& stream : wrong) {
    Limits limits;
    limits.group_bytes = 10'000;
    after = Play(5, limits, keys);
    start(after, {1, 2, 3});
    given_up.clear();
    say_hello(after, squatter, "squatter", 0);
    announce(after, squatter, announced);
    say_hello(after, ocean, "ocean", 4);
    wire::ToServer resume = Play::parsed("request: 2 resume { presence {} }");
    *resume.mutable_resume()->add_streams() = stream;
    after.receive(ocean, resume);
    EXPECT_EQ(producers("sst"), "squatter ");
    EXPECT_FALSE(given_up.contains(squatter));
  }
}

// Nor does an older seal take a name that is kept for the consumers of a lost stream.
TEST_F(SealedLinks, LeaveALostStreamsNameToItsNewestSeal) {
  take(before, ocean, "request: 8 close_stream { stream: 'sst' }");
  take(before, ocean, "request: 9 goodbye {}");
  take(before, viewer,
       fmt::format("request: 8 close_link {{ link: {} }}", matched.at(viewer).link()));
  before.at(50);
  say_hello(before, squatter, "squatter", 0);
  const std::string other = "stream: 'sst' queue_depth: 1 incarnation: 7 " + field;
  const wire::Announce newer = announce(before, squatter, other);
  before.own(31, 3);
  say_hello(before, 31, "reader", 0);
  take(before, 31,
       "request: 2 subscribe { stream: 'sst' outlives: true incarnation: 9 " + field + "}");
  take(before, squatter, "request: 3 presence { is_present: true incarnation: 7 }");
  take(before, 31, "request: 3 presence { is_present: true }");
  for (const bool is_newer_shown : {true, false}) {
    after = Play(5, {}, keys);
    start(after, {1, 2, 3}), after.own(31, 3);
    for (const ConnectionId from : {squatter, ConnectionId{31}}) {
      say_hello(after, from, from == 31 ? "reader" : "squatter", 4);
      wire::ToServer resume = Play::parsed("request: 2 resume { presence {} }");
      *resume.mutable_resume()->add_links() = matched.at(from);
      if (from == squatter) *resume.mutable_resume()->add_streams() = newer;
      if (!is_newer_shown)
        for (auto& stream : *resume.mutable_resume()->mutable_streams()) stream.clear_seal();
      take(after, from, resume);
    }
    take(after, squatter, "request: 9 goodbye {}");
    say_hello(after, ocean, "ocean", 4);
    resume(ocean, {sst});
    EXPECT_EQ(producers("sst"), is_newer_shown ? "" : "ocean ");
  }
}

// The server after the next one also knows which group has the name of a stream.
TEST_F(SealedLinks, FollowAStreamNameToTheNextServer) {
  say_hello(after, squatter, "squatter", 0);
  const wire::Announce taken = announce(after, squatter, announced);
  after.at(10);
  ocean_comes_back();
  ASSERT_EQ(done.seals_size(), 1);
  sst.set_seal(done.seals(0)), sst.set_sealed_at(done.sealed_at());
  for (const bool is_ocean_first : {false, true}) {
    after = Play(6, {}, keys);
    start(after, {1, 2, 3});
    say_hello(after, squatter, "squatter", 5), say_hello(after, ocean, "ocean", 5);
    if (is_ocean_first) resume(ocean, {sst});
    resume(squatter, {taken});
    if (!is_ocean_first) resume(ocean, {sst});
    EXPECT_EQ(producers("sst"), "ocean ");
  }
}

// A stream that could not be restored gets no seal: its name belongs to another group now.
TEST_F(SealedLinks, GetSealsOnlyForRestoredStreams) {
  say_hello(after, squatter, "squatter", 0);
  announce(after, squatter, "stream: 'other' queue_depth: 1 incarnation: 7 " + field);
  say_hello(after, ocean, "ocean", 4);
  wire::Announce other = sst;
  other.set_stream("other"), other.set_incarnation(8);  // the seal is that of 'sst'
  resume(ocean, {other, sst});
  ASSERT_EQ(done.seals_size(), 2);
  EXPECT_EQ(done.seals(0).size(), 0u);
  EXPECT_EQ(done.seals(1).size(), 52u);
  EXPECT_TRUE(given_up.contains(ocean));
}

// A stream that has no seal and whose name was taken has ended; the other streams of the group
// continue.
TEST_F(SealedLinks, HoldIfAnotherStreamLosesItsName) {
  const std::string other =
      "stream: 'other' queue_depth: 1 incarnation: 8 readable_by_all: true " + field;
  say_hello(after, squatter, "squatter", 0);
  take(after, squatter, "request: 2 announce { " + other + "}");
  viewer_comes_back();
  say_hello(after, ocean, "ocean", 4);
  wire::ToServer resume = Play::parsed("request: 2 resume { streams { " + other + "} streams { " +
                                       announced + "} presence {} }");
  *resume.mutable_resume()->add_links() = matched.at(ocean);
  take(after, ocean, resume);
  expect_link("another stream");
  EXPECT_FALSE(given_up.contains(squatter));
  EXPECT_NE(given_up[ocean].find("stream 'other' is already announced by group 'squatter'"),
            std::string::npos)
      << given_up[ocean];
}

// Links hold even if a group that claimed one has closed its stream and left, and so no longer
// exists.
TEST_F(SealedLinks, HoldAfterAClaimantHasLeft) {
  for (const std::string claimer : {"squatter", "ocean"}) {
    after = Play(5, {}, keys);
    start(after, {1, 2, 3});
    closed.clear();
    say_hello(after, squatter, claimer, 4);
    wire::ToServer claim = Play::parsed(
        fmt::format("request: 2 resume {{ streams {{ {} }} presence {{}} }}", announced));
    *claim.mutable_resume()->add_links() = matched.at(ocean);
    claim.mutable_resume()->mutable_links(0)->clear_seal();
    take(after, squatter, claim);
    take(after, squatter, "request: 3 close_stream { stream: 'sst' }");
    take(after, squatter, "request: 4 goodbye {}");
    both_come_back(true);
    expect_link(claimer);
  }
}

// Nor can a group with a different key end links by taking the name of the other side.
TEST_F(SealedLinks, HoldIfAnotherKeyGivesThemUp) {
  say_hello(after, squatter, "viewer", 4);
  take(after, squatter,
       fmt::format("request: 5 close_link {{ link: {} gave_up: true why: 'w' }}",
                   matched.at(ocean).link()));
  take(after, squatter, "request: 6 goodbye {}");
  both_come_back(true);
  expect_link("given up by a group with a different key");
}

// The consumer of a link is the group that returns with it, not a group that has taken the
// consumer's name in the meantime.
TEST_F(SealedLinks, DoNotBelongToAGroupOfTheSameName) {
  const std::uint64_t link = matched.at(ocean).link();
  const auto is_refused_or_for_itself = [&](const std::string& message) {
    for (const Outgoing& out : after.receive(squatter, message).messages)
      EXPECT_EQ(out.to, squatter) << message;
  };
  for (const std::string& mark : {matched.at(ocean).peer_mark(), std::string()}) {
    after = Play(5, {}, keys);
    start(after, {1, 2, 3});
    closed.clear();
    matched.at(ocean).set_peer_mark(mark);
    ocean_comes_back();
    say_hello(after, squatter, "viewer", 0);
    take(after, squatter,
         fmt::format("heartbeat {{ counters {{ stream: 'sst' link: {} steps: 9 }} }}", link));
    is_refused_or_for_itself(
        fmt::format("request: 5 link_addresses {{ link: {} addresses: 'a' }}", link));
    EXPECT_EQ(after.status_for(3).streams(0).consumers_size(), 0);
    for (const std::string how : {"", "of_rank: true", "gave_up: true why: 'w'"})
      is_refused_or_for_itself(fmt::format("request: 6 close_link {{ link: {} {} }}", link, how));
    take(after, squatter, "request: 7 goodbye {}");
    viewer_comes_back();
    expect_link("the name of its consumer was taken");
    EXPECT_EQ(after.status().streams(0).consumers(0).consumed().steps(), 0u);
    EXPECT_EQ(after.status_for(2).streams(0).consumers_size(), 1);
  }
}

// A wait for a group that has merely taken the name of the link's consumer, or of a producer that
// has left, makes no circle.
TEST_F(SealedLinks, MakeNoCircleThroughAGroupOfTheSameName) {
  struct Wait {
    ConnectionId from;
    std::string group;
    std::uint64_t link;
  };
  const auto is_circle = [&](const Wait& one, const Wait& other) {
    bool is_reported = false;
    for (int second = 0; second < 9; ++second) {
      after.at(second);
      for (const Wait& wait : {one, other})
        take(after, wait.from,
             fmt::format("heartbeat {{ wait {{ number: 1 seconds: 5 call: 'x' stream: 'sst' group: "
                         "'{}' ranks: 0 link: {} turns {{ link: {} }} turns {{ link: {} }} }} }}",
                         wait.group, wait.link, one.link, other.link));
      for (const Outgoing& out : after.check_silence().messages)
        is_reported = is_reported || out.message.has_deadlock();
    }
    return is_reported;
  };
  const wire::Matched of_ocean = matched.at(ocean);
  const std::uint64_t link = of_ocean.link();
  both_come_back(true);
  EXPECT_TRUE(is_circle({ocean, "viewer", link}, {viewer, "ocean", link}));
  for (const std::string& mark : {of_ocean.peer_mark(), std::string()})
    for (const Owner owner : {1u, 3u}) {
      after = Play(5, {}, keys);
      start(after, {1, 2, owner});
      matched.at(ocean) = of_ocean, matched.at(ocean).set_peer_mark(mark);
      ocean_comes_back();
      say_hello(after, squatter, "viewer", 0);
      EXPECT_FALSE(is_circle({ocean, "viewer", link}, {squatter, "ocean", link})) << owner;
      // The squatter may even have its own link to the same group.
      announce(after, ocean,
               "stream: 'more' queue_depth: 1 incarnation: 8 readable_by_all: true " + field);
      take(after, squatter, "request: 3 subscribe { stream: 'more' incarnation: 9 " + field + "}");
      take(after, ocean, "request: 4 presence { is_present: true incarnation: 8 }");
      take(after, squatter, "request: 4 presence { is_present: true }");
      const std::uint64_t more = matched.at(squatter).link();
      EXPECT_FALSE(is_circle({ocean, "viewer", link}, {squatter, "ocean", more})) << owner;
      EXPECT_TRUE(is_circle({ocean, "viewer", more}, {squatter, "ocean", more})) << owner;
    }
  matched.at(ocean) = of_ocean;
  after = Play(5, {}, keys);
  start(after, {1, 2, 3});
  both_come_back(true);
  take(after, ocean, "request: 8 close_stream { stream: 'sst' }");
  take(after, ocean, "request: 9 goodbye {}");
  say_hello(after, squatter, "ocean", 0);
  EXPECT_FALSE(is_circle({viewer, "ocean", link}, {squatter, "viewer", link}));
}

// If a rank of the consumer gives up a link before rank 0 is back, this takes effect as soon as
// rank 0 is back.
TEST_F(SealedLinks, EndForBothSidesIfTheConsumerGaveThemUp) {
  const std::uint64_t link = matched.at(ocean).link();
  matched.at(ocean).clear_peer_mark();
  ocean_comes_back();
  say_hello(after, viewer, "viewer", 4);
  take(after, viewer,
       fmt::format("request: 5 close_link {{ link: {} gave_up: true why: 'w' }}", link));
  EXPECT_TRUE(closed[viewer].contains(link));
  wire::ToServer resume = Play::parsed("request: 6 resume { presence {} }");
  *resume.mutable_resume()->add_links() = matched.at(viewer);
  take(after, viewer, resume);
  EXPECT_TRUE(closed[ocean].contains(link));
}

// A rank of the consumer that finishes a link before rank 0 is back counts as finished, unless its group was lost.
TEST_F(SealedLinks, EndWhenAllConsumerRanksHaveFinished) {
  const std::uint64_t link = matched.at(ocean).link();
  matched.at(ocean).clear_peer_mark();
  const auto finish = [&](ConnectionId from) {
    take(after, from, fmt::format("request: 5 close_link {{ link: {} of_rank: true }}", link));
  };
  for (const bool is_lost : {false, true}) {
    after = Play(5, {}, keys);
    start(after, {1, 2, 2});
    closed.clear();
    ocean_comes_back();
    wire::ToServer rank = hello(viewer, "viewer", 4);
    rank.mutable_hello()->set_size(2), rank.mutable_hello()->set_rank(1);
    take(after, squatter, rank);
    finish(squatter);
    if (is_lost) {
      for (const Outgoing& out : after.closed(squatter).messages) note(out);
      after.own(31, 2);
      take(after, 31, rank);
    }
    rank.mutable_hello()->set_rank(0);
    take(after, viewer, rank);
    wire::ToServer resume = Play::parsed("request: 2 resume { presence {} }");
    *resume.mutable_resume()->add_links() = matched.at(viewer);
    take(after, viewer, resume);
    EXPECT_FALSE(closed[ocean].contains(link));
    finish(viewer);
    EXPECT_EQ(closed[ocean].contains(link), !is_lost);
  }
}

// A group that takes the name of a producer that has closed its stream and left cannot give up that
// producer's links.
TEST_F(SealedLinks, HoldAfterTheirProducerHasLeftInOrder) {
  ocean_comes_back();
  take(after, ocean, "request: 8 close_stream { stream: 'sst' }");
  take(after, ocean, "request: 9 goodbye {}");
  say_hello(after, squatter, "ocean", 4);
  take(after, squatter, "request: 2 close_stream { stream: 'sst' gave_up: true incarnation: 7 }");
  wire::ToServer claim = Play::parsed("request: 3 resume { presence {} }");
  *claim.mutable_resume()->add_links() = matched.at(ocean);
  take(after, squatter, claim);
  closed.clear();
  viewer_comes_back();
  EXPECT_FALSE(closed.contains(viewer));
}

// A server with one key makes no seals, but may have several keys after a restart.
TEST_F(SealedLinks, StayPrivateEvenWithoutSeals) {
  matched.at(ocean).clear_peer_mark(), matched.at(ocean).clear_seal();
  matched.at(viewer).clear_peer_mark(), matched.at(viewer).clear_seal();
  sst.clear_seal(), sst.clear_sealed_at();
  const std::uint64_t link = matched.at(ocean).link();
  for (const bool is_private : {true, false})
    for (const bool is_ocean_first : {true, false}) {
      after = Play(5, {}, keys);
      start(after, {1, 2, 3});
      closed.clear();
      sst.set_readable_by_all(!is_private);
      for (const ConnectionId each : {ocean, viewer}) welcomed[each].Clear();
      both_come_back(is_ocean_first);
      if (!is_private) expect_link("all may read the stream");
      const bool is_closed = closed[ocean].contains(link) || closed[viewer].contains(link);
      EXPECT_EQ(is_closed, is_private) << is_ocean_first;
    }
}

// Links return whether or not the other side is back, and whichever side comes back first.
TEST_F(SealedLinks, ReturnToTheirGroupsDespiteTakenNames) {
  ASSERT_EQ(matched.at(ocean).peer_mark().size(), 48u);
  ASSERT_NE(matched.at(ocean).peer_mark(), matched.at(viewer).peer_mark());
  for (const std::string name : {"ocean", "viewer"})
    for (const bool is_ocean_first : {false, true})
      for (const bool is_other_back : {false, true}) {
        const bool is_ocean_back = is_other_back && name == "viewer";
        const bool is_viewer_back = is_other_back && name == "ocean";
        after = Play(5, {}, keys);
        start(after, {1, 2, 3});
        closed.clear(), lost.clear();
        if (is_ocean_back) ocean_comes_back();
        if (is_viewer_back) viewer_comes_back();
        claim_as(name);
        if (is_other_back) give_up(squatter);
        if (!is_ocean_back && is_ocean_first) ocean_comes_back();
        if (!is_viewer_back) viewer_comes_back();
        if (!is_ocean_back && !is_ocean_first) ocean_comes_back();
        expect_link(fmt::format("{}, ocean first: {}, other back: {}", name, is_ocean_first,
                                is_other_back));
      }
}

// A rank can give up a link as soon as that rank is back, whether or not rank 0 of its group or the
// other side is back.
TEST_F(SealedLinks, EndWhenEitherSideGivesThemUpBeforeItsResume) {
  const std::uint64_t link = matched.at(ocean).link();
  for (const bool is_by_ocean : {false, true})
    for (const bool is_other_back : {false, true})
      for (const bool is_squatter_first : {false, true}) {
        after = Play(5, {}, keys);
        start(after, {1, 2, 3});
        closed.clear();
        const auto other_comes_back = [&] {
          if (is_by_ocean)
            viewer_comes_back();
          else
            ocean_comes_back();
        };
        const std::string name = is_by_ocean ? "ocean" : "viewer";
        if (is_other_back) other_comes_back();
        if (is_squatter_first) say_hello(after, squatter, name, 4), give_up(squatter);
        EXPECT_FALSE(closed[is_by_ocean ? viewer : ocean].contains(link));
        say_hello(after, is_by_ocean ? ocean : viewer, name, 4);
        give_up(is_by_ocean ? ocean : viewer);
        if (!is_other_back) other_comes_back();
        EXPECT_TRUE(closed[is_by_ocean ? viewer : ocean].contains(link))
            << name << is_other_back << is_squatter_first;
      }
}

// A session of an earlier version sends neither marks nor seals.
TEST_F(SealedLinks, AreRestoredWithoutMarksAndSeals) {
  for (const ConnectionId each : {ocean, viewer}) {
    matched.at(each).clear_peer_mark(), matched.at(each).clear_seal();
    welcomed[each].Clear();
  }
  sst.clear_seal(), sst.clear_sealed_at();
  for (const bool is_ocean_first : {false, true}) {
    after = Play(5, {}, keys);
    start(after, {1, 2, 3});
    both_come_back(is_ocean_first);
    expect_link("without marks");
  }
}

TEST_F(SealedLinks, HoldWhenKeysAreAddedAndReordered) {
  std::vector<std::string> others(keys.rbegin(), keys.rend());
  others.insert(others.begin(), "carol: another key that belongs to carol");
  after = Play(5, {}, others);
  start(after, {3, 2, 1});
  say_hello(after, squatter, "squatter", 4);
  wire::ToServer claim = Play::parsed("request: 2 resume { presence {} }");
  *claim.mutable_resume()->add_links() = matched.at(viewer);
  take(after, squatter, claim);
  both_come_back(true);
  expect_link("keys added");
}

// Link numbers that a group with a different key invents leave room for the links that others give up.
TEST_F(SealedLinks, LeaveRoomForRealLinksThatAreGivenUp) {
  const auto give_up = [&](ConnectionId from, std::uint64_t link) {
    take(after, from,
         fmt::format("request: 5 close_link {{ link: {} gave_up: true why: 'w' }}", link));
  };
  const std::uint64_t link = matched.at(ocean).link();
  say_hello(after, squatter, "squatter", 4);
  give_up(squatter, link);
  for (std::uint64_t more = 1; more <= Rendezvous::most_given_up; ++more)
    give_up(squatter, (std::uint64_t{3} << 32) + more);
  viewer_comes_back();
  closed.clear();
  give_up(viewer, link);
  ocean_comes_back();
  EXPECT_TRUE(closed[ocean].contains(link));
}

// After a restart, names are free: a group that arrives first under the name of a consumer does not
// get the consumer's links.
TEST(OwnersAfterARestart, LinkDoesNotBelongToAnotherKey) {
  Play play(5);
  play.own(10, 1), play.own(20, 2);
  const std::string back =
      "protocol: 2 rank: 0 size: 1 job: 'j' host: 'node' pid: 1 version: '0.1' ";
  play.receive(20, "request: 1 hello { " + back + "group: 'viewer' }");
  play.receive(10, "request: 1 hello { " + back + "group: 'ocean' left_server: 4 }");
  const std::string link = std::to_string(std::uint64_t{4} << 32 | 1);
  play.send(
      10,
      "request: 2 resume { streams { stream: 'sst' queue_depth: 1 incarnation: 7 " +
          Play::field("u", 10, "shape=8 grid=1") + Play::offers({"local"}) +
          "} links { link: " + link +
          " stream: 'sst' peer_group: 'viewer' peer_size: 1 offer: 'local' incarnation: 7 } }",
      {Play::done(10, 2)});
  play.send(
      20, "request: 3 close_link { link: " + link + " gave_up: true }",
      {Play::refused(20, -7, "link " + link + ": expected a link of group \\'viewer\\', found none",
                     3)});
  play.send(10, "request: 4 link_addresses { link: " + link + " addresses: 'mine' }",
            {Play::done(10, 4)});  // no group is notified
  play.close(20, {});
}

}  // namespace
}  // namespace tremula::server
