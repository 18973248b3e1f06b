// SPDX-License-Identifier: Apache-2.0
// Groups that return to a restarted server: server/rendezvous/resume.cpp.
#include <gtest/gtest.h>

#include <regex>

#include "play.hpp"

namespace tremula::server {
namespace {

constexpr std::uint64_t base = std::uint64_t{7} << 32;  // base of the link numbers of server 7

std::string hello_again(const std::string& group, int rank, int size, int left_server = 3) {
  return fmt::format(
      "request: 1 hello {{ protocol: 2 group: '{}' rank: {} size: {} job: 'j' host: 'node' pid: {} "
      "version: '0.1' left_server: {} }}",
      group, rank, size, 100 + rank, left_server);
}

const std::string fields = Play::field("u", 10, "shape=8 grid=2");
const std::string wanted = Play::field("u", 10, "shape=8 grid=1");
const std::string stream =
    "streams { stream: 's' queue_depth: 3 incarnation: 4 " + fields + Play::offers({"tcp"}) + "}";

std::string link(const std::string& peer, int size, const std::string& theirs, int number = 5) {
  return fmt::format(
      "links {{ link: {} stream: 's' peer_group: '{}' peer_size: {} {} offer: 'tcp' why: 'because' "
      "queue_depth: 3 }}",
      (std::uint64_t{3} << 32) + static_cast<std::uint64_t>(number), peer, size, theirs);
}

/// Server 7, which was started after server 3 had ended.
class Resume : public testing::Test {
protected:
  static std::string welcome(ConnectionId to) {
    return fmt::format("{}: request: 1 welcome {{ version: '0.1' heartbeat_seconds: 1 server: 7 }}",
                       to);
  }
  void ocean_comes_back() {
    play.send(1, hello_again("ocean", 0, 2), {welcome(1)});
    play.send(1, "request: 2 resume { " + stream + link("viewer", 1, wanted) + " }",
              {Play::done(1, 2)});
    play.send(2, hello_again("ocean", 1, 2), {welcome(2)});
  }
  void viewer_comes_back() {
    play.send(11, hello_again("viewer", 0, 1), {welcome(11)});
    play.send(11, "request: 2 resume { " + link("ocean", 2, fields) + " }", {Play::done(11, 2)});
  }
  /// Advances the time without messages while all ranks stay alive.
  void live_until(double seconds) {
    play.at(seconds);
    for (const ConnectionId rank : {1u, 2u, 11u}) play.record_heard(rank);
  }
  /// Checks that viewer, to which ocean has reported a link, is lost after 30 s.
  void expect_loss_of_viewer() {
    live_until(30);
    play.check_silence({});
    live_until(30.5);
    const std::string lost = fmt::format(
        "group_lost {{ group: 'viewer' links: {} why: \"group 'viewer' has not returned to the "
        "restarted server within 30 s\" }}",
        (std::uint64_t{3} << 32) + 5);
    play.check_silence({"1: " + lost, "2: " + lost});
    EXPECT_EQ(shown(), "s of ocean to");
    play.check_silence({});
  }
  std::string shown() const {
    std::string text;
    const wire::Status status = play.status();
    for (const auto& s : status.streams()) {
      text += s.name() + " of " + s.producer() + " to";
      for (const auto& consumer : s.consumers())
        text += fmt::format(" {} by {}", consumer.consumer(), consumer.link() & 0xff);
    }
    return text;
  }
  Play play{7};
};

// A link binds the consumer only after the consumer has reported the link as well.
TEST_F(Resume, BindsNoConsumerByAnInventedLink) {
  for (const int rank : {0, 1})
    play.send(11 + static_cast<ConnectionId>(rank), hello_again("viewer", rank, 2, 0),
              {welcome(11 + static_cast<ConnectionId>(rank))});
  play.send(1, hello_again("ocean", 0, 2), {welcome(1)});
  play.send(1, "request: 2 resume { " + stream + link("viewer", 2, wanted) + " }",
            {Play::done(1, 2)});
  play.send(12, "request: 3 goodbye {}", {Play::done(12, 3)});
}

// Nor is a group believed if it claims another group's link; the other groups lose at most that
// link.
TEST_F(Resume, GivesALinkToTheFirstGroupThatReportsIt) {
  const auto closed = [](ConnectionId to) {
    return fmt::format(
        "{}: link_closed {{ link: {} lost: true why: 'link 12884901893 cannot be restored on the "
        "restarted server: another group has reported a link of that number' }}",
        to, (std::uint64_t{3} << 32) + 5);
  };
  const std::string resume = "request: 2 resume { " + stream + link("viewer", 1, wanted) + " }";
  viewer_comes_back();
  play.send(21, hello_again("other", 0, 2), {welcome(21)});
  play.send(21, std::regex_replace(resume, std::regex("stream: 's'"), "stream: 't'"),
            {closed(21), Play::done(21, 2)});
  ocean_comes_back();
  EXPECT_EQ(shown(), "t of other tos of ocean to viewer by 5");

  play = Play(7);
  play.send(21, hello_again("liar", 0, 1), {welcome(21)});
  play.send(21, "request: 2 resume { " + link("none", 2, fields) + " }", {Play::done(21, 2)});
  play.send(11, hello_again("viewer", 0, 1), {welcome(11)});
  play.send(11, "request: 2 resume { " + link("ocean", 2, fields) + " }",
            {closed(11), Play::done(11, 2)});
  play.send(1, hello_again("ocean", 0, 2), {welcome(1)});
  play.send(1, resume, {closed(1), Play::done(1, 2)});
  EXPECT_EQ(shown(), "s of ocean to");
}

TEST_F(Resume, RestoresStreamsAndLinksInAnyOrderOfTheGroups) {
  ocean_comes_back();
  EXPECT_EQ(shown(), "s of ocean to viewer by 5");
  viewer_comes_back();
  EXPECT_EQ(shown(), "s of ocean to viewer by 5");
  live_until(100);
  play.check_silence({});

  play = Play(7);
  viewer_comes_back();
  EXPECT_EQ(shown(), "");
  ocean_comes_back();
  EXPECT_EQ(shown(), "s of ocean to viewer by 5");
  live_until(100);
  play.check_silence({});
}

TEST_F(Resume, KeepsTheCountersThatArriveNext) {
  ocean_comes_back();
  viewer_comes_back();
  play.send(11,
            fmt::format("heartbeat {{ counters {{ stream: 's' link: {} steps: 9 }} }}",
                        (std::uint64_t{3} << 32) + 5),
            {});
  EXPECT_EQ(play.status().streams(0).consumers(0).consumed().steps(), 9u);
}

std::string matched(ConnectionId to, const std::string& peer, int size, const std::string& theirs,
                    int incarnation) {
  return fmt::format(
      "{}: matched {{ link: {} stream: 's' peer_group: '{}' peer_size: {} {} offer: 'tcp' "
      "queue_depth: 3 incarnation: {} why: \"the producer's first of tcp that the consumer also "
      "has (it has tcp)\" }}",
      to, base + 1, peer, size, theirs, incarnation);
}
const std::string subscribed = "stream: 's' incarnation: 6 " + wanted + Play::offers({"tcp"});

/// Rank 1 of ocean gave up its link while no server was running.
class GivenUp : public Resume {
protected:
  static std::string closed(ConnectionId to) {
    return fmt::format("{}: link_closed {{ link: {} why: 'rank 1 gave up' lost: true }}", to,
                       number);
  }
  void give_up(Answers then) {
    Answers answers{Play::done(2, 2)};
    answers.insert(answers.end(), then.begin(), then.end());
    play.send(2, hello_again("ocean", 1, 2), {welcome(2)});
    play.send(
        2,
        fmt::format("request: 2 close_link {{ link: {} gave_up: true why: 'rank 1 gave up' }}",
                    number),
        answers);
  }
  /// Makes rank 0 of a group return and resume.
  /// @param missed  notices that this rank receives now, and that the ranks of the group that
  ///                returned earlier have already received
  void resume(ConnectionId from, const std::string& group, int size, const std::string& what,
              Answers answers, const Answers& missed = {}) {
    Answers welcomed{welcome(from)};
    welcomed.insert(welcomed.end(), missed.begin(), missed.end());
    play.send(from, hello_again(group, 0, size), welcomed);
    play.send(from, "request: 2 resume { " + what + " }", answers);
  }
  static constexpr std::uint64_t number = (std::uint64_t{3} << 32) + 5;
  const std::string of_ocean = stream + link("viewer", 1, wanted),
                    of_viewer = link("ocean", 2, fields);
};

TEST_F(GivenUp, IsReportedToBothSidesInAnyOrder) {
  resume(11, "viewer", 1, of_viewer, {Play::done(11, 2)});
  give_up({closed(11), closed(2)});
  resume(1, "ocean", 2, stream, {Play::done(1, 2)}, {closed(1)});
  EXPECT_EQ(shown(), "s of ocean to");

  play = Play(7);
  give_up({closed(2)});
  resume(11, "viewer", 1, of_viewer, {closed(11), Play::done(11, 2)});
  resume(1, "ocean", 2, of_ocean, {closed(1), closed(2), Play::done(1, 2)}, {closed(1)});
  EXPECT_EQ(shown(), "s of ocean to");

  play = Play(7);  // rank 0 is late, and still reports the link
  resume(11, "viewer", 1, of_viewer, {Play::done(11, 2)});
  give_up({closed(11), closed(2)});
  resume(1, "ocean", 2, of_ocean, {closed(1), closed(2), Play::done(1, 2)}, {closed(1)});
  EXPECT_EQ(shown(), "s of ocean to");

  play = Play(7);
  resume(1, "ocean", 2, of_ocean, {Play::done(1, 2)});
  give_up({closed(1), closed(2)});
  EXPECT_EQ(shown(), "s of ocean to");
  resume(11, "viewer", 1, of_viewer, {closed(11), Play::done(11, 2)});
  live_until(31);
  play.check_silence({});
}

TEST_F(GivenUp, IsIgnoredFromAStranger) {
  resume(11, "viewer", 1, of_viewer, {Play::done(11, 2)});
  play.send(21, Play::hello("stranger", 0, 1), {welcome(21)});
  play.send(21, fmt::format("request: 2 close_link {{ link: {} gave_up: true }}", number),
            {Play::done(21, 2)});
  resume(1, "ocean", 2, of_ocean, {Play::done(1, 2)});
  EXPECT_EQ(shown(), "s of ocean to viewer by 5");
}

TEST_F(Resume, GivesANewConsumerAnUnusedLinkNumber) {
  play.send(21, Play::hello("late", 0, 1), {welcome(21)});
  play.send(21, "request: 2 subscribe { " + subscribed + "}", {Play::done(21, 2)});
  play.be_present(21);
  play.send(1, hello_again("ocean", 0, 2), {welcome(1)});
  play.send(1, "request: 2 resume { " + stream + link("viewer", 1, wanted) + " }",
            {Play::done(1, 2)});
  play.send(2, hello_again("ocean", 1, 2), {welcome(2), "1: awaited {}"});
  play.be_present(1, 0, {matched(21, "ocean", 2, fields, 6), matched(1, "late", 1, wanted, 4)});
  EXPECT_EQ(shown(), "s of ocean to viewer by 5 late by 1");
}

// The notice of a link goes to all ranks of both sides, and a rank that returned later would miss
// it.
TEST_F(Resume, LinksAGroupWhenItsLastRankIsBack) {
  play.send(21, Play::hello("late", 0, 1), {welcome(21)});
  play.send(21, "request: 2 subscribe { " + subscribed + "}", {Play::done(21, 2)});
  play.be_present(21);
  play.send(1, hello_again("ocean", 0, 2), {welcome(1)});
  play.send(1, "request: 2 resume { " + stream + " presence { is_present: true } }",
            {Play::done(1, 2)});
  play.send(2, hello_again("ocean", 1, 2),
            {welcome(2), matched(21, "ocean", 2, fields, 6), matched(1, "late", 1, wanted, 4)});
}

// A rank can close its streams and leave in order whether or not the others are back.
TEST_F(Resume, EndsAGroupWithTheLastRankThatLeaves) {
  const std::uint64_t number = (std::uint64_t{3} << 32) + 5;
  const auto close = [&](ConnectionId from, const Answers& then) {
    Answers expected{Play::done(from, 3)};
    expected.insert(expected.end(), then.begin(), then.end());
    play.send(from, fmt::format("request: 3 close_link {{ link: {} of_rank: true }}", number),
              expected);
  };
  const auto leave = [&](ConnectionId from, const Answers& then) {
    Answers expected{Play::done(from, 4)};
    expected.insert(expected.end(), then.begin(), then.end());
    play.send(from, "request: 4 goodbye {}", expected);
  };
  const auto ended = [&](const std::string& why) {
    return fmt::format("1: link_closed {{ link: {} why: \"{}\" }}", number, why);
  };
  const auto resume = [&](ConnectionId rank_0) {
    play.send(rank_0, "request: 2 resume { " + link("ocean", 1, fields) + " }",
              {Play::done(rank_0, 2)});
  };
  for (const bool is_rank_0_late : {false, true}) {
    SCOPED_TRACE(is_rank_0_late);
    play = Play(7);
    const int first_rank = is_rank_0_late ? 1 : 0, late_rank = 1 - first_rank;
    play.send(11, hello_again("viewer", first_rank, 2), {welcome(11)});
    if (!is_rank_0_late) resume(11);
    close(11, {});  // the producer has not yet reported this link
    play.send(1, hello_again("ocean", 0, 1), {welcome(1)});
    play.send(1,
              "request: 2 resume { streams { stream: 's' queue_depth: 3 incarnation: 4 " + wanted +
                  Play::offers({"tcp"}) + "} " + link("viewer", 2, wanted) + " }",
              {Play::done(1, 2)});
    leave(11, {});
    play.send(31, Play::hello("viewer", 0, 1, "another job"), {});  // waits for the name
    play.at(4);
    play.check_silence({});
    play.send(12, hello_again("viewer", late_rank, 2), {welcome(12)});
    if (is_rank_0_late) resume(12);
    EXPECT_EQ(shown(), "s of ocean to viewer by 5");
    // If rank 0 is late, the server did not know of the link when rank 1 closed it, so only the end
    // of the group closes the link.
    close(12, is_rank_0_late ? Answers{} : Answers{ended("group 'viewer' closed the link")});
    leave(12, is_rank_0_late ? Answers{ended("consumer 'viewer' has left"), welcome(31)}
                             : Answers{welcome(31)});
  }
}

// The other ranks may have ended while they searched for the server.
TEST_F(Resume, EndsAGroupWhoseReturnedRanksHaveLeft) {
  play.send(11, hello_again("viewer", 0, 2), {welcome(11)});
  play.send(11, "request: 4 goodbye {}", {Play::done(11, 4)});
  play.send(11, hello_again("another", 0, 2),
            {Play::refused(11, -7, "Hello: expected once per connection, found a second one", 1)});
  // These ranks belong to the next job, so they are not returning ranks.
  play.send(31, Play::hello("viewer", 0, 2), {});
  play.send(32, Play::hello("viewer", 1, 2), {});
  play.at(10.5);
  play.check_silence({welcome(31), welcome(32)});
}

// A producer's rank that has left either closed its streams together with rank 0 or counts as
// lost.
TEST_F(Resume, LosesAProducerIfARankHasLeft) {
  viewer_comes_back();
  play.send(2, hello_again("ocean", 1, 2), {welcome(2)});
  play.send(2, "request: 4 goodbye {}", {Play::done(2, 4)});
  play.send(1, hello_again("ocean", 0, 2), {welcome(1)});
  const std::string why =
      "why: \"rank 1 of group 'ocean' left before its group had closed its "
      "stream 's'\" }";
  play.send(1, "request: 2 resume { " + stream + link("viewer", 1, wanted) + " presence {} }",
            {Play::done(1, 2), "1: group_lost { group: 'ocean' rank: 1 " + why,
             fmt::format("11: group_lost {{ group: 'ocean' rank: 1 links: {} {}",
                         (std::uint64_t{3} << 32) + 5, why)});
}

TEST_F(Resume, EndsAStreamGivenUpBeforeRankZeroReturned) {
  for (const bool is_viewer_first : {true, false}) {
    play = Play(7);
    if (is_viewer_first) viewer_comes_back();
    play.send(2, hello_again("ocean", 1, 2), {welcome(2)});
    play.send(2,
              "request: 3 close_stream { stream: 's' gave_up: true incarnation: 4 why: 'thrown' }",
              {Play::done(2, 3)});
    play.send(1, hello_again("ocean", 0, 2), {welcome(1)});
    const std::string given_up = "stream_given_up { incarnation: 4 why: 'thrown' }";
    const std::string closed = fmt::format("link_closed {{ link: {} why: 'thrown' lost: true }}",
                                           (std::uint64_t{3} << 32) + 5);
    Answers expected{Play::done(1, 2), "1: " + given_up, "2: " + given_up};
    if (is_viewer_first) expected.push_back("11: " + closed);
    expected.insert(expected.end(), {"1: " + closed, "2: " + closed});
    play.send(1, "request: 2 resume { " + stream + link("viewer", 1, wanted) + " presence {} }",
              expected);
    EXPECT_EQ(shown(), "");
    if (is_viewer_first) continue;
    play.send(11, hello_again("viewer", 0, 1), {welcome(11)});
    play.send(11, "request: 2 resume { " + link("ocean", 2, fields) + " }",
              {"11: " + closed, Play::done(11, 2)});
  }
}

TEST_F(Resume, ReportsARestartDuringTheStartOfAJob) {
  for (const int rank : {0, 1})
    play.send(static_cast<ConnectionId>(1 + rank), hello_again("ocean", rank, 2),
              {welcome(static_cast<ConnectionId>(1 + rank))});
  play.send(1, "request: 2 share { round: 2 bytes: 'x' }",
            {Play::refused(1, -4,
                           "group 'ocean', rank 0: expected Share round 1 once, found round 2; the "
                           "server was started again while the ranks of this job met; start the "
                           "job again",
                           2)});
}

TEST_F(Resume, RestoresWaitingGroupsInAnyOrder) {
  const auto ocean = [&](const Answers& then) {
    Answers expected{Play::done(1, 2)};
    expected.insert(expected.end(), then.begin(), then.end());
    play.send(1, hello_again("ocean", 0, 1), {welcome(1)});
    play.send(1,
              "request: 2 resume { streams { stream: 's' queue_depth: 3 incarnation: 4 " + wanted +
                  Play::offers({"tcp"}) + "} presence { is_present: true incarnation: 4 } }",
              expected);
  };
  const auto late = [&](const Answers& then) {
    Answers expected{Play::done(21, 2)};
    expected.insert(expected.end(), then.begin(), then.end());
    play.send(21, hello_again("late", 0, 1), {welcome(21)});
    play.send(
        21,
        "request: 2 resume { subscriptions { " + subscribed + "} presence { is_present: true } }",
        expected);
  };
  const Answers both{matched(21, "ocean", 1, wanted, 6), matched(1, "late", 1, wanted, 4)};
  ocean({});
  late(both);
  play = Play(7);
  late({});
  ocean(both);
}

TEST_F(Resume, RefusesSubscriptionsThatNoLongerFit) {
  play.send(31, Play::hello("new", 0, 2), {welcome(31)});
  play.send(31,
            "request: 2 announce { stream: 's' queue_depth: 3 incarnation: 8 " + fields +
                Play::offers({"mpi"}) + "}",
            {Play::done(31, 2)});
  play.send(21, hello_again("late", 0, 1), {welcome(21)});
  const std::string text =
      "stream 's': producer 'new' offers the transports mpi, consumer 'late' offers tcp, and no "
      "transport connects the two (mpi: only producer 'new' has it; tcp: only consumer 'late' has "
      "it); set transport (TREMULA_TRANSPORT) of both to one that both have; auto takes any that "
      "is available";
  play.send(21, "request: 2 resume { subscriptions { " + subscribed + "} }",
            {Play::done(21, 2), Play::stream_refused(21, -8, text, 6),
             Play::stream_refused(31, -8, text, 8)});
}

TEST_F(Resume, ReportsTheEndOfARestoredLink) {
  ocean_comes_back();
  viewer_comes_back();
  const std::string why =
      "rank 0 of group 'viewer' on host node, pid 100, closed its connection "
      "without goodbye (reset)";
  const std::string lost = fmt::format("group_lost {{ group: 'viewer' links: {} why: \"{}\" }}",
                                       (std::uint64_t{3} << 32) + 5, why);
  play.close(11, {"1: " + lost, "2: " + lost});
  EXPECT_EQ(shown(), "s of ocean to");
}

TEST_F(Resume, LosesAConsumerThatDoesNotReturn) {
  ocean_comes_back();
  expect_loss_of_viewer();
}

TEST_F(Resume, LosesAConsumerReplacedByANewJob) {
  ocean_comes_back();
  play.send(11, Play::hello("viewer", 0, 1), {welcome(11)});  // a new job, without a link
  expect_loss_of_viewer();
}

// The new job has left no stream, so any call of the producer that opens links will link it.
TEST_F(Resume, LinksANewJobAfterALostConsumer) {
  ocean_comes_back();
  play.send(11, Play::hello("viewer", 0, 1), {welcome(11)});
  expect_loss_of_viewer();
  play.send(11, "request: 2 subscribe { " + subscribed + "}", {Play::done(11, 2)});
  play.be_present(11, 0, {"1: awaited {}"});
  play.be_present(1, 0, {matched(11, "ocean", 2, fields, 6), matched(1, "viewer", 1, wanted, 4)});
  EXPECT_EQ(shown(), "s of ocean to viewer by 1");
}

TEST_F(Resume, LosesAProducerThatDoesNotReturn) {
  viewer_comes_back();
  live_until(30.5);
  play.check_silence(
      {fmt::format("11: group_lost {{ group: 'ocean' links: {} why: \"group 'ocean' has not "
                   "returned to the restarted server within 30 s\" }}",
                   (std::uint64_t{3} << 32) + 5)});
  play.check_silence({});
}

TEST_F(Resume, LosesAGroupThatReturnsInPart) {
  play.send(2, hello_again("ocean", 1, 2), {welcome(2)});
  live_until(30.5);
  play.check_silence(
      {"2: group_lost { group: 'ocean' why: \"rank 0 of group 'ocean' has not returned to the "
       "restarted server within 30 s\" }"});
  play.check_silence({});
}

TEST_F(Resume, RefusesARankThatThisServerHasLost) {
  play.send(1, hello_again("ocean", 0, 2, 7),
            {Play::refused(1, -5,
                           "rank 0 of group 'ocean' was counted as lost when its connection to "
                           "this server broke; start its job again")});
}

TEST_F(Resume, RefusesALinkWithFieldsThatAStatusCouldNotShow) {
  play.send(1, hello_again("ocean", 0, 2), {welcome(1)});
  const auto resume = [](const std::string& theirs) {
    return "request: 2 resume { " + stream + link("viewer", 1, theirs) + " }";
  };
  play.send(
      1, resume("fields { name: 'u' element_type: 10 layout: 'shape=8 grid=1' origin: [4, 4] }"),
      {Play::refused(1, -4,
                     "fields[0].origin: expected none or as many numbers as dimensions, 1, found 2",
                     2)});
  EXPECT_EQ(play.status().streams_size(), 0) << "the whole Resume is refused";
}

TEST_F(Resume, RefusesAStreamWhoseNameWasTaken) {
  play.send(31, Play::hello("new", 0, 2), {welcome(31)});
  play.send(
      31,
      "request: 2 announce { stream: 's' queue_depth: 3 " + fields + Play::offers({"tcp"}) + "}",
      {Play::done(31, 2)});
  play.send(1, hello_again("ocean", 0, 2), {welcome(1)});
  play.send(1, "request: 2 resume { " + stream + " }",
            {Play::refused(1, -7,
                           "stream 's' is already announced by group 'new'; choose another name "
                           "or announce it when that group has closed it",
                           2)});
}

TEST_F(Resume, ForgetsALinkThatItsConsumerCloses) {
  viewer_comes_back();
  play.send(11,
            fmt::format("request: 3 close_link {{ link: {} of_rank: true }}",
                        (std::uint64_t{3} << 32) + 5),
            {Play::done(11, 3)});
  live_until(30.5);
  play.check_silence({});
}

}  // namespace
}  // namespace tremula::server
