// SPDX-License-Identifier: Apache-2.0
// What a group is told of a stream that is not linked. The producer "ocean" has the connections 1 and 2,
// the consumer "viewer" 11.
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
    play.tell(from, "request: 3 explain { incarnation: 4 }",
              {fmt::format("{}: request: 3 explained {{ {} }}", from, explained)}, where);
  }
  Play play;
};

TEST_F(Explaining, SaysNothingOfAStreamThatItDoesNotKnow) { expect(1, ""); }

TEST_F(Explaining, NamesTheStreamsOfOtherNames) {
  play.tell(1, announce("s", 4), {Play::done(1, 2)});
  expect(1, "");
  play.tell(11, subscribe("z", 4), {Play::done(11, 2)});
  expect(1, "text: \"consumers of other streams only: 'z'\" is_warning: true");
  expect(11, "text: \"only 's'\" is_warning: true");
}

TEST_F(Explaining, SaysThatThereIsNone) {
  play.tell(11, subscribe("z", 4), {Play::done(11, 2)});
  expect(11, "text: 'no stream of another group'");
}

TEST_F(Explaining, CountsTheRanksOfGroupsThatAreNotComplete) {
  play.tell(11, subscribe("s", 4), {Play::done(11, 2)});
  play.tell(21, Play::hello("third", 0, 3), {Play::welcome(21)});
  expect(11,
         "text: \"no stream of another group; 1 of 3 ranks of group 'third' have come\" "
         "is_warning: true");
  play.tell(1, announce("t", 4), {Play::done(1, 2)});
  expect(1,
         "text: \"consumers of other streams only: 's'; 1 of 3 ranks of group 'third' have come\" "
         "is_warning: true");
}

TEST_F(Explaining, SaysWhatTheOtherSideWaitsForItself) {
  play.tell(11, subscribe("s", 4), {Play::done(11, 2)});
  play.tell(1, announce("s", 4), {Play::done(1, 2)});
  play.tell(1, announce("other", 5), {Play::done(1, 2)});
  expect(11,
         "text: \"group 'ocean' offers it, but is in no call that opens links\" has_come: true");
  play.tell(2, "heartbeat { counters { stream: 'other' waits_for: 'third' } }", {});
  expect(11,
         "text: \"group 'ocean' offers it, but is in no call that opens links; of group 'ocean' 1 "
         "of 2 ranks wait for third in stream 'other'\" has_come: true is_warning: true");
  expect(1,
         "text: \"group 'viewer' has subscribed, but is in no call that opens links\" has_come: "
         "true");
}

}  // namespace
}  // namespace tremula::server
