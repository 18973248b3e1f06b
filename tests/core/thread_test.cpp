// SPDX-License-Identifier: Apache-2.0
#include "core/thread.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace tremula::core {
namespace {

#ifndef TREMULA_EMULATED  // QEMU never blocks the signals that it uses itself

/// Returns the signals that the calling thread blocks.
std::vector<int> blocked() {
  sigset_t mask;
  pthread_sigmask(SIG_BLOCK, nullptr, &mask);
  std::vector<int> numbers;
  for (int number = 1; number < NSIG; ++number)
    if (sigismember(&mask, number) == 1) numbers.push_back(number);
  return numbers;
}

std::vector<int> all_that_can_be() {
  sigset_t all;
  sigfillset(&all);
  std::vector<int> numbers;
  for (int number = 1; number < NSIG; ++number)
    if (sigismember(&all, number) == 1 && number != SIGKILL && number != SIGSTOP)
      numbers.push_back(number);
  return numbers;
}

TEST(Thread, HandlesNoSignal) {
  std::vector<int> of_thread, of_jthread;
  start_thread([&] { of_thread = blocked(); }).join();
  start_thread<std::jthread>([&](const std::stop_token&) { of_jthread = blocked(); }).join();
  EXPECT_EQ(of_thread, all_that_can_be());
  EXPECT_EQ(of_jthread, all_that_can_be());
}

TEST(Thread, LeavesTheMaskOfItsCallerAsItWas) {
  sigset_t own, before;
  sigemptyset(&own);
  sigaddset(&own, SIGUSR2);
  pthread_sigmask(SIG_SETMASK, &own, &before);
  {
    const SignalsBlocked outer;
    start_thread([] {}).join();
    EXPECT_EQ(blocked(), all_that_can_be());
  }
  EXPECT_EQ(blocked(), std::vector<int>{SIGUSR2});
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

#endif

}  // namespace
}  // namespace tremula::core
