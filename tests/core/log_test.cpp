// SPDX-License-Identifier: Apache-2.0
#include "core/log.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <functional>
#include <regex>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
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

TEST(Log, WritesTimeLevelRankRoomAndEvent) {
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

/// Makes standard error a pipe that only read() reads.
class PipedError {
public:
  PipedError() : kept_(::dup(STDERR_FILENO)) {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    reader_ = ends[0];
    ::dup2(ends[1], STDERR_FILENO);
    ::close(ends[1]);
    ::fcntl(reader_, F_SETFL, O_NONBLOCK);
  }
  ~PipedError() {
    ::dup2(kept_, STDERR_FILENO);
    ::close(kept_);
    close_reader();
  }
  /// Returns everything that is in the pipe.
  std::string read() {
    std::string out;
    char some[4096];
    for (ssize_t n = 0; (n = ::read(reader_, some, sizeof some)) > 0;)
      out.append(some, static_cast<std::size_t>(n));
    return out;
  }
  void close_reader() {
    if (reader_ >= 0) ::close(std::exchange(reader_, -1));
  }

private:
  int kept_, reader_ = -1;
};

TEST(Log, DropsAndCountsLinesThatAreNotRead) {
  PipedError error;
  const Log log("server", LogLevel::info, LogOverflow::drop);
  constexpr int count = 20'000;  // lines of 300 bytes: more than a pipe and the log hold
  for (int n = 0; n < count; ++n) log.info("core", std::to_string(n) + ' ' + std::string(300, 'x'));
  const std::uint64_t dropped = log.dropped();
  EXPECT_GT(dropped, 0u);
  std::string text;
  for (std::string some; !(some = error.read()).empty(); log.flush()) text += some;
  log.info("core", "last");
  text += error.read();
  const auto lines = std::ranges::count(text, '\n');
  EXPECT_EQ(static_cast<std::uint64_t>(lines), count - dropped + 2);
  const std::string notice = "- " + std::to_string(dropped) + " lines of this log were dropped";
  EXPECT_NE(text.find(notice), std::string::npos);
  EXPECT_LT(text.find(notice), text.find("core last\n"));
}

TEST(Log, WaitsForAReaderOnceAndBriefly) {
  PipedError error;
  const auto begun = std::chrono::steady_clock::now();
  const Log log("ocean.3", LogLevel::warn);
  constexpr int count = 1000;  // lines of 3000 bytes: more than a pipe and the log hold
  for (int n = 0; n < count; ++n)
    log.warn("client", std::to_string(n) + ' ' + std::string(3000, 'x'));
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(20));
  EXPECT_GT(log.dropped(), 0u);
  std::string text;
  for (std::string some; !(some = error.read()).empty(); log.flush()) text += some;
  log.warn("client", std::string(10'000, 'y'));  // is not cut
  text += error.read();
  EXPECT_NE(text.find(std::string(10'000, 'y') + '\n'), std::string::npos);
  EXPECT_EQ(static_cast<std::uint64_t>(std::ranges::count(text, '\n')), count - log.dropped() + 2);
  std::size_t place = 0;
  for (int n = 0; n < 20; ++n) {  // the first lines are neither lost nor out of order
    place = text.find("client " + std::to_string(n) + " x", place);
    ASSERT_NE(place, std::string::npos) << n;
  }
}

TEST(Log, OutlivesAClosedPipe) {
  PipedError error;
  error.close_reader();
  const auto former = std::signal(SIGPIPE, SIG_IGN);
  const Log log("server", LogLevel::info, LogOverflow::drop);
  for (int n = 0; n < 10; ++n) log.info("core", "unread");
  EXPECT_GE(log.dropped(), 10u);
  std::signal(SIGPIPE, former);
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
