// SPDX-License-Identifier: Apache-2.0
// Streams that several groups produce together: server/rendezvous/parts.cpp. "west" (connection 1) and "east" (2)
// own parts of u, which is 6 x 8; the consumer "viewer" has connection 11.
#include <gtest/gtest.h>

#include "play.hpp"

namespace tremula::server {
namespace {

std::string part(const std::string& layout, int row, int column, const std::string& whole = "6x8",
                 int type = 10) {
  const auto x = whole.find('x');
  return fmt::format(
      "fields {{ name: 'u' element_type: {} layout: '{}' origin: {} origin: {} whole: {} whole: {} "
      "}} ",
      type, layout, row, column, whole.substr(0, x), whole.substr(x + 1));
}
const std::string west = part("shape=6x4 grid=1x1", 0, 0), east = part("shape=6x4 grid=1x1", 0, 4);
const std::string wanted = Play::field("u", 10, "shape=6x8 grid=1x1");

std::string announce(const std::string& fields, const std::string& more = "") {
  return "request: 2 announce { stream: 's' queue_depth: 3 incarnation: 5 " + more + " " + fields +
         Play::offers({"t"}) + "}";
}
std::string subscribe(const std::string& more = "", int incarnation = 4) {
  return fmt::format("request: 2 subscribe {{ stream: 's' incarnation: {} {} {} {} }}", incarnation,
                     more, wanted, Play::offers({"t"}));
}
const std::string close = "request: 6 close_stream { stream: 's' }";
/// Returns the Matched messages that the two sides of a link receive.
Answers matched(int link, const std::string& group, ConnectionId producer,
                const std::string& fields, int missing, std::uint64_t base = 0,
                int incarnation = 5) {
  const auto to = [&](ConnectionId rank_0, const std::string& peer, const std::string& theirs,
                      int mine) {
    return fmt::format(
        "{}: matched {{ link: {} stream: 's' peer_group: '{}' peer_size: 1 {} offer: 't' why: "
        "\"the producer's first of t that the consumer also has (it has t)\" queue_depth: 3 "
        "incarnation: {} missing: {} }}",
        rank_0, base + static_cast<std::uint64_t>(link), peer, theirs, mine, missing);
  };
  return {to(11, group, fields, 4), to(producer, "viewer", wanted, incarnation)};
}
Answers operator+(Answers all, const Answers& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

class Parts : public testing::Test {
protected:
  Parts() {
    play.join("west", 1, 1);
    play.join("east", 1, 2);
    play.join("viewer", 1, 11);
  }
  void all_are_present() {
    for (const ConnectionId rank_0 : {1u, 2u, 11u}) play.be_present(rank_0);
  }
  /// Links the viewer to both parts.
  void link() {
    all_are_present();
    play.send(1, announce(west), {Play::done(1, 2)});
    play.send(11, subscribe(), {Play::done(11, 2)});
    play.send(2, announce(east),
              Answers{Play::done(2, 2)} + matched(1, "west", 1, west, 1) +
                  matched(2, "east", 2, east, 0));
  }
  void expect_mismatch(const std::string& announced, const std::string& text,
                       int code = static_cast<int>(core::Errc::mismatch),
                       Play::Where where = Play::Where::current()) {
    play.send(2, announced, {Play::refused(2, code, text, 2)}, where);
  }
  Play play;
};

TEST_F(Parts, AreLinkedToAConsumerOnceTheyCoverTheArray) { link(); }

TEST_F(Parts, AreLinkedAsTheirGroupsArePresent) {
  play.send(1, announce(west), {Play::done(1, 2)});
  play.send(2, announce(east), {Play::done(2, 2)});
  play.send(11, subscribe(), {Play::done(11, 2)});
  play.be_present(11, 0, {"2: awaited {}", "1: awaited {}"});
  play.be_present(2, 0, matched(1, "east", 2, east, 1) + Answers{"1: awaited {}"});
  play.be_absent(2);
  const std::string explain = "request: 3 explain { incarnation: 4 }";
  const auto explained = [](const std::string& more) {
    return Answers{
        "11: request: 3 explained { text: \"group 'west' offers it, but is not in a call "
        "that opens links\" has_come: true " +
        more + "}"};
  };
  play.send(11, explain, explained(""));
  // West has made steps without this consumer, so the consumer need not wait for the first step.
  play.send(1, "heartbeat { counters { stream: 's' steps: 1 } }", {});
  play.send(11, explain, explained("has_begun: true"));
  play.be_present(1, 0, matched(2, "west", 1, west, 0));
}

TEST_F(Parts, ExplainNothingAfterTheyHaveEnded) {
  link();
  for (const ConnectionId rank_0 : {1u, 2u})  // an unanswered link would end with its stream
    play.receive(rank_0,
                 fmt::format("request: 3 link_addresses {{ link: {} addresses: 'a' }}", rank_0));
  play.send(2, close, {Play::done(2, 6)});
  play.send(1, close, {Play::done(1, 6)});
  for (const ConnectionId rank_0 : {1u, 2u})
    play.send(rank_0, "request: 3 explain { incarnation: 5 }",
              {fmt::format("{}: request: 3 explained {{}}", rank_0)});
}

TEST_F(Parts, CannotBeRedeclared) {
  play.send(1, announce(west), {Play::done(1, 2)});
  for (const std::string& again :
       {west,
        std::string("fields { name: 'u' element_type: 10 layout: 'shape=6x4 grid=1x1' origin: 0 "
                    "origin: 0 }")})
    play.send(
        1, "request: 3 redeclare { stream: 's' " + again + "}",
        {Play::refused(1, static_cast<int>(core::Errc::refused),
                       "Redeclare of stream 's': expected field 'u' of an array that one group "
                       "produces; found a part of one that several groups produce",
                       3)});
}

// A returning group may claim to have a copy of anything.
TEST_F(Parts, AreNotMixedUpWithCopiesWhenTheyExplain) {
  play.join("odd", 1, 3);
  play.send(1, announce(west), {Play::done(1, 2)});
  play.receive(3,
               "request: 2 resume { streams { stream: 's' queue_depth: 0 incarnation: 9 is_state: "
               "true is_copy: true keep_steps: 1 " +
                   Play::field("v", 10, "shape=8 grid=1") + Play::offers({"t"}) + "} }");
  play.send(1, "request: 3 explain { incarnation: 5 }",
            {"1: request: 3 explained { text: \"field 'u' of 6x8: parts [0, 6) x [0, 4) of group "
             "'west'; missing [0, 6) x [4, 8)\" is_warning: true }"});
}

// 'west' has no room until the consumer takes a step, and the consumer takes one only after 'east'
// has joined.
TEST_F(Parts, MakeNoCircleWhileOneIsMissing) {
  play.send(1, announce(west), {Play::done(1, 2)});
  play.send(2, announce(east), {Play::done(2, 2)});
  play.send(11, subscribe(), {Play::done(11, 2)});
  play.be_present(11, 0, {"2: awaited {}", "1: awaited {}"});
  play.be_present(1, 0, matched(1, "west", 1, west, 1) + Answers{"2: awaited {}"});
  play.be_absent(1);
  for (int second = 0; second < 9; ++second) {
    play.at(second);
    for (const ConnectionId rank : {1u, 2u, 11u}) play.record_heard(rank);
    play.send(1,
              "heartbeat { wait { number: 7 seconds: 5 call: 'begin_step' stream: 's' group: "
              "'viewer' ranks: 0 link: 1 count: 0 turns { link: 1 count: 3 } } }",
              {});
    play.send(11,
              "heartbeat { wait { number: 8 seconds: 5 call: 'begin_step' stream: 's' incarnation: "
              "4 turns { link: 1 count: 0 } } }",
              {});
    EXPECT_TRUE(play.check_silence().messages.empty()) << second;
  }
}

// 'west' waits for another stream, which the consumer produces; the consumer waits for the part that no group has
// announced.
TEST_F(Parts, MakeNoCircleWhileOneIsUnannounced) {
  const std::string of_back = "stream: 'back' incarnation: 9 " + wanted + Play::offers({"t"});
  play.receive(11, "request: 1 announce { queue_depth: 3 " + of_back + " }");
  play.receive(1, "request: 1 subscribe { " + of_back + " }");
  for (const std::string is_present : {"true", "false"})
    for (const ConnectionId rank_0 : {11u, 1u})
      play.receive(rank_0, "request: 1 presence { is_present: " + is_present + " }");
  play.send(1, announce(west), {Play::done(1, 2)});
  play.send(11, subscribe(), {Play::done(11, 2)});
  for (int second = 0; second < 9; ++second) {
    play.at(second);
    for (const ConnectionId rank : {1u, 2u, 11u}) play.record_heard(rank);
    play.send(1,
              "heartbeat { wait { number: 7 seconds: 5 call: 'begin_step' stream: 'back' group: "
              "'viewer' ranks: 0 link: 1 turns { link: 1 } } }",
              {});
    play.send(11,
              "heartbeat { wait { number: 8 seconds: 5 call: 'begin_step' stream: 's' incarnation: "
              "4 turns { link: 1 } } }",
              {});
    EXPECT_TRUE(play.check_silence().messages.empty()) << second;
  }
}

TEST_F(Parts, AreRefusedWithBothBoxesIfTheyOverlap) {
  play.send(1, announce(west), {Play::done(1, 2)});
  expect_mismatch(announce(part("shape=6x5 grid=1x1", 0, 3)),
                  "stream 's', field 'u': expected parts that do not overlap; found [0, 6) x "
                  "[3, 8) of group 'east' and [0, 6) x [0, 4) of group 'west'");
  play.send(2, announce(east), {Play::done(2, 2)});  // east has corrected its part
}

TEST_F(Parts, AreNamedWithTheMissingBoxes) {
  all_are_present();
  play.send(1, announce(west), {Play::done(1, 2)});
  play.send(2, announce(part("shape=2x4 grid=1x1", 0, 4)), {Play::done(2, 2)});
  play.send(11, subscribe(), {Play::done(11, 2)});
  const std::string gap =
      "field 'u' of 6x8: parts [0, 6) x [0, 4) of group 'west', [0, 2) x [4, 8) of group 'east'; "
      "missing [2, 6) x [4, 8)";
  for (const auto& [from, incarnation] : {std::pair{1, 5}, {2, 5}, {11, 4}})
    play.send(
        static_cast<ConnectionId>(from),
        fmt::format("request: 3 explain {{ incarnation: {} }}", incarnation),
        {fmt::format("{}: request: 3 explained {{ text: \"{}\" is_warning: true }}", from, gap)});
  play.send(11, "request: 7 describe { stream: 's' }",
            {"11: request: 7 described { group: 'west' size: 1 connected: 1 " + west +
             "hosts: 'node' host_of_rank: 0 queue_depth: 3 others { group: 'east' size: 1 " +
             part("shape=2x4 grid=1x1", 0, 4) + "} missing: \"" + gap + "\" }"});
}

TEST_F(Parts, MustBeOfOneArray) {
  play.send(1, announce(west), {Play::done(1, 2)});
  expect_mismatch(announce(part("shape=6x4 grid=1x1", 0, 4, "6x9")),
                  "stream 's', field 'u': group 'east' offers a part of 6x9 f64, group 'west' one "
                  "of 6x8 f64; make all groups declare parts of the same array");
  expect_mismatch(announce(part("shape=6x4 grid=1x1", 0, 4, "6x8", 9)),
                  "stream 's', field 'u': group 'east' offers a part of 6x8 f32, group 'west' one "
                  "of 6x8 f64; make all groups declare parts of the same array");
  expect_mismatch(announce(east + Play::field("v", 10, "shape=8 grid=1")),
                  "stream 's': expected parts of all fields or of none; group 'east' offers some "
                  "as parts, others whole",
                  static_cast<int>(core::Errc::invalid_argument));
  expect_mismatch(announce(wanted),
                  "stream 's' is already announced by group 'west', as a part; choose another "
                  "name or announce it when that group has closed it",
                  static_cast<int>(core::Errc::refused));
}

TEST_F(Parts, DropNoSteps) {
  const int unsupported = static_cast<int>(core::Errc::unsupported);
  expect_mismatch(announce(east, "when_full: WHEN_FULL_DROP_NEWEST"),
                  "stream 's': expected when_full block, as group 'east' offers a part of it: "
                  "each group would drop different steps",
                  unsupported);
  expect_mismatch(announce(east, "is_state: true keep_steps: 1"),
                  "stream 's': expected kind steps, as group 'east' offers a part of it: each "
                  "group would have a different newest version",
                  unsupported);
  play.send(2, announce(east), {Play::done(2, 2)});
  const std::string text =
      "stream 's': consumer 'viewer' wants only the latest step, which would differ between the "
      "groups that produce a part of it; take every step";
  play.send(11, subscribe("wants_latest: true"),
            {Play::done(11, 2), Play::stream_refused(11, unsupported, text, 4),
             Play::stream_refused(2, unsupported, text, 5)});
}

TEST_F(Parts, LinkNoConsumerOnceOneHasEnded) {
  link();
  play.send(1, close,
            {Play::done(1, 6),
             "11: link_closed { link: 1 why: \"stream 's' had just ended when group 'viewer' "
             "joined\" }"});
  play.join("late", 1, 21);
  play.be_present(21);
  play.send(21, subscribe(), {Play::done(21, 2)});
  // A new part does not belong to the old stream either.
  play.send(
      1, announce(west),
      {Play::refused(1, static_cast<int>(core::Errc::refused),
                     "stream 's': another of its parts has ended, but the part of group 'east' "
                     "has not; expected all of them to end before group 'west' announces a "
                     "part of the next stream of that name",
                     2)});
  play.send(2, close,
            {Play::done(2, 6),
             "11: link_closed { link: 2 why: \"stream 's' had just ended when group 'viewer' "
             "joined\" }"});
  play.send(1, announce(west), {Play::done(1, 2)});
}

TEST_F(Parts, EndTheWaitForTheOthersIfOneEnds) {
  play.be_present(1);
  play.be_present(11);
  play.send(1, announce(west), {Play::done(1, 2)});
  play.send(2, announce(east), {Play::done(2, 2)});
  play.send(11, subscribe(),
            Answers{Play::done(11, 2)} + matched(1, "west", 1, west, 1) + Answers{"2: awaited {}"});
  const std::string text =
      "stream 's': group 'east' has ended its part of it before group 'viewer' was linked to all "
      "its parts";
  const int lost = static_cast<int>(core::Errc::peer_lost);
  play.send(2, close,
            {Play::done(2, 6), Play::stream_refused(11, lost, text, 4),
             Play::stream_refused(2, lost, text, 5)});
}

TEST_F(Parts, GetTheirMissingLinksAfterARestart) {
  Play again{7};
  const std::uint64_t base = std::uint64_t{7} << 32, before = std::uint64_t{3} << 32;
  const auto hello = [](const std::string& group) {
    return fmt::format(
        "request: 1 hello {{ protocol: 2 group: '{}' rank: 0 size: 1 job: 'j' host: 'node' pid: 1 "
        "version: '0.1' left_server: 3 }}",
        group);
  };
  const auto welcome = [](ConnectionId to) {
    return fmt::format("{}: request: 1 welcome {{ version: '0.1' heartbeat_seconds: 1 server: 7 }}",
                       to);
  };
  const auto streams = [](const std::string& fields) {
    return "streams { stream: 's' queue_depth: 3 incarnation: 5 " + fields + Play::offers({"t"}) +
           "} presence { is_present: true }";
  };
  const auto linked = [&](const std::string& peer, const std::string& theirs, int incarnation) {
    return fmt::format(
        " links {{ link: {} stream: 's' peer_group: '{}' peer_size: 1 {} offer: 't' why: 'because' "
        "queue_depth: 3 incarnation: {} missing: 1 }} ",
        before + 9, peer, theirs, incarnation);
  };
  // The viewer was linked to west only.
  again.send(11, hello("viewer"), {welcome(11)});
  again.send(11,
             "request: 2 resume {" + linked("west", west, 4) +
                 "subscriptions { stream: 's' incarnation: 4 " + wanted + Play::offers({"t"}) +
                 "} presence { is_present: true } }",
             {Play::done(11, 2)});
  again.send(1, hello("west"), {welcome(1)});
  again.send(1, "request: 2 resume {" + streams(west) + linked("viewer", wanted, 5) + "}",
             {Play::done(1, 2)});
  again.send(2, hello("east"), {welcome(2)});
  // A part that had ended before the restart is not mistaken for a new one.
  again.send(
      2, announce(east),
      {Play::refused(2, static_cast<int>(core::Errc::refused),
                     "stream 's': another of its parts has ended, but the part of group 'west' "
                     "has not; expected all of them to end before group 'east' announces a "
                     "part of the next stream of that name",
                     2)});
  again.send(2, "request: 2 resume {" + streams(east) + "}",
             Answers{Play::done(2, 2)} + matched(1, "east", 2, east, 0, base));
}

}  // namespace
}  // namespace tremula::server
