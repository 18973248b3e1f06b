// SPDX-License-Identifier: Apache-2.0
// Answers to Explain, by which a group asks why a stream is not linked. The producer "ocean" has connections 1
// and 2, and the consumer "viewer" has connection 11.
#include <gtest/gtest.h>

#include "play.hpp"

namespace tremula::server {
namespace {

std::string announce(const std::string& stream, int incarnation) {
  return fmt::format("request: 2 announce {{ stream: '{}' queue_depth: 3 incarnation: {} {}{} }}",
                     stream, incarnation, Play::field("u", 10, "shape=8 grid=2"),
                     Play::offers({"t"}));
}
std::string subscribe(const std::string& stream, int incarnation) {
  return fmt::format("request: 2 subscribe {{ stream: '{}' incarnation: {} {}{} }}", stream,
                     incarnation, Play::field("u", 10, "shape=8 grid=1"), Play::offers({"t"}));
}

class Explaining : public testing::Test {
protected:
  Explaining() {
    play.join("ocean", 2, 1);
    play.join("viewer", 1, 11);
  }
  void expect(ConnectionId from, const std::string& explained,
              Play::Where where = Play::Where::current()) {
    play.send(from, "request: 3 explain { incarnation: 4 }",
              {fmt::format("{}: request: 3 explained {{ {} }}", from, explained)}, where);
  }
  Play play;
};

TEST_F(Explaining, SaysNothingAboutAnUnknownStream) { expect(1, ""); }

TEST_F(Explaining, NamesTheStreamsOfOtherNames) {
  play.send(1, announce("s", 4), {Play::done(1, 2)});
  expect(1, "");
  play.send(11, subscribe("z", 4), {Play::done(11, 2)});
  expect(1, "text: \"consumers of other streams only: 'z'\" is_warning: true");
  expect(11, "text: \"only 's'\" is_warning: true");
}

TEST_F(Explaining, NamesRanksThatHaveLeftTheirGroup) {
  play.join("four", 4, 31);
  const auto expect_left = [&](const std::string& text) {
    play.send(31, "request: 3 explain { agreement: 1 }",
              {fmt::format("31: request: 3 explained {{ text: '{}' is_warning: true }}", text)});
  };
  play.send(33, "request: 2 goodbye {}", {Play::done(33, 2)});
  expect_left("that rank 2 has left");
  play.send(34, "request: 2 goodbye {}", {Play::done(34, 2)});
  expect_left("that rank 2 has left, and rank 3 after it");
}

TEST_F(Explaining, NamesTheCauseNotTheRanksThatGaveUp) {
  play.join("four", 4, 31);
  for (const ConnectionId rank : {31u, 32u}) play.send(rank, "heartbeat { agreement: 7 }", {});
  play.send(32, "request: 2 goodbye {}", {Play::done(32, 2)});
  play.send(
      31, "request: 3 explain { agreement: 7 }",
      {"31: request: 3 explained { text: 'rank 2 on host node, pid 102; rank 3 on host node, pid "
       "103' }"});
  play.send(33, "request: 2 goodbye {}", {Play::done(33, 2)});
  play.send(31, "request: 3 explain { agreement: 7 }",
            {"31: request: 3 explained { text: 'that rank 2 has left' is_warning: true }"});
}

TEST_F(Explaining, NamesARankThatLeftAfterAllHadJoined) {
  play.join("two", 2, 31);
  for (const ConnectionId rank : {31u, 32u}) play.send(rank, "heartbeat { agreement: 7 }", {});
  play.send(32, "request: 2 goodbye {}", {Play::done(32, 2)});
  play.send(31, "request: 3 explain { agreement: 7 }",
            {"31: request: 3 explained { text: 'that rank 1 has left' is_warning: true }"});
}

TEST_F(Explaining, SaysThatThereIsNoOtherStream) {
  play.send(11, subscribe("z", 4), {Play::done(11, 2)});
  expect(11, "text: 'no stream of another group'");
}

TEST_F(Explaining, CountsTheRanksOfIncompleteGroups) {
  play.send(11, subscribe("s", 4), {Play::done(11, 2)});
  play.send(21, Play::hello("third", 0, 3), {Play::welcome(21)});
  expect(11,
         "text: \"no stream of another group; 1 of 3 ranks of group 'third' have joined\" "
         "is_warning: true");
  play.send(1, announce("t", 4), {Play::done(1, 2)});
  expect(
      1,
      "text: \"consumers of other streams only: 's'; 1 of 3 ranks of group 'third' have joined\" "
      "is_warning: true");
}

TEST_F(Explaining, NamesGroupsThatWaitForTheirOwnRanks) {
  play.send(11, subscribe("s", 4), {Play::done(11, 2)});
  play.own(31, 1);
  play.join("of another key", 1, 31);
  const auto wait = [](const std::string& group, const std::string& call) {
    return fmt::format(
        "heartbeat {{ wait {{ number: 1 seconds: 2 call: '{}' stream: 's' group: '{}' "
        "is_for_all_ranks: true count: 3 }} }}",
        call, group);
  };
  play.send(31, wait("of another key", "begin_step"), {});
  play.send(1, wait("ocean", "an agreement of its group in begin_step"), {});
  expect(11,
         "text: \"no stream of another group; rank 0 of group 'ocean' waits in an agreement of its "
         "group in begin_step of stream 's', step 0, for the other ranks of group 'ocean'\"");
}

// A reader whose program ends with an error before it has a link only says goodbye.
TEST_F(Explaining, NamesGroupsThatLeftWithoutALink) {
  play.at(1);
  play.send(1, announce("s", 4), {Play::done(1, 2)});
  play.join("early", 1, 21);
  play.send(21, "request: 3 goodbye {}", {Play::done(21, 3)});
  play.join("killed", 1, 22);
  play.receive(22, subscribe("s", 9));
  play.close(22, {});
  const std::string early =
      "group 'early' joined and left again without a link to any stream: has it failed?";
  expect(
      1,
      "text: \"" + early +
          "; group 'killed' joined and was lost: rank 0 of group 'killed' on host node, pid 100, "
          "closed its connection without goodbye (reset)\" is_warning: true");
  play.send(11, subscribe("z", 4), {Play::done(11, 2)});
  play.join("killed", 1, 23);  // it is back
  expect(11, "text: \"only 's'; " + early + "\" is_warning: true");
}

TEST_F(Explaining, NamesGroupsThatLeftShortlyBefore) {
  play.at(5);
  play.join("early", 1, 21);
  play.send(21, "request: 3 goodbye {}", {Play::done(21, 3)});
  play.at(15);
  play.join("later", 1, 22);
  play.send(22, subscribe("s", 4), {Play::done(22, 2)});
  expect(
      22,
      "text: \"no stream of another group; group 'early' joined and left again without a link to "
      "any stream: has it failed?\" is_warning: true");
  play.at(15.1);
  play.join("much later", 1, 23);
  play.send(23, subscribe("z", 4), {Play::done(23, 2)});
  expect(23, "text: 'no stream of another group'");
}

TEST_F(Explaining, OmitsLinkedGroupsAndThoseOfOtherKeys) {
  play.send(1, announce("s", 4), {Play::done(1, 2)});
  play.send(11, subscribe("s", 4), {Play::done(11, 2)});
  play.receive(1, "request: 4 presence { is_present: true incarnation: 4 }");
  play.receive(11, "request: 4 presence { is_present: true }");
  play.receive(11, "request: 5 goodbye {}");
  play.own(21, 1);
  play.join("of another key", 1, 21);
  play.send(21, "request: 3 goodbye {}", {Play::done(21, 3)});
  expect(1, "");
}

TEST_F(Explaining, NamesTheWaitOfTheOtherSide) {
  play.send(11, subscribe("s", 4), {Play::done(11, 2)});
  play.send(1, announce("s", 4), {Play::done(1, 2)});
  play.send(1, announce("other", 5), {Play::done(1, 2)});
  expect(11,
         "text: \"group 'ocean' offers it, but is not in a call that opens links\" has_come: true");
  play.send(2, "heartbeat { counters { stream: 'other' waits_for: 'third' } }", {});
  expect(
      11,
      "text: \"group 'ocean' offers it, but is not in a call that opens links; of group 'ocean' 1 "
      "of 2 ranks wait for third in stream 'other'\" has_come: true is_warning: true");
  expect(1,
         "text: \"group 'viewer' has subscribed, but is not in a call that opens links\" has_come: "
         "true");
}

}  // namespace
}  // namespace tremula::server
