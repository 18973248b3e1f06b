// SPDX-License-Identifier: Apache-2.0
#include "core/close_on_fork.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <string>

#include "tests/sleeping_child.hpp"

namespace tremula::core {

namespace {

struct Pipe {
  Pipe() { EXPECT_EQ(pipe(ends.data()), 0); }
  ~Pipe() {
    close(reads());
    close_writes();
  }
  int reads() const { return ends[0]; }
  int writes() const { return ends[1]; }
  void close_writes() {
    clear_close_on_fork(writes());
    if (writes() >= 0) close(writes());
    ends[1] = -1;
  }
  /// Returns whether every process has closed the writing end.
  bool has_ended(int milliseconds) const {
    pollfd look{.fd = reads(), .events = POLLIN, .revents = 0};
    return poll(&look, 1, milliseconds) == 1 && (look.revents & POLLHUP) != 0;
  }
  std::array<int, 2> ends{};
};

}  // namespace

TEST(CloseOnFork, ClosesInAChildAndNotInTheParent) {
  Pipe pipe;
  set_close_on_fork(pipe.writes());
  const testing_only::SleepingChild child;
  EXPECT_EQ(write(pipe.writes(), "x", 1), 1) << "the parent's own end must be open";
  char byte = 0;
  EXPECT_EQ(read(pipe.reads(), &byte, 1), 1);
  pipe.close_writes();
  EXPECT_TRUE(pipe.has_ended(30'000)) << "the child must not hold it open";
}

TEST(CloseOnFork, ClosesInAProgramThatIsStarted) {  // without running the fork handlers
  Pipe pipe;
  const std::string is_open = "test -e /proc/self/fd/" + std::to_string(pipe.writes());
  EXPECT_EQ(std::system(is_open.c_str()), 0);
  set_close_on_fork(pipe.writes());
  EXPECT_NE(std::system(is_open.c_str()), 0);
}

TEST(CloseOnFork, KeepsClearedAndUnmarkedDescriptorsOpen) {
  Pipe cleared, never;
  set_close_on_fork(cleared.writes());
  clear_close_on_fork(cleared.writes());
  const testing_only::SleepingChild child;
  for (Pipe* const pipe : {&cleared, &never}) {
    pipe->close_writes();
    EXPECT_FALSE(pipe->has_ended(0)) << "the child must still have it open";
  }
}

TEST(CloseOnFork, KeepsADescriptorThatReusesTheNumber) {
  Pipe pipe;
  set_close_on_fork(pipe.writes());
  const pid_t child = fork();
  if (child == 0) {
    const int again = dup2(STDERR_FILENO, pipe.writes());
    const pid_t grandchild = fork();
    if (grandchild == 0) _exit(fsync(again) == 0 || errno != EBADF ? 0 : 1);
    int status = 1;
    waitpid(grandchild, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 2);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST(CloseOnFork, TakesAnyNumber) {
  for (const int descriptor : {-1, 1 << 20, 2'000'000'000}) {
    set_close_on_fork(descriptor);
    clear_close_on_fork(descriptor);
  }
  const testing_only::SleepingChild child;
}

TEST(CloseOnFork, KeepsTheReasonWhyThereIsNone) {
  errno = EMFILE;
  set_close_on_fork(-1);
  EXPECT_EQ(errno, EMFILE);
}

}  // namespace tremula::core
