// SPDX-License-Identifier: Apache-2.0
// Circles of ranks that wait for each other: the server reports each circle, and mistakes nothing
// else for one.
#include "server/rendezvous/waits.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <map>
#include <random>
#include <set>

#include "play.hpp"
#include "tests/rounds.hpp"

namespace tremula::server {
namespace {

/// Groups a, b and c have two ranks each, on connections 1, 2, 11, 12, 21 and 22. Link 1 goes from a
/// to b, 2 from b to c, 3 from c to a, and 4 from b to a.
class Waiting : public testing::Test {
protected:
  Waiting() {
    for (const auto& [name, first] : {std::pair{"a", 1}, {"b", 11}, {"c", 21}})
      play.join(name, 2, static_cast<ConnectionId>(first));
    link(1, 11, 1), link(11, 21, 2), link(21, 1, 3), link(11, 1, 4);
  }
  void link(ConnectionId producer, ConnectionId consumer, int number) {
    const std::string of = fmt::format("stream: 'l{}' incarnation: {} {}{}", number, 90 + number,
                                       Play::field("u", 10, "shape=8 grid=2"), Play::offers({"t"}));
    play.receive(producer, "request: 1 announce { queue_depth: 3 " + of + " }");
    play.receive(consumer, "request: 1 subscribe { " + of + " }");
    for (const std::string is_present : {"true", "false"})
      for (const ConnectionId rank_0 : {producer, consumer})
        play.receive(rank_0, "request: 1 presence { is_present: " + is_present + " }");
  }
  /// Reports each of the waits at 0, 1, ... `seconds`.
  /// @return the messages that the server sends in that time
  Output report_for(int seconds, const std::map<ConnectionId, std::string>& waits) {
    Output all;
    for (int second = 0; second <= seconds; ++second) {
      play.at(now_ + second);
      for (const ConnectionId from : {1u, 2u, 11u, 12u, 21u, 22u}) play.record_heard(from);
      for (const auto& [from, wait] : waits)
        EXPECT_TRUE(play.receive(from, "heartbeat { " + wait + " }").messages.empty());
      for (Outgoing& out : play.check_silence().messages) all.messages.push_back(std::move(out));
    }
    now_ += seconds + 1;
    return all;
  }
  static std::string needs(int link, const std::string& group, int count,
                           const std::string& turns) {
    return fmt::format(
        "wait {{ number: 7 seconds: 5 call: 'begin_step' stream: 's{}' step: {} what: 'to send the "
        "next step' "
        "group: '{}' ranks: 0 ranks: 1 link: {} count: {} {} }}",
        link, count, group, link, count, turns);
  }
  static std::string turns(int link, int count) {
    return fmt::format("turns {{ link: {} count: {} }}", link, count);
  }
  Play play;

private:
  double now_ = 0;
};

std::set<ConnectionId> notified(const Output& output) {
  std::set<ConnectionId> all;
  for (const Outgoing& out : output.messages) {
    EXPECT_EQ(out.message.deadlock().wait(), 7u);
    all.insert(out.to);
  }
  return all;
}

TEST_F(Waiting, ThreeGroupsThatGetFirstAreNotifiedOnce) {
  std::map<ConnectionId, std::string> waits;
  for (const ConnectionId rank : {0u, 1u}) {
    waits[1 + rank] = needs(3, "c", 0, turns(1, 0) + turns(3, 0));
    waits[11 + rank] = needs(1, "a", 0, turns(2, 0) + turns(1, 0));
    waits[21 + rank] = needs(2, "b", 0, turns(3, 0) + turns(2, 0));
  }
  const Output output = report_for(8, waits);
  EXPECT_EQ(output.messages.size(), 6u);
  EXPECT_EQ(notified(output), (std::set<ConnectionId>{1, 2, 11, 12, 21, 22}));
  const std::string text = output.messages[0].message.deadlock().text();
  for (const char* part : {
           "ranks 0-1 of group 'a' wait in begin_step of stream 's3', step 0, for ranks 0-1 of "
           "group 'c' to send the next step (for 5 s)",
           "ranks 0-1 of group 'b' wait in begin_step of stream 's1', step 0, for ranks 0-1 of "
           "group 'a' to send the next step (for 5 s)",
           "ranks 0-1 of group 'c' wait in begin_step of stream 's2', step 0, for ranks 0-1 of "
           "group 'b' to send the next step (for 5 s)",
       })
    EXPECT_NE(text.find(part), std::string::npos) << part << " in: " << text;
}

TEST_F(Waiting, StepInFlightMakesNoCircle) {
  // Both wait, but a has sent what b waits for.
  EXPECT_TRUE(report_for(8, {{1, needs(4, "b", 0, turns(1, 1) + turns(4, 0))},
                             {11, needs(1, "a", 0, turns(4, 0) + turns(1, 0))}})
                  .messages.empty());
  // Now a has not sent it, but b has not reported what b has sent.
  EXPECT_TRUE(report_for(8, {{1, needs(4, "b", 0, turns(1, 0) + turns(4, 0))},
                             {11, needs(1, "a", 0, turns(1, 0))}})
                  .messages.empty());
}

TEST_F(Waiting, LaterReportOfAWaitClosesACircle) {
  // The link that b needs is opened while a already waits.
  const auto of_b = needs(1, "a", 0, turns(4, 0) + turns(1, 0));
  EXPECT_TRUE(report_for(8, {{1, needs(4, "b", 0, "")}, {11, of_b}}).messages.empty());
  EXPECT_EQ(notified(report_for(2, {{1, needs(4, "b", 0, turns(1, 0))}, {11, of_b}})),
            (std::set<ConnectionId>{1, 11}));
}

TEST_F(Waiting, ComputingRankMakesNoCircle) {
  // The first rank of b is not in a call, and a needs both ranks of b.
  const auto of_a = needs(4, "b", 0, turns(1, 0) + turns(4, 0));
  EXPECT_TRUE(report_for(8, {{1, of_a}, {2, of_a}, {11, ""}}).messages.empty());
}

TEST_F(Waiting, SuccessiveWaitsMakeNoCircle) {
  for (int turn = 0; turn < 4; ++turn) {
    const std::string number = fmt::format("wait {{ number: {} ", 20 + turn);
    auto of_a = needs(4, "b", 0, turns(1, 0) + turns(4, 0));
    of_a.replace(0, std::string("wait { number: 7 ").size(), number);
    EXPECT_TRUE(report_for(2, {{1, of_a}, {11, needs(1, "a", 0, turns(4, 0) + turns(1, 0))}})
                    .messages.empty());
  }
}

TEST_F(Waiting, OtherRanksOfAGroupInACircleAreNotified) {
  // Rank 0 of a is in the circle, and rank 1 waits for it in an agreement; c waits for a, but a
  // does not wait for c.
  const Output output = report_for(
      4, {{1, "agreement: 4 " + needs(4, "b", 0, "agreements: 4 " + turns(1, 0))},
          {2,
           "wait { number: 7 call: 'an agreement' group: 'a' is_for_all_ranks: true count: 4 "
           "agreements: 5 }"},
          {11, needs(1, "a", 0, turns(4, 0))},
          {21, needs(3, "a", 0, turns(3, 0))}});
  EXPECT_EQ(notified(output), (std::set<ConnectionId>{1, 2, 11}));
  const std::string text = output.messages[0].message.deadlock().text();
  EXPECT_EQ(text.find("agreement"), std::string::npos) << text;
}

TEST_F(Waiting, SetUpThatWaitsForARankCanBePartOfACircle) {
  // a offers 'x' to b, which waits for data from c, which waits for data from a.
  play.send(1,
            fmt::format("request: 2 announce {{ stream: 'x' incarnation: 5 {}{} }}",
                        Play::field("u", 10, "shape=8 grid=2"), Play::offers({"t"})),
            {Play::done(1, 2)});
  const auto waits = [&](int consumers) {
    return std::map<ConnectionId, std::string>{
        {1, fmt::format("wait {{ number: 7 call: 'begin_step' stream: 'x' incarnation: 5 "
                        "consumers: {} {} }}",
                        consumers, turns(3, 0))},
        {11, needs(2, "c", 1, turns(2, 1))},
        {21, needs(3, "a", 0, turns(2, 1) + turns(3, 0))}};
  };
  EXPECT_TRUE(report_for(4, waits(1)).messages.empty()) << "any consumer may come";
  play.send(11,
            fmt::format("request: 2 subscribe {{ stream: 'x' incarnation: 6 {}{} }}",
                        Play::field("u", 10, "shape=8 grid=2"), Play::offers({"t"})),
            {Play::done(11, 2)});
  report_for(0, {{1, ""}, {11, ""}, {21, ""}});
  EXPECT_TRUE(report_for(4, waits(2)).messages.empty()) << "and another consumer has to come";
  report_for(0, {{1, ""}, {11, ""}, {21, ""}});
  const Output output = report_for(4, waits(1));
  EXPECT_EQ(notified(output), (std::set<ConnectionId>{1, 11, 21}));
  const std::string text = output.messages[0].message.deadlock().text();
  EXPECT_NE(
      text.find("rank 0 of group 'a' waits in begin_step of stream 'x', step 0, for group 'b' "
                "to reach a call that opens links"),
      std::string::npos)
      << text;
}

TEST_F(Waiting, UndecidedProducerHidesNoOtherCircle) {
  // a consumes parts from b, which waits for data from a, and from c, which has yet to send its
  // choices of a provider.
  const std::string of_c = "offers { transport: 'ofi' offer: 'ofi' has_choices: true } ";
  const auto part = [](int origin) {
    return fmt::format(
        "fields {{ name: 'u' element_type: 10 layout: 'shape=4 grid=2' origin: {} "
        "whole: 8 }} ",
        origin);
  };
  const std::string announce = "request: 2 announce { stream: 'p' queue_depth: 3 incarnation: 5 ";
  play.send(11, announce + part(0) + Play::offers({"t"}) + "}", {Play::done(11, 2)});
  play.send(21, announce + part(4) + of_c + "}", {Play::done(21, 2)});
  play.send(1,
            "request: 2 subscribe { stream: 'p' incarnation: 6 " +
                Play::field("u", 10, "shape=8 grid=2") + Play::offers({"t"}) + of_c + "}",
            {Play::done(1, 2)});
  play.receive(1, "request: 3 presence { is_present: true }");
  play.receive(21, "request: 3 presence { is_present: true }");
  const std::map<ConnectionId, std::string> waits{
      {1, "wait { number: 7 call: 'begin_step' stream: 'p' incarnation: 6 " + turns(1, 0) + " }"},
      {11, needs(1, "a", 0, turns(1, 0))}};
  EXPECT_EQ(notified(report_for(8, waits)), (std::set<ConnectionId>{1, 11}));
}

std::string waits(const std::string& more) {
  return "wait { number: 7 seconds: 5 call: 'c' stream: 's' group: 'a' " + more + " }";
}
/// Returns a wait for the words of all ranks of the group in that round, in which this rank has
/// already sent its own.
std::string awaits_words(int round, int agreements, const std::string& more = "") {
  return waits(
      fmt::format("is_for_all_ranks: true words {{ subject: 5 count: {} }} said {{ "
                  "subject: 5 count: {} }} agreements: {} {}",
                  round, round + 1, agreements, more));
}
/// Returns a wait for all ranks of the group in that agreement, before which this rank has sent
/// `said` words.
std::string agrees(int agreement, int said, const std::string& more = "") {
  return waits(
      fmt::format("is_for_all_ranks: true count: {} agreements: {} said {{ subject: 5 count: {} }} "
                  "{}",
                  agreement - 1, agreement, said, more));
}
/// Returns a wait like agrees(), in a call that all ranks make between the same turns of link 3,
/// which goes from c to a.
std::string agrees_between_turns(int count, bool is_certain = true) {
  return agrees(
      9, 2,
      fmt::format("over: 3 is_between_turns: {} turns {{ link: 3 count: {} }}", is_certain, count));
}

TEST_F(Waiting, WordsAndAnAgreementAreDifferentCalls) {
  const Output output = report_for(8, {{1, awaits_words(2, 8)}, {2, agrees(9, 2)}});
  EXPECT_EQ(output.messages.size(), 2u);
  EXPECT_EQ(notified(output), (std::set<ConnectionId>{1, 2}));
  const wire::Deadlock& notice = output.messages[0].message.deadlock();
  EXPECT_TRUE(notice.is_of_one_group());
  for (const char* part : {"rank 0 of group 'a' waits in c of stream 's', step 0, for rank 1 of",
                           "rank 1 of group 'a' waits in c of stream 's', step 0, for rank 0 of"})
    EXPECT_NE(notice.text().find(part), std::string::npos) << notice.text();
}

// The other ranks do not know of the loss, and may be in earlier calls.
TEST_F(Waiting, WordsAfterALossAreADeadlock) {
  const Output output =
      report_for(8, {{1, awaits_words(2, 8, "is_after_loss: true")}, {2, agrees(9, 2)}});
  EXPECT_EQ(notified(output), (std::set<ConnectionId>{1, 2}));
  for (const Outgoing& out : output.messages)
    EXPECT_FALSE(out.message.deadlock().is_of_one_group());
}

TEST_F(Waiting, WordsThatWereSaidMakeNoCircle) {
  EXPECT_TRUE(report_for(8, {{1, awaits_words(2, 8)}, {2, agrees(9, 3)}}).messages.empty());
  EXPECT_TRUE(report_for(8, {{1, awaits_words(2, 9)}, {2, agrees(9, 2)}}).messages.empty())
      << "rank 0 has reached the agreement before";
}

TEST_F(Waiting, StepAfterAnAwaitedCallIsADifferentCall) {
  const auto waits_for_step = [](int count) {
    return needs(3, "c", count, "agreements: 8 " + turns(3, count));
  };
  EXPECT_TRUE(
      report_for(8, {{1, waits_for_step(3)}, {2, agrees_between_turns(4)}}).messages.empty())
      << "rank 0 waits for the step before the call";
  EXPECT_TRUE(
      report_for(8, {{1, waits_for_step(4)}, {2, agrees_between_turns(4, false)}}).messages.empty())
      << "the other rank has also waited for the step";
  const auto past = needs(3, "c", 4, "agreements: 9 " + turns(3, 4));
  EXPECT_TRUE(report_for(8, {{1, past}, {2, agrees_between_turns(4)}}).messages.empty())
      << "rank 0 has reached the call before";
  for (const int count : {4, 5}) {
    report_for(0, {{1, ""}, {2, ""}});
    const Output output = report_for(4, {{1, waits_for_step(count)}, {2, agrees_between_turns(4)}});
    EXPECT_EQ(notified(output), (std::set<ConnectionId>{1, 2})) << count;
    ASSERT_FALSE(output.messages.empty());
    const wire::Deadlock& notice = output.messages[0].message.deadlock();
    EXPECT_TRUE(notice.is_of_one_group());
    EXPECT_NE(notice.text().find(fmt::format("rank 0 of group 'a' waits in begin_step of stream "
                                             "'s3', step {}, for ranks 0-1 of group 'c' to",
                                             count)),
              std::string::npos)
        << notice.text();
  }
}

// Rank 0 of a waits for c, which waits for rank 1 of a.
TEST_F(Waiting, DifferentCallsAreReportedOnlyToTheirGroup) {
  for (const bool is_certain : {true, false}) {
    const Output output = report_for(4, {{1, needs(3, "c", 4, "agreements: 8 " + turns(3, 4))},
                                         {2, agrees_between_turns(4, is_certain)},
                                         {21, needs(3, "a", 4, turns(3, 4))}});
    EXPECT_EQ(notified(output),
              is_certain ? (std::set<ConnectionId>{1, 2}) : (std::set<ConnectionId>{1, 2, 21}));
    for (const Outgoing& out : output.messages)
      EXPECT_EQ(out.message.deadlock().is_of_one_group(), is_certain);
    report_for(0, {{1, ""}, {2, ""}, {21, ""}});
  }
}

// The rank in the call is notified that the link has ended, and leaves the call.
TEST_F(Waiting, EndedLinkMakesNoCircle) {
  const std::map<ConnectionId, std::string> waits{{1, awaits_words(2, 8)},
                                                  {2, agrees_between_turns(4)}};
  EXPECT_EQ(notified(report_for(4, waits)), (std::set<ConnectionId>{1, 2}));
  report_for(0, {{1, ""}, {2, ""}});
  play.receive(1, "request: 3 close_link { link: 3 gave_up: true why: 'cut' }");
  EXPECT_TRUE(report_for(8, waits).messages.empty());
}

// A claimed wait counts only if the link that it names connects the rank's group with the other
// group.
TEST_F(Waiting, ImpossibleClaimMakesNoCircle) {
  const std::string of_a = needs(3, "c", 0, turns(1, 0) + turns(3, 0));
  for (const std::string& of_b :
       {needs(0, "a", 1000000, turns(1, 0)), needs(2, "a", 0, turns(1, 0)),
        needs(99, "a", 0, turns(1, 0)), needs(1, "c", 0, "")})
    EXPECT_TRUE(report_for(8, {{1, of_a}, {11, of_b}, {21, needs(2, "b", 0, turns(3, 0))}})
                    .messages.empty())
        << of_b;
}

// The number of waits that become old in succession does not matter. Here the waits of rank 1 become
// old half a heartbeat after those of rank 0.
TEST_F(Waiting, CirclesAreSoughtOncePerHeartbeat) {
  std::map<double, std::set<ConnectionId>> notified_at;
  for (double now = 0; now < 5; now += 0.125) {
    play.at(now);
    for (const ConnectionId from : {1u, 2u, 11u, 12u, 21u, 22u}) play.record_heard(from);
    for (const ConnectionId rank : {0u, 1u}) {
      if (std::fmod(now, 1) != 0.5 * static_cast<double>(rank)) continue;
      play.receive(1 + rank, "heartbeat { " + needs(4, "b", 0, turns(1, 0) + turns(4, 0)) + " }");
      play.receive(11 + rank, "heartbeat { " + needs(1, "a", 0, turns(4, 0) + turns(1, 0)) + " }");
    }
    if (const auto to = notified(play.check_silence()); !to.empty()) notified_at[now] = to;
  }
  // All waits of the circle are old at 3.5 s; the server last looked at 3 s, when only some were.
  EXPECT_EQ(notified_at, (std::map<double, std::set<ConnectionId>>{{4, {1, 2, 11, 12}}}));
}

TEST_F(Waiting, StatusListsWaitsInPages) {
  report_for(3, {{2, needs(4, "b", 4, turns(1, 0))}, {21, needs(3, "a", 0, "")}});
  wire::StatusRequest request;
  request.set_waits(true);
  const wire::ToClient page = play.page(request);
  ASSERT_EQ(page.status().waits_size(), 2);
  EXPECT_FALSE(page.has_next_status());
  const wire::WaitStatus& first = page.status().waits(0);
  EXPECT_EQ(first.group(), "a");
  EXPECT_EQ(first.rank(), 1);
  EXPECT_EQ(first.pid(), 101);
  EXPECT_EQ(first.wait().stream(), "s4");
  EXPECT_EQ(first.wait().turns_size(), 0);
  EXPECT_EQ(page.status().waits(1).group(), "c");
  report_for(0, {{2, ""}});
  EXPECT_EQ(play.page(request).status().waits_size(), 1);
}

// Programs of puts and gets, run step by step without any of Tremula's code: ranks advance at any
// pace, their messages take any time, and each rank reports its wait from time to time. A reported
// circle must never advance, and every program that hangs must be reported as a circle.

struct Action {
  bool is_put;
  std::size_t link;
};
constexpr std::size_t groups = 3, ranks = 2, links = 4;
struct Rank {
  std::size_t at = 0;  // position in the program
  std::array<std::uint64_t, links> done{};
  std::array<std::array<std::uint64_t, ranks>, links> seen{};  // latest `done` of the other side
};

class Model {
public:
  explicit Model(std::mt19937_64& random) : random_(random) {
    for (std::size_t link = 0; link < links; ++link) {
      producer_[link] = random_() % groups;
      consumer_[link] = (producer_[link] + 1 + random_() % (groups - 1)) % groups;
      depth_[link] = 1 + random_() % 2;
      for (const bool is_put : {true, false})
        program_[is_put ? producer_[link] : consumer_[link]].insert(
            program_[is_put ? producer_[link] : consumer_[link]].end(), 3, Action{is_put, link});
    }
    for (auto& program : program_) std::shuffle(program.begin(), program.end(), random_);
    for (std::size_t group = 0; group < groups; ++group)
      for (std::size_t rank = 0; rank < ranks; ++rank)
        groups_.join(connection(group, rank),
                     Play::parsed(Play::hello(name(group), static_cast<int>(rank), ranks)).hello(),
                     0);
  }
  static std::string name(std::size_t group) {
    return std::string(1, static_cast<char>('a' + group));
  }
  static ConnectionId connection(std::size_t group, std::size_t rank) {
    return 1 + group * ranks + rank;
  }

  bool is_over(std::size_t g, std::size_t r) const { return rank_[g][r].at == program_[g].size(); }
  /// Returns the ranks on the other side that the rank still waits for, judging by what it has seen.
  std::vector<std::size_t> needed(std::size_t g, std::size_t r) const {
    const Rank& rank = rank_[g][r];
    const Action& action = program_[g][rank.at];
    std::vector<std::size_t> others;
    for (std::size_t other = 0; other < ranks; ++other) {
      const std::uint64_t seen = rank.seen[action.link][other], done = rank.done[action.link];
      if (action.is_put ? done >= seen + depth_[action.link] : seen <= done)
        others.push_back(other);
    }
    return others;
  }
  bool advance(std::size_t g, std::size_t r) {
    if (is_over(g, r) || !needed(g, r).empty()) return false;
    Rank& rank = rank_[g][r];
    ++rank.done[program_[g][rank.at++].link];
    return true;
  }
  /// Delivers one action of a rank to a rank on the other side.  @return false if none is pending
  bool deliver(std::size_t link, std::size_t from, std::size_t to, bool forth) {
    const std::size_t sender = forth ? producer_[link] : consumer_[link],
                      receiver = forth ? consumer_[link] : producer_[link];
    std::uint64_t& seen = rank_[receiver][to].seen[link][from];
    if (seen == rank_[sender][from].done[link]) return false;
    ++seen;
    return true;
  }
  void report(std::size_t g, std::size_t r) {
    const auto seat = groups_.seat(connection(g, r));
    auto& wait = seat->group->members.at(seat->rank).wait;
    reported_at_[g][r] = rank_[g][r].at;
    wait.reset();
    if (is_over(g, r) || needed(g, r).empty()) return;
    wait = std::make_shared<RankWait>();
    wait->is_old = true;
    const Action& action = program_[g][rank_[g][r].at];
    wait->reported.set_call("begin_step");
    wait->reported.set_group(name(action.is_put ? consumer_[action.link] : producer_[action.link]));
    wait->reported.set_link(action.link + 1);
    const std::uint64_t done = rank_[g][r].done[action.link];
    wait->reported.set_count(action.is_put ? done - depth_[action.link] : done);
    for (const std::size_t other : needed(g, r)) wait->reported.add_ranks(static_cast<int>(other));
    for (std::size_t link = 0; link < links; ++link) {
      wire::Turns& turns = *wait->reported.add_turns();
      turns.set_link(link + 1);
      turns.set_count(rank_[g][r].done[link]);
    }
  }
  /// Searches for circles. Their ranks must not have continued since they reported their waits, and
  /// must not continue later.
  bool look() {
    const auto circles = find_circles(
        groups_, [](const Group&, const wire::Wait&) { return Awaited{}; },
        [](const Group&, const wire::Wait&) { return true; }, 0);
    for (const WaitCircle& circle : circles)
      for (const Waiter& waiter : circle.waiters) {
        const auto g = static_cast<std::size_t>(waiter.group->name[0] - 'a');
        const auto r = core::at(waiter.rank);
        EXPECT_EQ(rank_[g][r].at, reported_at_[g][r]) << circle.texts.at(0);
        stuck_.insert({g, r});
      }
    return !circles.empty();
  }
  /// @return whether all programs have ended
  bool run() {
    for (int idle = 0; idle < 400; ++idle) {
      const std::size_t g = random_() % groups, r = random_() % ranks;
      switch (random_() % 8) {
        case 0:
          report(g, r);
          look();
          break;
        case 1:
        case 2:
          if (!advance(g, r)) break;
          EXPECT_FALSE(stuck_.contains({g, r}));
          idle = 0;
          break;
        default:
          if (deliver(random_() % links, random_() % ranks, r, random_() % 2 == 0)) idle = 0;
      }
    }
    for (bool has_moved = true; has_moved;) {
      has_moved = false;
      for (std::size_t g = 0; g < groups; ++g)
        for (std::size_t r = 0; r < ranks; ++r) has_moved = advance(g, r) || has_moved;
      for (std::size_t link = 0; link < links; ++link)
        for (std::size_t pair = 0; pair < 2 * ranks * ranks; ++pair)
          has_moved =
              deliver(link, pair % ranks, pair / ranks % ranks, pair < ranks * ranks) || has_moved;
    }
    bool is_all = true;
    for (std::size_t g = 0; g < groups; ++g)
      for (std::size_t r = 0; r < ranks; ++r) {
        report(g, r);
        is_all = is_over(g, r) && is_all;
      }
    EXPECT_EQ(look(), !is_all);
    return is_all;
  }

private:
  std::mt19937_64& random_;
  std::array<std::size_t, links> producer_{}, consumer_{};
  std::array<std::uint64_t, links> depth_{};
  std::array<std::vector<Action>, groups> program_;
  std::array<std::array<Rank, ranks>, groups> rank_{};
  std::array<std::array<std::size_t, ranks>, groups> reported_at_{};
  std::set<std::pair<std::size_t, std::size_t>> stuck_;
  Groups groups_;
};

TEST(Waits, AreACircleExactlyIfProgramsHang) {
  const char* given = std::getenv("TREMULA_TEST_SEED");
  const std::uint64_t seed =
      given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  SCOPED_TRACE(fmt::format("replay with TREMULA_TEST_SEED={}", seed));
  std::mt19937_64 random(seed);
  int ending = 0, hanging = 0;
  for (int turn = 0; turn < testing_only::rounds(3000) && !testing::Test::HasFailure(); ++turn)
    ++(Model(random).run() ? ending : hanging);
  EXPECT_GT(ending, 20);
  EXPECT_GT(hanging, 20);
}

}  // namespace
}  // namespace tremula::server
