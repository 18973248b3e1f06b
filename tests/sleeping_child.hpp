// SPDX-License-Identifier: Apache-2.0
#pragma once
// A process that holds copies of this process's descriptors, like a helper that an application
// forks.
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tremula::testing_only {

/// A child process that does nothing until it is killed, at the latest by this object's destructor.
class SleepingChild {
public:
  enum class Made {
    by_fork,
    behind_our_back,  ///< by a system call: no handler of pthread_atfork runs
  };
  explicit SleepingChild(Made made = Made::by_fork)
      : pid_(made == Made::by_fork ? fork()
                                   : static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0))) {
    if (pid_ == 0)
      for (;;) pause();
  }
  ~SleepingChild() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  SleepingChild(const SleepingChild&) = delete;
  SleepingChild& operator=(const SleepingChild&) = delete;
  pid_t pid() const noexcept { return pid_; }

private:
  pid_t pid_;
};

}  // namespace tremula::testing_only
