// SPDX-License-Identifier: Apache-2.0
// Offers that leave a choice: server/rendezvous/choices.cpp. The producer "ocean" has the connections 1 and 2,
// the consumer "viewer" 11.
#include <gtest/gtest.h>

#include "play.hpp"

namespace tremula::server {
namespace {

const std::string field = Play::field("u", 10, "shape=8 grid=2");
const std::string wanted = Play::field("u", 10, "shape=8 grid=1");
const std::string matched_why =
    "why: \"the producer's first of ofi that the consumer has too (it has ofi)\" ";
const std::string chosen =
    "link_choice { link: 1 choice: 'ofi:tcp' why: \"the producer's first of ofi:verbs, ofi:tcp "
    "that the consumer has too (it has ofi:tcp, ofi:net)\" }";

std::string choices(const std::vector<std::string>& texts) {
  std::string out = "request: 3 link_choices { link: 1 ";
  for (const std::string& text : texts) out += "choices: '" + text + "' ";
  return out + "}";
}

/// Both groups are matched over the offer "ofi".
class Choices : public testing::Test {
protected:
  Choices() {
    play.join("ocean", 2, 1);
    play.join("viewer", 1, 11);
    play.be_present(1);
    play.be_present(11);
    play.tell(
        1,
        "request: 2 announce { stream: 's' queue_depth: 3 " + field + Play::offers({"ofi"}) + "}",
        {Play::done(1, 2)});
    const std::string matched = "matched { link: 1 stream: 's' offer: 'ofi' queue_depth: 3 ";
    play.tell(
        11, "request: 2 subscribe { stream: 's' " + wanted + Play::offers({"ofi"}) + "}",
        {Play::done(11, 2),
         "11: " + matched + "peer_group: 'ocean' peer_size: 2 " + field + matched_why + "}",
         "1: " + matched + "peer_group: 'viewer' peer_size: 1 " + wanted + matched_why + "}"});
  }
  Play play;
};

TEST_F(Choices, TheProducersFirstIsTakenThatTheConsumerHas) {
  play.tell(11, choices({"ofi:tcp", "ofi:net"}), {Play::done(11, 3)});
  play.tell(1, choices({"ofi:verbs", "ofi:tcp"}),
            {Play::done(1, 3), "11: " + chosen, "1: " + chosen});
  EXPECT_EQ(play.status().streams(0).consumers(0).offer(), "ofi:tcp");
}

TEST_F(Choices, TheOrderInWhichTheyComeIsNoMatter) {
  play.tell(1, choices({"ofi:verbs", "ofi:tcp"}), {Play::done(1, 3)});
  play.tell(11, choices({"ofi:tcp", "ofi:net"}),
            {Play::done(11, 3), "1: " + chosen, "11: " + chosen});
}

TEST_F(Choices, NamesBothSidesWhereNoneIsCommon) {
  play.tell(11, choices({"ofi:tcp", "ofi:net"}), {Play::done(11, 3)});
  play.tell(1, choices({"ofi:verbs@host"}),
            {Play::refused(1, static_cast<int>(core::Errc::mismatch),
                           "stream 's': producer 'ocean' can use ofi:verbs, consumer 'viewer' can "
                           "use ofi:tcp, ofi:net, and none is on both lists; set 'ofi_provider' to "
                           "one that both have, or choose another transport",
                           3)});
}

// A session rejects longer texts, and loses the server by that.
TEST_F(Choices, AreToldAsFarAsATextGoes) {
  std::vector<std::string> most;
  for (int i = 0; i < proto::max_offers; ++i) most.push_back(fmt::format("ofi:{:*>250}", i));
  play.receive(11, choices(most));
  const Output output = play.receive(1, choices(most));
  ASSERT_EQ(output.messages.size(), 3u);
  for (const Outgoing& out : output.messages)
    if (out.message.has_link_choice()) {
      EXPECT_EQ(out.message.link_choice().why().size(), proto::max_text_bytes);
      EXPECT_NO_THROW(proto::parse_to_client(proto::serialise(out.message)));
    }
}

TEST_F(Choices, ComeFromRankZeroOfAnEndOfTheLink) {
  play.join("stranger", 1, 21);
  play.tell(2, choices({"ofi:tcp"}),
            {Play::refused(2, static_cast<int>(core::Errc::refused),
                           "LinkChoices: expected from rank 0 of group 'ocean', found rank 1", 3)});
  play.tell(21, choices({"ofi:tcp"}),
            {Play::refused(21, static_cast<int>(core::Errc::refused),
                           "link 1: expected a link of group 'stranger', found none", 3)});
}

TEST_F(Choices, ComeTooLateForALinkThatTheOtherSideHasClosed) {
  play.tell(11, "request: 4 close_link { link: 1 why: 'enough' }",
            {Play::done(11, 4), "1: link_closed { link: 1 why: 'enough' }",
             "2: link_closed { link: 1 why: 'enough' }"});
  play.tell(1, choices({"ofi:tcp"}),
            {Play::refused(1, static_cast<int>(core::Errc::peer_lost),
                           "link 1 was closed by the other side: enough", 3)});
}

}  // namespace
}  // namespace tremula::server
