// SPDX-License-Identifier: Apache-2.0
#include "cli/status_text.hpp"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "proto/attributes.hpp"

namespace tremula::cli {
namespace {

wire::Status status(const std::string& text) {
  wire::Status out;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &out)) << text;
  return out;
}

TEST(StatusText, SaysThatTheServerIsEmpty) {
  EXPECT_EQ(
      status_text(status("version: '0.1.0' listens_on: '127.0.0.1:7423' uptime_seconds: 130")),
      "server 127.0.0.1:7423, Tremula 0.1.0, up 2 min 10 s\n"
      "\n"
      "no groups\n"
      "\n"
      "no streams\n");
}

std::string encoded(const std::string& name, const proto::AttributeValues& values) {
  proto::Attributes attributes;
  attributes.set(name, values);
  const auto bytes = proto::encode(attributes);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(StatusText, ShowsTimesAndAttributes) {
  using Texts = std::vector<std::string>;
  auto shown = status(
      "streams { name: 's' producer: 'model' produced { time: 7200 } fields { name: 'sst' "
      "element_type: 10 layout: 'shape=8 grid=2' } consumers { consumer: 'viewer' consumed { "
      "time: -3600 } } consumers { consumer: 'late' consumed {} } }");
  wire::StreamStatus& stream = *shown.mutable_streams(0);
  stream.set_attributes(encoded("time_unit", Texts{"s"}));
  stream.mutable_fields(0)->set_attributes(encoded("valid_range", std::vector<double>{0, 40.5}));
  const std::string text = status_text(shown);
  EXPECT_NE(text.find("\n  time: model at 7200 s, viewer at -3600 s\n"), text.npos) << text;
  EXPECT_NE(text.find("\n  attribute    of      value\n"
                      "  time_unit    stream  \"s\"\n"
                      "  valid_range  sst     [0.0, 40.5]\n"),
            text.npos)
      << text;
  stream.set_attributes(
      encoded("time_unit", Texts{std::string(98, 'x').append("\u00fc and more")}));
  EXPECT_NE(status_text(shown).find("x?...\n"), text.npos) << "cut inside a character";
}

TEST(StatusText, ShowsEverything) {
  EXPECT_EQ(
      status_text(status(
          "version: '0.1.0' listens_on: 'h:1' uptime_seconds: 65 "
          "groups { name: 'ocean' size: 4 connected: 4 host: 'nid01' pid: 1234 age_seconds: 60 } "
          "groups { name: 'a long name' size: 3 connected: 2 host: 'n' pid: 5 age_seconds: 4 } "
          "streams { name: 'surface' producer: 'ocean' queue_depth: 2 "
          "  fields { name: 'sst' element_type: 10 layout: 'shape=8x6 grid=2x2' } "
          "  produced { steps: 120 packages: 1440 bytes: 1234567890 wait_seconds: 1.5 "
          "plan_seconds: 0.002 copy_seconds: 2.5 wire_seconds: 0.5 copied_bytes: 2470000000 "
          "             waits_for: '3 of 4 ranks wait for viewer' } "
          "  consumers { link: 7 consumer: 'viewer' offer: 'ofi:tcp;ofi_rxm@5f0c.4026' why: "
          "'because' "
          "credit: 120 "
          "    fields { name: 'sst' element_type: 10 layout: 'shape=8x6 grid=3x1' } "
          "    consumed { steps: 118 packages: 1416 bytes: 1200000000 } } } "
          "streams { name: 'lonely' producer: 'ocean' queue_depth: 1 produced {} } "
          "streams { name: 'old' producer: 'ocean' closed: true queue_depth: 1 } "
          "streams { name: 'missing' waiting_consumers: 'viewer' waiting_consumers: 'other' }")),
      "server h:1, Tremula 0.1.0, up 1 min 5 s\n"
      "\n"
      "  group        ranks   host   pid   since\n"
      "  ocean        4 of 4  nid01  1234  1 min 0 s\n"
      "  a long name  2 of 3  n      5     4.0 s\n"
      "\n"
      "stream surface\n"
      "  group   as        credit  step  moved    packages  plan     waited   copying  wire     "
      "copied\n"
      "  ocean   producer          120   1.23 GB  1440      0.002 s  1.5 s    2.5 s    0.500 s  "
      "2.47 GB\n"
      "  viewer  consumer  120     118   1.20 GB  1416      0.000 s  0.000 s  0.000 s  0.000 s  0 "
      "B\n"
      "  queue depth 2\n"
      "  field  in      type  layout\n"
      "  sst    ocean   f64   shape=8x6 grid=2x2\n"
      "  sst    viewer  f64   shape=8x6 grid=3x1\n"
      "  link 7 to viewer by ofi:tcp;ofi_rxm: because\n"
      "  in ocean 3 of 4 ranks wait for viewer\n"
      "\n"
      "stream lonely\n"
      "  group  as        credit  step  moved  packages  plan     waited   copying  wire     "
      "copied\n"
      "  ocean  producer          0     0 B    0         0.000 s  0.000 s  0.000 s  0.000 s  0 B\n"
      "  queue depth 1\n"
      "  no group consumes it\n"
      "\n"
      "stream old (closed by its producer)\n"
      "  group  as        credit  step  moved  packages  plan     waited   copying  wire     "
      "copied\n"
      "  ocean  producer          0     0 B    0         0.000 s  0.000 s  0.000 s  0.000 s  0 B\n"
      "  queue depth 1\n"
      "\n"
      "stream missing\n"
      "  not offered by any group; awaited by viewer, other\n");
}

TEST(StatusText, ShowsTheBoxOfAPart) {
  const std::string text = status_text(
      status("streams { name: 's' producer: 'ocean' keep_steps: 4 "
             "  fields { name: 'u' element_type: 10 layout: 'shape=4x6 grid=2x1' origin: 0 "
             "    origin: 3 whole: 8 whole: 9 } "
             "  consumers { consumer: 'viewer' "
             "    fields { name: 'u' element_type: 10 layout: 'shape=2x2 grid=1x1' origin: 1 "
             "      origin: 5 } } }"));
  EXPECT_NE(
      text.find("  field  in      type  layout\n"
                "  u      ocean   f64   shape=4x6 grid=2x1, from (0, 3) of 8x9\n"
                "  u      viewer  f64   shape=2x2 grid=1x1, from (1, 5) of the producer's array\n"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("\n  keeps the newest 4 steps\n"), std::string::npos) << text;
}

TEST(StatusText, ShowsDroppedStepsAndTheLongestQueue) {
  const std::string text = status_text(
      status("streams { name: 's' producer: 'ocean' queue_depth: 4 queue_bytes: 5000 "
             "  produced { steps: 9 dropped: 6 queued_steps: 3 queued_bytes: 4500 } "
             "  consumers { consumer: 'viewer' queue_depth: 3 when_full: WHEN_FULL_DROP_NEWEST "
             "    consumed { steps: 3 dropped: 4 } } "
             "  consumers { consumer: 'last' queue_depth: 2 when_full: WHEN_FULL_DROP_OLDEST "
             "    consumed { steps: 7 dropped: 2 } } "
             "  consumers { consumer: 'all' queue_depth: 4 consumed { steps: 9 } } }"));
  EXPECT_NE(
      text.find("  queue depth 4 in at most 5.00 kB, at most 3 steps (4.50 kB) were in transit to "
                "one consumer\n"
                "  drop_newest, queue depth 3 for viewer: 4 dropped\n"
                "  drop_oldest, queue depth 2 for last: 2 dropped\n"),
      std::string::npos)
      << text;
  EXPECT_EQ(text.find("for all"), std::string::npos) << text;
}

TEST(StatusText, ShowsTheEpochOfARestartedProducer) {
  const std::string text = status_text(status(
      "streams { name: 'first' producer: 'a' } streams { name: 'third' producer: 'a' epoch: 2 }"));
  EXPECT_NE(text.find("\nstream first\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\nstream third, epoch 2\n"), std::string::npos) << text;
}

TEST(StatusText, ShowsWhichConsumersACopyServes) {
  const std::string text = status_text(
      status("streams { name: 's' producer: 'a' consumers { link: 1 consumer: 'b' offer: 'tcp' } } "
             "streams { name: 's' producer: 'b' is_copy: true "
             "consumers { link: 2 consumer: 'c' offer: 'tcp' } }"));
  EXPECT_NE(text.find("\nstream s\n"), std::string::npos) << text;
  const auto copy = text.find("\nstream s, as b serves it\n");
  ASSERT_NE(copy, std::string::npos) << text;
  EXPECT_NE(text.find("  b      serves", copy), std::string::npos) << text;
  EXPECT_NE(text.find("  c      consumer", copy), std::string::npos) << text;
}

TEST(StatusText, NamesTheSlowestConsumer) {
  const std::string text =
      status_text(status("streams { name: 's' producer: 'ocean' queue_depth: 4 slowest: 'viewer' "
                         "  consumers { consumer: 'viewer' max_lag: 4 held_up_seconds: 2.5 } "
                         "  consumers { consumer: 'quick' max_lag: 1 } "
                         "  consumers { consumer: 'idle' } }"));
  EXPECT_NE(
      text.find("  queue depth 4\n"
                "  viewer was at most 4 steps behind; the producer has waited 2.5 s for it: the "
                "slowest\n"
                "  quick was at most 1 steps behind; the producer has waited 0.000 s for it\n"
                "  link 0"),
      std::string::npos)
      << text;
}

TEST(StatusText, ShowsTheWaitsOfRanks) {
  EXPECT_EQ(waits_text(status("")), "");
  EXPECT_EQ(
      waits_text(status(
          "waits { group: 'b' rank: 1 host: 'node' pid: 7 wait { seconds: 61 call: 'begin_step' "
          "  stream: 's' step: 4 group: 'a' ranks: 0 ranks: 1 ranks: 2 ranks: 5 "
          "  what: 'to send the next step' } } "
          "waits { group: 'b' rank: 2 host: 'node' pid: 8 wait { seconds: 2 call: 'an agreement of "
          "its group' group: 'b' is_for_all_ranks: true } } "
          "waits { group: 'c' host: 'node' pid: 9 wait { seconds: 3 call: 'begin_step' stream: 't' "
          "  consumers: 1 } }")),
      "  group  rank  host  pid  for        waits\n"
      "  b      1     node  7    1 min 1 s  in begin_step of stream 's', step 4, for ranks 0-2 and "
      "5 "
      "of group 'a' to send the next step\n"
      "  b      2     node  8    2.0 s      in an agreement of its group, for the other ranks of "
      "group 'b'\n"
      "  c      0     node  9    3.0 s      in begin_step of stream 't', step 0, for a consumer\n");
}

TEST(StatusText, ShowsCountersOfRanksThatItHas) {
  const std::string text = status_text(
      status("streams { name: 's' producer: 'ocean' queue_depth: 2 "
             "  produced { steps: 6 bytes: 150 waits_for: '1 of 4 ranks waits for viewer' "
             "    ranks { steps: 7 bytes: 100 copied_bytes: 60 wait_seconds: 1.5 } "
             "    ranks { rank: 1 steps: 6 bytes: 50 waits_for: 'viewer' } ranks_left_out: 2 } "
             "  consumers { link: 7 consumer: 'viewer' offer: 'local' credit: 8 "
             "    consumed { steps: 6 ranks { steps: 6 bytes: 150 } } } }"));
  EXPECT_EQ(
      text.substr(text.find("stream s")),
      "stream s\n"
      "  group     as        credit  step  moved  packages  plan     waited   copying  wire     "
      "copied\n"
      "  ocean     producer          6     150 B  0         0.000 s  0.000 s  0.000 s  0.000 s  "
      "0 B\n"
      "    rank 0                    7     100 B  0         0.000 s  1.5 s    0.000 s  0.000 s  "
      "60 B\n"
      "    rank 1                    6     50 B   0         0.000 s  0.000 s  0.000 s  0.000 s  "
      "0 B\n"
      "  viewer    consumer  8       6     0 B    0         0.000 s  0.000 s  0.000 s  0.000 s  "
      "0 B\n"
      "    rank 0                    6     150 B  0         0.000 s  0.000 s  0.000 s  0.000 s  "
      "0 B\n"
      "  queue depth 2\n"
      "  link 7 to viewer by local: \n"
      "  in ocean 1 of 4 ranks waits for viewer\n"
      "  rank 1 of ocean waits for viewer\n"
      "  2 more ranks of ocean are not shown\n");
}

TEST(StatusText, ShowsTheLoadOfTheServer) {
  const std::string text = status_text(status(
      "listens_on: 'h:1' version: '0.1.0' uptime_seconds: 65 load { connections: 10 "
      "max_connections: 100 sessions: 9 memory_bytes: 20000000 session_bytes: 1900 buffered_bytes: "
      "300 held_bytes: 5000 log_lines_dropped: 3 }"));
  EXPECT_NE(
      text.find(
          "\n10 of 100 connections, 9 sessions; memory 20.0 MB, 1.90 kB a session, 5.00 kB for "
          "streams, 300 B for messages in transit\n3 lines of the log were dropped\n"),
      std::string::npos)
      << text;
}

TEST(StatusText, CountsFieldsThatAreNotShown) {
  const std::string text = status_text(
      status("streams { name: 's' producer: 'a' fields_left_out: 7 consumers { consumer: 'b' "
             "fields_left_out: 5 } }"));
  EXPECT_NE(text.find("  7 more fields of a are not shown\n  5 more fields of b are not shown\n"),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace tremula::cli
