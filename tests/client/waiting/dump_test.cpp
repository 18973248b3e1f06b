// SPDX-License-Identifier: Apache-2.0
#include "client/waiting/dump.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <memory>
#include <thread>

#include "core/deadline.hpp"

namespace tremula::client {

namespace {

/// Makes standard error a full pipe that is never read.
class FullStandardError {
public:
  FullStandardError() : before_(dup(STDERR_FILENO)) {
    EXPECT_EQ(pipe(ends_.data()), 0);
    fcntl(ends_[1], F_SETFL, O_NONBLOCK);
    while (write(ends_[1], "x", 1) == 1) {
    }
    fcntl(ends_[1], F_SETFL, 0);
    dup2(ends_[1], STDERR_FILENO);
  }
  ~FullStandardError() {
    dup2(before_, STDERR_FILENO);
    for (const int end : {before_, ends_[0], ends_[1]}) close(end);
  }
  FullStandardError(const FullStandardError&) = delete;

private:
  int before_;
  std::array<int, 2> ends_{};
};

}  // namespace

TEST(DumpOnSignal, EndsThoughItsOutputIsNotRead) {
  std::atomic<int> asked = 0;
  const auto begun = core::Deadline::Clock::now();
  {
    const FullStandardError full;
    const auto dump = std::make_unique<DumpOnSignal>([&asked] {
      ++asked;
      return std::string(100'000, 'x');
    });
    raise(SIGUSR1);
    for (const auto deadline = core::Deadline::after(30); asked == 0 && !deadline.expired();)
      std::this_thread::yield();
    EXPECT_EQ(asked, 1);
    const DumpOnSignal other([] { return std::string(); });
  }
  EXPECT_LT(core::Deadline::Clock::now() - begun, std::chrono::seconds(40));
}

}  // namespace tremula::client
