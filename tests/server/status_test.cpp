// SPDX-License-Identifier: Apache-2.0
// Tests the answer to `tremula status`, including the counters that heartbeats report.
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "play.hpp"

namespace tremula::server {
namespace {

std::string difference(const wire::Status& found, const std::string& expected) {
  wire::Status wanted;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(expected, &wanted)) << expected;
  std::string text;
  google::protobuf::util::MessageDifferencer differencer;
  differencer.ReportDifferencesToString(&text);
  return differencer.Compare(wanted, found) ? "" : text;
}

const std::string announced = Play::field("u", 10, "shape=8 grid=2");
const std::string wanted = Play::field("u", 10, "shape=8 grid=1");
const std::string why = "the producer's first of tcp that the consumer also has (it has tcp)";

class Status : public testing::Test {
protected:
  Status() {
    play.join("ocean", 2, 1);
    play.at(2);
    play.join("viewer", 1, 11);
    play.be_present(1);
    play.be_present(11);
    play.send(1,
              "request: 2 announce { stream: 's' queue_depth: 3 " + announced +
                  Play::offers({"tcp"}) + "}",
              {Play::done(1, 2)});
    play.send(11, "request: 2 subscribe { stream: 's' " + wanted + Play::offers({"tcp"}) + "}",
              {Play::done(11, 2),
               "11: matched { link: 1 stream: 's' peer_group: 'ocean' peer_size: 2 "
               "offer: 'tcp' queue_depth: 3 why: \"" +
                   why + "\" " + announced + "}",
               "1: matched { link: 1 stream: 's' peer_group: 'viewer' peer_size: 1 offer: 'tcp' "
               "queue_depth: 3 why: \"" +
                   why + "\" " + wanted + "}"});
  }
  Play play;
};

TEST(EmptyStatus, IsReturnedToAnyConnection) {
  Play play;
  play.at(1.5);
  play.send(99, "request: 4 status {}",
            {"99: request: 4 status { version: '0.1' listens_on: 'here:1' uptime_seconds: 1.5 }"});
}

TEST_F(Status, ShowsGroupsStreamsLayoutsAndCounters) {
  play.at(5);
  play.send(1,
            "heartbeat { counters { stream: 's' steps: 7 packages: 7 bytes: 100 wait_seconds: 1 "
            "plan_seconds: 0.5 waits_for: "
            "'viewer' } }",
            {});
  play.send(2,
            "heartbeat { counters { stream: 's' steps: 6 packages: 6 bytes: 50 wait_seconds: 2 "
            "plan_seconds: 0.25 } }",
            {});
  play.send(11,
            "heartbeat { counters { stream: 's' link: 1 steps: 5 packages: 10 bytes: 130 "
            "waits_for: 'ocean' } }",
            {});
  EXPECT_EQ(
      difference(
          play.status(),
          "version: '0.1' listens_on: 'here:1' uptime_seconds: 5 "
          "groups { name: 'ocean' size: 2 connected: 2 host: 'node' pid: 100 age_seconds: 5 } "
          "groups { name: 'viewer' size: 1 connected: 1 host: 'node' pid: 100 age_seconds: 3 } "
          "streams { name: 's' producer: 'ocean' queue_depth: 3 " +
              announced +
              "produced { steps: 6 packages: 13 bytes: 150 wait_seconds: 2 plan_seconds: 0.5 "
              "reported_seconds: 5 waits_for: '1 of 2 ranks "
              "wait for viewer' } "
              "consumers { link: 1 consumer: 'viewer' offer: 'tcp' why: \"" +
              why + "\" " + wanted +
              "consumed { steps: 5 packages: 10 bytes: 130 reported_seconds: 5 waits_for: '1 of 1 "
              "rank "
              "waits for ocean' } credit: 8 queue_depth: 3 } }"),
      "");
}

TEST_F(Status, ShowsTheMostThatAnyRankHasDroppedAndQueued) {
  play.send(1, "heartbeat { counters { stream: 's' dropped: 4 queued_steps: 2 queued_bytes: 7 } }",
            {});
  play.send(2, "heartbeat { counters { stream: 's' dropped: 5 queued_steps: 3 queued_bytes: 9 } }",
            {});
  play.send(11, "heartbeat { counters { stream: 's' link: 1 dropped: 3 } }", {});
  const wire::StreamStatus stream = play.status().streams(0);
  EXPECT_EQ(stream.produced().dropped(), 5u);
  EXPECT_EQ(stream.produced().queued_steps(), 3u);
  EXPECT_EQ(stream.produced().queued_bytes(), 16u);
  EXPECT_EQ(stream.consumers(0).consumed().dropped(), 3u);
}

TEST_F(Status, NamesTheConsumerThatHeldUpItsProducer) {
  const auto report = [this](ConnectionId rank, int steps, double seconds) {
    play.send(rank,
              fmt::format("heartbeat {{ counters {{ stream: 's' lags {{ link: 1 steps: {} "
                          "waited_seconds: {} }} lags {{ link: 99 steps: 9 }} }} }}",
                          steps, seconds),
              {});
  };
  report(1, 2, 0);
  EXPECT_EQ(play.status().streams(0).slowest(), "")
      << "viewer is the only consumer, and has not held up the producer";
  report(2, 3, 0.5);
  report(1, 2, 0.25);
  const wire::StreamStatus stream = play.status().streams(0);
  EXPECT_EQ(stream.slowest(), "viewer");
  EXPECT_EQ(stream.consumers(0).max_lag(), 3u);
  EXPECT_EQ(stream.consumers(0).held_up_seconds(), 0.5);
}

TEST_F(Status, ShowsEveryRankIfAskedTo) {
  play.send(1, "heartbeat { counters { stream: 's' steps: 7 bytes: 100 copied_bytes: 60 } }", {});
  play.send(2, "heartbeat { counters { stream: 's' steps: 6 waits_for: 'viewer' } }", {});
  play.send(11, "heartbeat { counters { stream: 's' link: 1 steps: 5 bytes: 130 } }", {});
  EXPECT_EQ(play.status().streams(0).produced().ranks_size(), 0);
  EXPECT_EQ(play.status().streams(0).produced().ranks_left_out(), 0);
  const wire::StreamStatus stream = play.status(true).streams(0);
  ASSERT_EQ(stream.produced().ranks_size(), 2);
  EXPECT_EQ(stream.produced().ranks(0).ShortDebugString(), "steps: 7 bytes: 100 copied_bytes: 60");
  EXPECT_EQ(stream.produced().ranks(1).ShortDebugString(),
            "rank: 1 steps: 6 waits_for: \"viewer\"");
  ASSERT_EQ(stream.consumers(0).consumed().ranks_size(), 1);
  EXPECT_EQ(stream.consumers(0).consumed().ranks(0).ShortDebugString(), "steps: 5 bytes: 130");
}

TEST_F(Status, FitsInAMessageForAnyNumberOfRanks) {
  Play large;
  large.join("many", 40'000, 1);
  large.send(1,
             "request: 2 announce { stream: 's' queue_depth: 3 " +
                 Play::field("u", 10, "shape=40000 grid=40000") + Play::offers({"tcp"}) + "}",
             {Play::done(1, 2)});
  for (ConnectionId rank = 1; rank <= 40'000; ++rank)
    large.send(rank,
               "heartbeat { counters { stream: 's' steps: 7 bytes: 10 waits_for: '" +
                   std::string(255, 'x') + "' } }",
               {});
  const wire::Status status = large.status(true);
  EXPECT_LT(status.ByteSizeLong(), proto::max_ranks_bytes + 1000);
  EXPECT_GT(status.ByteSizeLong(), proto::max_ranks_bytes - 1000000);
  const wire::StepStatus& produced = status.streams(0).produced();
  EXPECT_GT(produced.ranks_left_out(), 0);
  EXPECT_EQ(produced.ranks_left_out() + produced.ranks_size(), 40'000);
}

TEST_F(Status, IgnoresCountersOfOthers) {
  for (const char* counters : {"stream: 's' steps: 1", "stream: 'nothing' steps: 1",
                               "stream: 's' link: 2 steps: 1", "stream: 's' link: 99 steps: 1"})
    play.send(11, std::string("heartbeat { counters { ") + counters + " } }", {});
  play.send(1, "heartbeat { counters { stream: 's' link: 1 steps: 1 } }", {});
  EXPECT_EQ(play.status().streams(0).produced().steps(), 0u);
  EXPECT_EQ(play.status().streams(0).consumers(0).consumed().steps(), 0u);
}

TEST_F(Status, ShowsConsumersOfAnUnofferedStream) {
  play.join("third", 1, 21);
  for (const ConnectionId from : {11u, 21u})
    play.send(from,
              "request: 5 subscribe { stream: 'missing' " + wanted + Play::offers({"tcp"}) + "}",
              {Play::done(from, 5)});
  const wire::Status status = play.status();
  ASSERT_EQ(status.streams_size(), 2);
  EXPECT_EQ(status.streams(1).ShortDebugString(),
            "name: \"missing\" waiting_consumers: \"viewer\" waiting_consumers: \"third\"");
}

TEST_F(Status, CountsThePresentRanks) {
  play.join("a pair", 2, 41);  // has no streams, so its ranks may leave one by one
  play.send(41, "request: 3 goodbye {}", {Play::done(41, 3)});
  EXPECT_EQ(play.status().groups(0).name(), "a pair");
  EXPECT_EQ(play.status().groups(0).connected(), 1);
  EXPECT_EQ(play.status().groups(0).size(), 2);
}

TEST(StatusPages, ShowEverythingOnce) {
  constexpr int groups = 40, streams = 10, consumers = 30;
  Play play(0, {.page_bytes = 10'000});
  const std::string long_name(240, 'n');
  const auto name = [&](const char* kind, int i) {
    return fmt::format("{}{:04}{}", kind, i, long_name);
  };
  const std::string fields = Play::field("u", 10, "shape=8 grid=1") + Play::offers({"tcp"});
  std::set<std::string> all_groups, all_links, all_waiting;
  for (int i = 0; i < groups; ++i) {
    play.join(name("g", i), 1, 1 + static_cast<ConnectionId>(i));
    all_groups.insert(name("g", i));
  }
  play.receive(1, "request: 9 presence { is_present: true }");
  for (int s = 0; s < streams; ++s)
    play.receive(1, fmt::format("request: 2 announce {{ stream: '{}' incarnation: 1 {} }}",
                                name("s", s), fields));
  for (int c = 1; c <= consumers; ++c) {
    const auto from = 1 + static_cast<ConnectionId>(c);
    play.receive(from, "request: 9 presence { is_present: true }");
    for (int s = 0; s <= streams; ++s) {  // no group offers the last stream
      play.receive(from, fmt::format("request: 2 subscribe {{ stream: '{}' incarnation: {} {} }}",
                                     name("s", s), s + 1, fields));
      (s < streams ? all_links : all_waiting).insert(name("s", s) + name("g", c));
    }
  }
  std::set<std::string> shown_groups, shown_links, shown_waiting;
  int pages = 0, items = 0;
  wire::StatusRequest request;
  while (true) {
    const wire::ToClient page = play.page(request);
    ++pages;
    EXPECT_LT(page.ByteSizeLong(), 20'000u);
    for (const auto& group : page.status().groups()) ++items, shown_groups.insert(group.name());
    for (const auto& stream : page.status().streams()) {
      for (const auto& link : stream.consumers())
        ++items, shown_links.insert(stream.name() + link.consumer());
      for (const auto& consumer : stream.waiting_consumers())
        ++items, shown_waiting.insert(stream.name() + consumer);
    }
    if (!page.has_next_status()) break;
    *request.mutable_from() = page.next_status();
  }
  EXPECT_GT(pages, 10);
  EXPECT_EQ(shown_groups, all_groups);
  EXPECT_EQ(shown_links, all_links);
  EXPECT_EQ(shown_waiting, all_waiting);
  EXPECT_EQ(items, groups + streams * consumers + consumers);
}

/// Returns a layout whose text has nearly as many bytes as a text may have.
std::string large_layout() {
  std::string bounds = "0", owners = "0";
  for (int i = 1; i <= 80'000; ++i) bounds += fmt::format("/{}", 2 * i);
  for (int i = 1; i < 80'000; ++i) owners += "/0";
  return fmt::format("shape=160000 grid=1 splits0={} owners0={}", bounds, owners);
}
/// Returns the fields of a declaration, and its offers.
std::string large_fields(int count) {
  const std::string layout = large_layout();
  EXPECT_LT(layout.size(), proto::max_layout_bytes);
  std::string fields = Play::offers({"tcp"});
  for (int i = 0; i < count; ++i) fields += Play::field(fmt::format("u{}", i), 10, layout);
  return fields;
}
int how_many_fit() {
  return static_cast<int>(proto::max_shown_fields_bytes / (large_layout().size() + 30));
}

TEST(StatusPages, ShowAsManyFieldsAsAFrameHolds) {
  Play play;
  play.join("g", 1, 1);
  const auto announce = [&](const std::string& stream, int count) {
    play.receive(1, fmt::format("request: 2 announce {{ stream: '{}' incarnation: 1 {} }}", stream,
                                large_fields(count)));
  };
  const int fit = how_many_fit();
  announce("a", fit + 2);
  announce("b", fit);
  wire::StatusRequest request;
  wire::ToClient page = play.page(request);
  ASSERT_EQ(page.status().streams_size(), 1);
  EXPECT_EQ(page.status().streams(0).fields_size(), fit);
  EXPECT_EQ(page.status().streams(0).fields_left_out(), 2);
  *request.mutable_from() = page.next_status();
  page = play.page(request);
  EXPECT_FALSE(page.has_next_status());
  ASSERT_EQ(page.status().streams_size(), 1);
  EXPECT_EQ(page.status().streams(0).fields_size(), fit);
  EXPECT_EQ(page.status().streams(0).fields_left_out(), 0);
}

TEST(StatusPages, ShowALinkWhoseFieldsFillAPage) {
  Play play;
  const int fit = how_many_fit();
  for (const ConnectionId from : {ConnectionId{1}, ConnectionId{2}}) {
    play.join(fmt::format("g{}", from), 1, from);
    play.receive(from, "request: 9 presence { is_present: true }");
    play.receive(from, fmt::format("request: 2 {} {{ stream: 's' incarnation: 1 {} }}",
                                   from == 1 ? "announce" : "subscribe", large_fields(fit)));
  }
  wire::StatusRequest request;
  int of_stream = 0, of_link = 0;
  for (int pages = 1;; ++pages) {
    ASSERT_LE(pages, 3);
    const wire::ToClient page = play.page(request);
    for (const auto& stream : page.status().streams()) {
      of_stream += stream.fields_size();
      for (const auto& link : stream.consumers()) of_link += link.fields_size();
    }
    if (!page.has_next_status()) break;
    *request.mutable_from() = page.next_status();
  }
  EXPECT_EQ(of_stream, fit);
  EXPECT_EQ(of_link, fit);
}

}  // namespace
}  // namespace tremula::server
