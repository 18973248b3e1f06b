// SPDX-License-Identifier: Apache-2.0
#include "core/log.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <regex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "core/error.hpp"

namespace tremula::core {
namespace {

std::vector<std::string> lines_written_by(const std::function<void()>& action) {
  testing::internal::CaptureStderr();
  action();
  std::istringstream text(testing::internal::GetCapturedStderr());
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

TEST(Log, WritesOneLineOfTimeLevelWhoRoomEvent) {
  const auto lines = lines_written_by(
      [] { Log("ocean.3", LogLevel::info).info("client", "matched stream=surface link=4"); });
  ASSERT_EQ(lines.size(), 1u);
  const std::regex shape(
      R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3} info ocean\.3 client matched stream=surface link=4)");
  EXPECT_TRUE(std::regex_match(lines[0], shape)) << lines[0];
}

TEST(Log, LeavesTextAsItIs) {
  const auto lines =
      lines_written_by([] { Log("a", LogLevel::info).info("core", "{} {0} %v %d"); });
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_TRUE(lines[0].ends_with("core {} {0} %v %d")) << lines[0];
}

TEST(Log, IsSilentBelowItsLevel) {
  constexpr LogLevel order[] = {LogLevel::error, LogLevel::warn, LogLevel::info, LogLevel::debug};
  for (std::size_t wanted = 0; wanted <= std::size(order); ++wanted) {
    const Log log("a", wanted == 0 ? LogLevel::off : order[wanted - 1]);
    const auto lines = lines_written_by([&] {
      log.error("core", "x");
      log.warn("core", "x");
      log.info("core", "x");
      log.debug("core", "x");
      log.write(LogLevel::off, "core", "never");
    });
    EXPECT_EQ(lines.size(), wanted);
    for (std::size_t i = 0; i < std::size(order); ++i) EXPECT_EQ(log.is_on(order[i]), i < wanted);
    EXPECT_FALSE(log.is_on(LogLevel::off));
  }
}

TEST(Log, KeepsLinesOfSeveralThreadsWhole) {
  const Log log("a", LogLevel::info);
  const std::string text(200, 'x');
  const auto lines = lines_written_by([&] {
    std::vector<std::jthread> writers;
    for (int i = 0; i < 4; ++i)
      writers.emplace_back([&] {
        for (int n = 0; n < 100; ++n) log.info("core", text);
      });
  });
  EXPECT_EQ(lines.size(), 400u);
  for (const auto& line : lines) ASSERT_TRUE(line.ends_with("core " + text)) << line;
}

TEST(LogLevel, HasANameAndOtherTextIsRefused) {
  EXPECT_EQ(parse_log_level("off"), LogLevel::off);
  EXPECT_EQ(parse_log_level("error"), LogLevel::error);
  EXPECT_EQ(parse_log_level("warn"), LogLevel::warn);
  EXPECT_EQ(parse_log_level("info"), LogLevel::info);
  EXPECT_EQ(parse_log_level("debug"), LogLevel::debug);
  for (const char* text : {"", "Info", "trace", "warning"}) {
    try {
      parse_log_level(text);
      FAIL() << "accepted '" << text << "'";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::invalid_argument);
      EXPECT_NE(std::string(error.what()).find("off, error, warn, info, debug"), std::string::npos);
      EXPECT_NE(std::string(error.what()).find("'" + std::string(text) + "'"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace tremula::core
