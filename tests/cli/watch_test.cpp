// SPDX-License-Identifier: Apache-2.0
#include "cli/watch.hpp"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>

namespace tremula::cli {
namespace {

using Lines = std::vector<std::string>;

wire::Status status(const std::string& text) {
  wire::Status out;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &out)) << text;
  return out;
}

const std::string consumers =
    "consumers { consumer: 'viewer' consumed { steps: 9 waits_for: '3 of 3 ranks wait for ocean' } "
    "} "
    "consumers { consumer: 'ai' consumed { steps: 8 } }";

TEST(WatchLines, ShowStepBytesRateAndWhoWaits) {
  const auto before = status(
      "uptime_seconds: 10 streams { name: 's' producer: 'ocean' produced { steps: 5 bytes: "
      "1000000000 } }");
  const auto now = status(
      "uptime_seconds: 12 streams { name: 's' producer: 'ocean' produced { steps: 10 bytes: "
      "4000000000 "
      "waits_for: '1 of 4 ranks wait for ai' } " +
      consumers + " }");
  EXPECT_EQ(watch_lines(before, now),
            Lines{"s  step 10  4.00 GB  1.50 GB/s  ocean -> viewer at 9, ai at 8  in ocean 1 of 4 "
                  "ranks wait for ai; in viewer 3 of "
                  "3 ranks wait for ocean"});
}

TEST(WatchLines, ShowNoRateBeforeItIsKnown) {
  const auto now = status(
      "uptime_seconds: 12 streams { name: 's' producer: 'ocean' produced { steps: 1 bytes: 5 } }");
  const Lines without{"s  step 1  5 B  ocean -> nobody"};
  EXPECT_EQ(watch_lines(std::nullopt, now), without);
  EXPECT_EQ(watch_lines(status("uptime_seconds: 11"), now), without);  // a new stream
  EXPECT_EQ(watch_lines(now, now), without);                           // no time has passed
  EXPECT_EQ(
      watch_lines(
          status(
              "uptime_seconds: 11 streams { name: 's' producer: 'ocean' produced { bytes: 9 } }"),
          now),
      without);  // another stream of that name
}

TEST(WatchLines, HaveOneLineAStream) {
  const auto now = status(
      "streams { name: 's' producer: 'ocean' } streams { name: 't' waiting_consumers: 'viewer' }");
  EXPECT_EQ(watch_lines(std::nullopt, now), (Lines{"s  step 0  0 B  ocean -> nobody",
                                                   "t  step 0  0 B  viewer waits for a producer"}));
  EXPECT_TRUE(watch_lines(std::nullopt, status("uptime_seconds: 1")).empty());
}

}  // namespace
}  // namespace tremula::cli
