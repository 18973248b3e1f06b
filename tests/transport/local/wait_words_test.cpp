// SPDX-License-Identifier: Apache-2.0
#include "transport/local/wait_words.hpp"

#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

namespace tremula::transport::local {

namespace {

using std::chrono::microseconds, std::chrono::seconds;

/// Makes futex_waitv return `error` in this process, as in a container with an old filter for system
/// calls. Returns whether that succeeded.
bool forbid_futex_waitv(int error) {
  std::array<sock_filter, 4> program{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_futex_waitv, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog all{static_cast<unsigned short>(program.size()), program.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all) == 0;
}

/// Sleeps until the counter has reached `value`.
void wait_for(WaitCounter& counter, std::uint64_t value, microseconds most) {
  for (std::uint64_t seen = 0; (seen = counter.count.load()) < value;)
    if (!sleep_on(std::array{WaitWord{.counter = &counter, .seen = seen}}, most, most))
      std::this_thread::yield();
}

}  // namespace

TEST(WaitWords, ReportNoSleepIfTheSystemForbidsIt) {
  for (const int error : {EPERM, ENOSYS, EACCES}) {
    const pid_t child = fork();
    if (child == 0) {
      if (!forbid_futex_waitv(error)) _exit(77);
      WaitCounter counter;
      const std::array words{WaitWord{.counter = &counter, .seen = 0}};
      _exit(sleep_on(words, microseconds(100), microseconds(100)) ? 1 : 0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFEXITED(status)) << status;
    if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "this system accepts no filter of system calls";
    EXPECT_EQ(WEXITSTATUS(status), 0) << "error " << error;
  }
}

// Each sleep may last far longer than the test, so a single lost wake-up would make the test fail.
TEST(WaitWords, WakeASleeperEachTime) {
  constexpr std::uint64_t turns = 20000;
  WaitCounter ping, pong;
  const auto begun = std::chrono::steady_clock::now();
  std::jthread other([&] {
    for (std::uint64_t turn = 1; turn <= turns; ++turn) {
      wait_for(ping, turn, seconds(90));
      pong.show(turn);
    }
  });
  for (std::uint64_t turn = 1; turn <= turns; ++turn) {
    ping.show(turn);
    wait_for(pong, turn, seconds(90));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begun, seconds(80));
}

// A count that is shown after a sleeper has announced its sleep wakes that sleeper, even if the
// previous count cleared the mark of an earlier sleep.
TEST(WaitWords, WakeASleeperAfterAnEarlierSleep) {
  WaitCounter counter;
  counter.is_slept_on = 1;  // left by a sleep that has timed out
  counter.show(1);
  EXPECT_EQ(counter.is_slept_on, 0u) << "no process sleeps: the next count costs no system call";
  std::jthread sleeper([&] { wait_for(counter, 2, seconds(90)); });
  while (counter.is_slept_on == 0) std::this_thread::yield();
  const auto begun = std::chrono::steady_clock::now();
  counter.show(2);
  sleeper.join();
  EXPECT_LT(std::chrono::steady_clock::now() - begun, seconds(60));
}

}  // namespace tremula::transport::local
