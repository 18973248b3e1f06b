// SPDX-License-Identifier: Apache-2.0
// Groups that come and go: server/rendezvous/rendezvous.cpp.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "play.hpp"
#include "proto/convert.hpp"

namespace tremula::server {
namespace {

TEST(Membership, BeginsWithHello) {
  Play play;
  const std::string text =
      "expected Hello as the first message of a connection, found a different one";
  for (const char* message :
       {"request: 1 announce { stream: 's' }", "request: 1 subscribe { stream: 's' }",
        "request: 1 unsubscribe {}", "request: 1 link_addresses {}",
        "request: 1 share { round: 1 }", "request: 1 close_link {}", "request: 1 close_stream {}",
        "request: 1 goodbye {}"})
    play.send(9, message, {Play::refused(9, -7, text)});
  play.send(9, "heartbeat {}", {});
  play.close(9, {});
}

TEST(Membership, IsAnsweredWithWelcome) {
  Play play;
  play.join("ocean", 3, 1);
  play.send(1, Play::hello("ocean", 0, 3),
            {Play::refused(1, -7, "Hello: expected once per connection, found a second one")});
  EXPECT_TRUE(play.is_member(3));
  EXPECT_FALSE(play.is_member(4));
}

/// docs/reference/compatibility.md shows the error.
TEST(Membership, NeedsTheSameProtocol) {
  // No protocol number at all, and the numbers of the previous and the next protocol.
  for (const std::uint32_t other :
       {std::uint32_t{0}, proto::protocol_version - 1, proto::protocol_version + 1}) {
    Play play;
    play.send(1,
              fmt::format("request: 1 hello {{ protocol: {} group: 'g' rank: 0 size: 1 job: 'j' "
                          "host: 'h' version: '9.9' }}",
                          other),
              {Play::refused(1, -7,
                             fmt::format("group 'g', rank 0: expected protocol {} of Tremula 0.1, "
                                         "found protocol {} of Tremula 9.9; install "
                                         "the same version on both sides",
                                         proto::protocol_version, other))});
    EXPECT_FALSE(play.is_member(1)) << other;
  }
}

TEST(Membership, IsRefusedToASecondGroupOfTheSameName) {
  Play play;
  play.join("ocean", 2, 1);
  play.at(90);
  play.record_heard(1);
  play.record_heard(2);
  play.send(7, Play::hello("ocean", 0, 2, "other job"),
            {Play::refused(7, -7,
                           "group 'ocean': the name is held by another job on host node, pid 100, "
                           "which joined 90 s ago (2 of 2 "
                           "ranks connected); choose another name or end that job")});
  play.send(7, Play::hello("ocean 2", 0, 2, "other job"), {Play::welcome(7)});
}

/// The server may not yet have noticed that the connections of the earlier job have ended.
TEST(Membership, LetsAJobWaitForTheNameOfASilentGroup) {
  const std::string refusal =
      "group 'g': the name is held by another job on host node, pid 100, which joined 3 s ago (2 "
      "of 2 "
      "ranks connected); choose another name or end that job";
  Play play;
  play.join("g", 2, 1);
  play.at(2.6);
  play.record_heard(1);  // a sign of life from rank 0, but none from rank 1
  play.send(3, Play::hello("g", 0, 1, "next job"), {});
  play.check_silence({});
  play.record_heard(2);
  play.check_silence({Play::refused(3, -7, refusal)});

  play.send(4, Play::hello("g", 0, 1, "next job"), {Play::refused(4, -7, refusal)});
  play.at(6);
  play.send(5, Play::hello("g", 0, 1, "next job"), {});
  play.at(13);
  const auto messages = play.check_silence().messages;
  ASSERT_EQ(messages.size(), 3u);  // both ranks are notified of the loss
  EXPECT_TRUE(messages.back().message.has_welcome());
  EXPECT_EQ(messages.back().to, 5u);
}

/// Jobs that neither a launcher nor TREMULA_JOB names count as one job.
TEST(Membership, LetsARankWaitForTheSeatOfASilentRank) {
  Play play;
  play.join("g", 2, 1);
  play.at(3);
  play.record_heard(1);
  play.send(3, Play::hello("g", 0, 2),
            {Play::refused(
                3, -7,
                "group 'g': rank 0 is held by host node, pid 100, which joined 3 s ago; found a "
                "second session with the same host and pid; close the first one, which may "
                "be of an earlier run of the same code, or choose another name or rank")});
  play.send(4, Play::hello("g", 1, 2), {});
  play.at(11);
  play.record_heard(1);
  const auto messages = play.check_silence().messages;
  ASSERT_EQ(messages.size(), 3u);
  EXPECT_TRUE(messages.back().message.has_welcome());
  EXPECT_EQ(messages.back().to, 4u);
}

TEST(Membership, LetsRanksShareBytesInRounds) {
  Play play;
  play.join("g", 3, 1);
  play.send(2, "request: 5 share { round: 1 bytes: 'b' }", {});
  play.send(3, "request: 6 share { round: 1 bytes: 'c' }", {});
  play.send(1, "request: 7 share { round: 1 bytes: '' }",
            {"1: request: 7 shared { bytes: '' bytes: 'b' bytes: 'c' }",
             "2: request: 5 shared { bytes: '' bytes: 'b' bytes: 'c' }",
             "3: request: 6 shared { bytes: '' bytes: 'b' bytes: 'c' }"});
  play.send(1, "request: 8 share { round: 2 bytes: 'A' }", {});
  const std::string same = "; all ranks must make the same calls in the same order";
  play.send(
      1, "request: 9 share { round: 2 bytes: 'A' }",
      {Play::refused(
          1, -4, "group 'g', rank 0: expected Share round 2 once, found round 2 again" + same, 9)});
  play.send(2, "request: 9 share { round: 1 bytes: 'B' }",
            {Play::refused(
                2, -4, "group 'g', rank 1: expected Share round 2 once, found round 1" + same, 9)});
  play.send(2, "request: 9 share { round: 3 bytes: 'B' }",
            {Play::refused(
                2, -4, "group 'g', rank 1: expected Share round 2 once, found round 3" + same, 9)});
}

TEST(Membership, WaitsInAShareForMissingRanks) {
  Play play;
  play.send(1, Play::hello("g", 0, 2), {Play::welcome(1)});
  play.send(1, "request: 2 share { round: 1 bytes: 'x' }", {});
  play.send(2, Play::hello("g", 1, 2), {Play::welcome(2)});
  play.send(2, "request: 2 share { round: 1 bytes: 'y' }",
            {"1: request: 2 shared { bytes: 'x' bytes: 'y' }",
             "2: request: 2 shared { bytes: 'x' bytes: 'y' }"});
}

TEST(Membership, BoundsAShare) {
  Play play;
  play.join("g", 2, 1);
  const std::string half(9 << 20, 'x');
  play.send(1, "request: 2 share { round: 1 bytes: '" + half + "' }", {});
  const std::string text =
      "group 'g': expected at most 16777152 bytes from all ranks in one Share, found 18874384; "
      "share less at once";
  play.send(2, "request: 3 share { round: 1 bytes: '" + half + "' }",
            {Play::refused(1, -1, text, 2), Play::refused(2, -1, text, 3)});
}

TEST(Membership, EndsWithGoodbyeOfAllRanks) {
  Play play;
  play.join("g", 2, 1);
  play.send(1, "request: 2 goodbye {}", {Play::done(1, 2)});
  play.close(1, {});
  EXPECT_EQ(play.status().groups_size(), 1);
  play.send(2, "request: 2 goodbye {}", {Play::done(2, 2)});
  EXPECT_EQ(play.status().groups_size(), 0);
  play.close(2, {});
  play.join("g", 1, 3);
}

TEST(Membership, BreaksAShareThatARankHasLeft) {
  Play play;
  play.join("g", 3, 1);
  play.send(1, "request: 2 share { round: 1 bytes: 'x' }", {});
  play.send(2, "request: 2 goodbye {}",
            {Play::done(2, 2),
             Play::refused(1, -10, "group 'g': rank 1 has left while others wait for it", 2)});
  play.send(
      3, "request: 2 share { round: 1 bytes: 'x' }",
      {Play::refused(
          3, -10, "group 'g': rank 1 has left, so its ranks can no longer agree on anything", 2)});
}

TEST(Membership, LetsANewcomerOfTheNameWaitUntilAllHaveLeft) {
  Play play;
  play.join("g", 2, 1);
  play.send(1, "request: 2 goodbye {}", {Play::done(1, 2)});
  play.send(3, Play::hello("g", 0, 2, "next job"), {});
  play.send(4, Play::hello("g", 1, 2, "next job"), {});
  play.send(5, Play::hello("g", 1, 2, "third job"), {});
  play.send(6, Play::hello("g", 1, 2, "a job that ends"), {});
  play.close(6, {});
  play.send(2, "request: 2 goodbye {}",
            {Play::done(2, 2), Play::welcome(3), Play::welcome(4),
             Play::refused(5, -7,
                           "group 'g': the name is held by another job on host node, pid 100, "
                           "which joined 0 s ago (2 of 2 ranks "
                           "connected); choose another name or end that job")});
}

TEST(Membership, LosesTheGroupWhenAConnectionCloses) {
  Play play;
  play.join("g", 3, 1);
  play.join("unrelated", 1, 7);
  const std::string why =
      "rank 1 of group 'g' on host node, pid 101, closed its connection without goodbye (reset)";
  const std::string lost = "group_lost { group: 'g' rank: 1 why: \"" + why + "\" }";
  play.close(2, {"1: " + lost, "3: " + lost});
  EXPECT_EQ(play.status().groups_size(), 1);

  // The remaining ranks get this answer to every request, and may still say goodbye.
  const std::string text = "this rank's group is lost: " + why;
  play.send(1, "request: 2 share { round: 1 }", {Play::refused(1, -5, text, 2)});
  play.send(3, "request: 2 announce { stream: 's' }", {Play::refused(3, -5, text, 2)});
  play.send(1, Play::hello("g", 0, 3),
            {Play::refused(1, -7, "Hello: expected once per connection, found a second one")});
  play.send(1, "heartbeat {}", {});
  play.send(1, "request: 3 goodbye {}", {Play::done(1, 3)});
  play.close(1, {});
  play.close(3, {});

  play.join("g", 2, 11);  // the name is free
}

TEST(Membership, LosesASilentRankAfterTenSeconds) {
  Play play;
  play.join("g", 2, 1);
  play.at(3);
  play.send(1, "heartbeat {}", {});
  play.check_silence({});
  play.at(10);
  play.check_silence({});
  play.at(10.1);
  const std::string lost =
      "group_lost { group: 'g' rank: 1 why: \"rank 1 of group 'g' on host node, pid 101, has been "
      "silent for 10.1 s, and is counted as lost after 10 s: 'silence' among the options of its "
      "session sets how long\" }";
  play.check_silence({"1: " + lost, "2 last: " + lost});
  play.check_silence({});
  play.at(100);
  play.check_silence({});
  play.close(2, {});
}

TEST(Membership, TakesAnyByteForASignOfLife) {
  Play play;
  play.join("g", 1, 1);
  play.at(10);
  play.record_heard(1);
  play.at(20);
  play.check_silence({});
  play.send(1, "request: 2 unsubscribe { stream: 's' }", {Play::done(1, 2)});
  play.at(30);
  play.check_silence({});
  play.at(30.5);
  play.check_silence(
      {"1 last: group_lost { group: 'g' rank: 0 why: \"rank 0 of group 'g' on host node, pid 100, "
       "has been "
       "silent for 10.5 s, and is counted as lost after 10 s: 'silence' among the options of its "
       "session sets how long\" }"});
}

TEST(Membership, LetsASessionSayHowLongARankMayBeSilent) {
  Play play;
  const auto hello = [](const std::string& group, const std::string& seconds) {
    return "request: 1 hello { protocol: 2 group: '" + group +
           "' size: 1 job: 'j' host: 'node' pid: 100 version: '0.1' silence_seconds: " + seconds +
           " }";
  };
  play.send(1, hello("patient", "60"), {Play::welcome(1)});
  play.send(2, hello("forever", "inf"), {Play::welcome(2)});
  // The ranks of this group have to send heartbeats more often.
  play.send(3, hello("hasty", "2"),
            {"3: request: 1 welcome { version: '0.1' heartbeat_seconds: 0.5 }"});
  play.at(2.5);
  play.check_silence(
      {"3 last: group_lost { group: 'hasty' rank: 0 why: \"rank 0 of group 'hasty' on host node, "
       "pid 100, has been silent for 2.5 s, and is counted as lost after 2 s: 'silence' among the "
       "options of its session sets how long\" }"});
  play.at(60);
  play.check_silence({});
  play.at(1e9);
  play.check_silence(
      {"1 last: group_lost { group: 'patient' rank: 0 why: \"rank 0 of group 'patient' on host "
       "node, pid 100, has been silent for 1000000000.0 s, and is counted as lost after 60 s: "
       "'silence' among the options of its session sets how long\" }"});
}

TEST(Membership, LosesAGroupThatLeavesInPart) {
  Play play;
  play.join("g", 2, 1);
  play.send(1, "request: 2 goodbye {}", {Play::done(1, 2)});
  play.send(3, Play::hello("g", 0, 1, "next"), {});
  play.close(2, {Play::welcome(3)});
}

}  // namespace
}  // namespace tremula::server
