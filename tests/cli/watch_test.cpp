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

/// Returns the rate of one stream after each of the statuses.
Lines rates(const Lines& produced) {
  Rates rates;
  Lines found;
  for (const std::string& p : produced)
    found.push_back(rates.text(
        status("streams { name: 's' producer: 'ocean' produced { " + p + " } }").streams(0)));
  return found;
}

TEST(WatchLines, ShowStepBytesRateAndWaits) {
  Rates rates;
  watch_lines(rates, status("streams { name: 's' producer: 'ocean' produced { steps: 5 "
                            "bytes: 1000000000 reported_seconds: 10 } }"));
  const auto now = status(
      "streams { name: 's' producer: 'ocean' produced { steps: 10 bytes: 4000000000 "
      "reported_seconds: 12 waits_for: '1 of 4 ranks wait for ai' } " +
      consumers + " }");
  EXPECT_EQ(watch_lines(rates, now),
            Lines{"s  step 10  4.00 GB  1.50 GB/s  ocean -> viewer at 9, ai at 8  in ocean 1 of 4 "
                  "ranks wait for ai; in viewer 3 of "
                  "3 ranks wait for ocean"});
}

TEST(WatchLines, ShowNoRateBeforeItIsKnown) {
  EXPECT_EQ(rates({"bytes: 5 reported_seconds: 12"}), Lines{""});
  // A later stream with the same name.
  EXPECT_EQ(rates({"bytes: 9 reported_seconds: 11", "bytes: 5 reported_seconds: 12"}),
            (Lines{"", ""}));
}

TEST(WatchLines, ShowTheLastRateUntilTheNextReport) {
  EXPECT_EQ(rates({"bytes: 0 reported_seconds: 1", "bytes: 500 reported_seconds: 2",
                   "bytes: 500 reported_seconds: 2", "bytes: 1500 reported_seconds: 4",
                   "bytes: 1500 reported_seconds: 5"}),
            (Lines{"", "  500 B/s", "  500 B/s", "  500 B/s", "  0 B/s"}));
}

TEST(WatchLines, HaveOneLineAStream) {
  const auto now = status(
      "streams { name: 's' producer: 'ocean' } streams { name: 't' waiting_consumers: 'viewer' }");
  Rates rates;
  EXPECT_EQ(watch_lines(rates, now), (Lines{"s  step 0  0 B  ocean -> no consumer",
                                            "t  step 0  0 B  viewer waits for a producer"}));
  EXPECT_TRUE(watch_lines(rates, status("uptime_seconds: 1")).empty());
}

}  // namespace
}  // namespace tremula::cli
