// SPDX-License-Identifier: Apache-2.0
#include "coupling/oasis/schedule.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "coupling/oasis/failure.hpp"

namespace tremula::oasis {
namespace {

// The example of "the lag concept" in the manual of OASIS3-MCT: an ocean with a step of 14400 s and
// an atmosphere with a step of 7200 s exchange a field every day. Its first values are in a restart
// file.
TEST(OasisSchedule, HasTheDatesOfTheManual) {
  const Schedule s{.period = 86400, .lag = 14400, .runtime = 2 * 86400};
  EXPECT_TRUE(begins_from_restart(s));
  struct Row {
    Seconds date;
    PutAction action;
    Seconds time;
  };
  for (const Row& row : {Row{0, PutAction::keep, 14400}, Row{57600, PutAction::keep, 72000},
                         Row{72000, PutAction::send, 86400}, Row{86400, PutAction::keep, 100800},
                         Row{158400, PutAction::to_restart, 172800}}) {
    EXPECT_EQ(put_at(s, row.date).action, row.action) << row.date;
    EXPECT_EQ(put_at(s, row.date).time, row.time) << row.date;
  }
  EXPECT_TRUE(is_get_at(s, 0));
  EXPECT_FALSE(is_get_at(s, 7200));
  EXPECT_TRUE(is_get_at(s, 86400));
}

TEST(OasisSchedule, SendsEveryTimeOfTheRunOnceWithAnyLag) {
  for (const Seconds period : {1, 2, 3, 4, 6, 12})
    for (Seconds lag = -period + 1; lag <= period; ++lag) {
      const Schedule s{.period = period, .lag = lag, .runtime = 24};
      std::vector<Seconds> sent;
      if (begins_from_restart(s)) sent.push_back(0);
      int to_restart = 0;
      for (Seconds date = 0; date < s.runtime; ++date) {
        const Put put = put_at(s, date);
        if (put.action == PutAction::send) sent.push_back(put.time);
        if (put.action == PutAction::to_restart) ++to_restart;
      }
      std::vector<Seconds> wanted;
      for (Seconds time = 0; time < s.runtime; ++time)
        if (is_get_at(s, time) && time - lag < s.runtime) wanted.push_back(time);
      EXPECT_EQ(sent, wanted) << period << " " << lag;
      EXPECT_EQ(to_restart, lag > 0 ? 1 : 0) << period << " " << lag;
    }
}

TEST(OasisSchedule, KeepsTransformationsThatTheEndInterrupts) {
  const Schedule s{.period = 3600, .lag = 900, .runtime = 7200};
  EXPECT_FALSE(keeps_part_of_transformation(s, 1800));
  EXPECT_TRUE(keeps_part_of_transformation(s, 2700));
  EXPECT_TRUE(keeps_part_of_transformation(s, 6300));
}

std::string text_of(Clock& clock, Seconds date, Seconds time) {
  try {
    clock.advance(date, time);
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(OasisClock, RefusesImpossibleDates) {
  const Schedule s{.period = 3600, .lag = 0, .runtime = 7200};
  Clock clock(s);
  EXPECT_NE(text_of(clock, -1, -1).find("expected at least 0 s and below the runtime of 7200 s"),
            std::string::npos);
  EXPECT_NE(text_of(clock, 7200, 7200).find("expected at least 0 s and below"), std::string::npos);
  EXPECT_EQ(text_of(clock, 0, 0), "");
  EXPECT_NE(text_of(clock, 0, 0).find("expected one call for the coupling time 0 s"),
            std::string::npos);
  EXPECT_EQ(text_of(clock, 1800, 1800), "");
  EXPECT_EQ(text_of(clock, 1800, 1800), "");  // OASIS allows this except at coupling times
  EXPECT_NE(text_of(clock, 900, 900).find("expected at least 1800 s"), std::string::npos);
  EXPECT_NE(
      text_of(clock, 5400, 5400).find("expected an earlier call for the coupling time 3600 s"),
      std::string::npos);
  EXPECT_EQ(clock.last(), 1800);
}

TEST(OasisClock, ExpectsNoCallForTimeZeroAfterARestart) {
  const Schedule s{.period = 3600, .lag = 1800, .runtime = 7200};
  Clock clock(s);
  clock.has_begun_from_restart();
  EXPECT_NE(text_of(clock, 3600, 5400).find("the coupling time 3600 s; found none"),
            std::string::npos);
  EXPECT_EQ(text_of(clock, 1800, 3600), "");
}

TEST(OasisClock, LetsAComponentBeginLate) {
  const Schedule s{.period = 3600, .lag = 0, .runtime = 36000};
  Clock clock(s);
  EXPECT_EQ(text_of(clock, 7200, 7200), "");
  EXPECT_NE(text_of(clock, 14400, 14400).find("an earlier call for the coupling time 10800 s"),
            std::string::npos);
}

}  // namespace
}  // namespace tremula::oasis
