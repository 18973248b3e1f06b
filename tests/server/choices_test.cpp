// SPDX-License-Identifier: Apache-2.0
// Offers that stand for several choices: server/rendezvous/choices.cpp. The producer "ocean" has connections 1 and
// 2, and the consumer "viewer" has connection 11.
#include <gtest/gtest.h>

#include "play.hpp"

namespace tremula::server {
namespace {

const std::string field = Play::field("u", 10, "shape=8 grid=2");
const std::string wanted = Play::field("u", 10, "shape=8 grid=1");
const std::string offers = "offers { transport: 'ofi' offer: 'ofi' has_choices: true } ";

std::string choices(const std::vector<std::string>& texts) {
  std::string out = "request: 3 offer_choices { offer: 'ofi' ";
  for (const std::string& text : texts) out += "choices: '" + text + "' ";
  return out + "}";
}
std::string asked(ConnectionId rank_0) {
  return fmt::format("{}: choices_wanted {{ offer: 'ofi' }}", rank_0);
}

/// Two groups that can be linked over the offer "ofi" once both have sent their choices.
class Choices : public testing::Test {
protected:
  Choices() {
    play.join("ocean", 2, 1);
    play.join("viewer", 1, 11);
    play.be_present(1);
    play.be_present(11);
    play.send(
        1,
        "request: 2 announce { stream: 's' queue_depth: 3 incarnation: 1 " + field + offers + "}",
        {Play::done(1, 2)});
    play.send(11, "request: 2 subscribe { stream: 's' incarnation: 1 " + wanted + offers + "}",
              {Play::done(11, 2), asked(11), asked(1)});
  }
  static std::string matched(ConnectionId to, const std::string& peer, const std::string& fields,
                             int link = 1, const std::string& stream = "s") {
    return fmt::format(
        "{}: matched {{ link: {} stream: '{}' offer: 'ofi' choice: 'ofi:tcp' queue_depth: 3 "
        "incarnation: {} {} {} why: \"the producer's first of ofi:verbs, ofi:tcp that the consumer "
        "also has (it has ofi:tcp, ofi:net)\" }}",
        to, link, stream, link, peer, fields);
  }
  const std::string to_viewer = matched(11, "peer_group: 'ocean' peer_size: 2", field);
  const std::string to_ocean = matched(1, "peer_group: 'viewer' peer_size: 1", wanted);
  const std::string of_viewer = choices({"ofi:tcp", "ofi:net"});
  const std::string of_ocean = choices({"ofi:verbs", "ofi:tcp"});
  Play play;
};

TEST_F(Choices, UseTheProducersFirstThatBothSidesHave) {
  play.send(11, of_viewer, {Play::done(11, 3)});
  play.send(1, of_ocean, {Play::done(1, 3), to_viewer, to_ocean});
  EXPECT_EQ(play.status().streams(0).consumers(0).offer(), "ofi:tcp");
}

TEST_F(Choices, MayArriveInAnyOrder) {
  play.send(1, of_ocean, {Play::done(1, 3)});
  play.send(11, of_viewer, {Play::done(11, 3), to_viewer, to_ocean});
}

TEST_F(Choices, AreRequestedOnceForAllLinksOfAGroup) {
  play.send(11, of_viewer, {Play::done(11, 3)});
  play.send(1, of_ocean, {Play::done(1, 3), to_viewer, to_ocean});
  play.send(
      1, "request: 4 announce { stream: 't' queue_depth: 3 incarnation: 2 " + field + offers + "}",
      {Play::done(1, 4)});
  play.send(11, "request: 4 subscribe { stream: 't' incarnation: 2 " + wanted + offers + "}",
            {Play::done(11, 4), matched(11, "peer_group: 'ocean' peer_size: 2", field, 2, "t"),
             matched(1, "peer_group: 'viewer' peer_size: 1", wanted, 2, "t")});
}

// A producer does not wait for a consumer that never sends its choices.
TEST_F(Choices, LinkNoGroupWhileOneSideLacksThem) {
  play.send(1, of_ocean, {Play::done(1, 3)});
  const std::string end = "request: 4 presence { unless_choosing: true }";
  play.send(1, end, {"1: request: 4 done { is_choosing: true }"});
  // Entering another call does not extend the three seconds.
  play.at(2);
  play.send(11, "request: 5 presence { is_present: true }", {Play::done(11, 5), asked(11)});
  play.send(1, end, {"1: request: 4 done { is_choosing: true }"});
  play.at(3.1);
  play.send(1, end, {Play::done(1, 4)});
  play.send(1, "request: 5 presence { is_present: true }", {Play::done(1, 5)});
  EXPECT_EQ(play.status().streams(0).consumers_size(), 0);
  play.send(1, "request: 5 explain { incarnation: 1 }",
            {"1: request: 5 explained { text: \"group 'viewer' has subscribed, but has not yet "
             "reported which providers it can use\" has_come: true }"});
  play.send(1, "request: 6 presence {}", {Play::done(1, 6)});
  play.send(11, of_viewer, {Play::done(11, 3), "1: awaited {}"});
  play.send(1, "request: 7 presence { is_present: true }", {Play::done(1, 7), to_viewer, to_ocean});
}

// The call of the producer may be short, so the consumer is asked before that call begins.
TEST(EarlyChoices, AreRequestedFromAWaitingConsumer) {
  Play play;
  play.join("ocean", 2, 1);
  play.join("viewer", 1, 11);
  play.be_present(11);
  play.send(11, "request: 2 subscribe { stream: 's' incarnation: 1 " + wanted + offers + "}",
            {Play::done(11, 2)});
  play.send(
      1, "request: 2 announce { stream: 's' queue_depth: 3 incarnation: 1 " + field + offers + "}",
      {Play::done(1, 2), asked(11), "1: awaited {}"});
}

// A call that could return stays open for links that lack only choices, whichever side is asked.
TEST_F(Choices, HoldACallForBothSidesUntilTheyArrive) {
  const std::string end = "request: 4 presence { unless_choosing: true }";
  const std::string choosing = "request: 4 done { is_choosing: true }";
  play.send(11, of_viewer, {Play::done(11, 3)});
  play.send(11, end, {"11: " + choosing});
  play.send(1, end, {"1: " + choosing});
  play.send(1, of_ocean, {Play::done(1, 3), to_viewer, to_ocean});  // both calls are still open
  play.send(11, end, {Play::done(11, 4)});
}

// The group may have dropped the request.
TEST_F(Choices, AreRequestedAgainInTheNextCall) {
  play.send(1, of_ocean, {Play::done(1, 3)});
  play.send(11, "request: 4 presence {}", {Play::done(11, 4)});
  play.send(11, "request: 5 presence { is_present: true }", {Play::done(11, 5), asked(11)});
}

// The ranks continue by themselves when both groups have answered.
TEST_F(Choices, MakeNoCircleWhileTheyAreAwaited) {
  const std::string wait =
      "heartbeat { wait { number: 1 seconds: 9 call: 'begin_step' stream: 's' ";
  for (int beat = 0; beat < 8; ++beat) {
    play.at(beat);
    play.send(1, wait + "consumers: 1 incarnation: 1 } }", {});
    play.send(11, wait + "incarnation: 1 } }", {});
    play.check_silence({});
  }
}

TEST_F(Choices, NameBothSidesIfNoneIsCommon) {
  play.send(11, of_viewer, {Play::done(11, 3)});
  const std::string refused = fmt::format(
      "stream_refused {{ incarnation: 1 refused {{ code: {} text: \"stream 's': producer "
      "'ocean' can use ofi:verbs, consumer 'viewer' can use ofi:tcp, ofi:net, and none is "
      "on both lists; set 'ofi_provider' to one that both have, or choose another "
      "transport\" }} }}",
      static_cast<int>(core::Errc::mismatch));
  play.send(1, choices({"ofi:verbs@host"}), {Play::done(1, 3), "11: " + refused, "1: " + refused});
}

TEST_F(Choices, NameAGroupThatHasNone) {
  play.send(11, of_viewer, {Play::done(11, 3)});
  const std::string refused = fmt::format(
      "stream_refused {{ incarnation: 1 refused {{ code: {} text: \"stream 's': group "
      "'ocean' has no way to use 'ofi': no device\" }} }}",
      static_cast<int>(core::Errc::unsupported));
  play.send(1, "request: 3 offer_choices { offer: 'ofi' why: 'no device' }",
            {Play::done(1, 3), "11: " + refused, "1: " + refused});
}

// A session that receives a longer text rejects it, and loses the server.
TEST_F(Choices, AreCutToTheLengthOfAText) {
  std::vector<std::string> most;
  for (int i = 0; i < proto::max_offers; ++i) most.push_back(fmt::format("ofi:{:*>250}", i));
  play.receive(11, choices(most));
  const Output output = play.receive(1, choices(most));
  ASSERT_EQ(output.messages.size(), 3u);
  for (const Outgoing& out : output.messages)
    if (out.message.has_matched()) {
      EXPECT_EQ(out.message.matched().why().size(), 1024u);
      EXPECT_NO_THROW(proto::parse_to_client(proto::serialise(out.message)));
    }
}

TEST_F(Choices, MustComeFromRankZeroOfAnAskedGroup) {
  play.join("stranger", 1, 21);
  play.send(
      2, choices({"ofi:tcp"}),
      {Play::refused(2, static_cast<int>(core::Errc::refused),
                     "OfferChoices: expected it from rank 0 of group 'ocean', found rank 1", 3)});
  play.send(21, choices({"ofi:tcp"}),
            {Play::refused(21, static_cast<int>(core::Errc::refused),
                           "OfferChoices: expected an offer that group 'stranger' was asked about, "
                           "found 'ofi'",
                           3)});
}

TEST_F(Choices, AreIgnoredAfterAnUnsubscribe) {
  play.send(11, "request: 4 unsubscribe { stream: 's' }", {Play::done(11, 4)});
  play.send(1, of_ocean, {Play::done(1, 3)});
  play.send(11, of_viewer, {Play::done(11, 3)});
}

}  // namespace
}  // namespace tremula::server
