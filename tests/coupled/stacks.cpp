// SPDX-License-Identifier: Apache-2.0
#include "tests/coupled/stacks.hpp"

#include <execinfo.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <tuple>

namespace tremula::coupled {

namespace fs = std::filesystem;

namespace {

const int request = SIGRTMIN + 7;  // mpirun intercepts and passes on many other signals

std::atomic_flag is_writing;

void write_stack(int) {
  const int kept = errno;
  std::array<void*, 64> frames;
  const int depth = backtrace(frames.data(), static_cast<int>(frames.size()));
  while (is_writing.test_and_set()) usleep(100);  // one thread writes at a time
  dprintf(STDERR_FILENO, "---- a thread of process %d is here:\n", getpid());
  backtrace_symbols_fd(frames.data(), depth, STDERR_FILENO);
  std::ignore = write(STDERR_FILENO, stack_end.data(), stack_end.size());
  is_writing.clear();
  errno = kept;
}

/// Returns the word after `key` in the status of a process or thread in /proc; empty if the process
/// or thread has ended.
std::string status_of(const fs::path& process, const std::string& key) {
  std::ifstream file(process / "status");
  for (std::string word; file >> word;)
    if (word == key && file >> word) return word;
  return {};
}

bool answers(const fs::path& thread) {
  const auto has_request = [&](const char* key) {
    const std::string signals = status_of(thread, key);
    return !signals.empty() &&
           (std::stoull(signals, nullptr, 16) >> (request - 1) & std::uint64_t{1}) != 0;
  };
  return has_request("SigCgt:") && !has_request("SigBlk:") &&
         !status_of(thread, "State:").starts_with('T');  // a stopped thread cannot answer
}

}  // namespace

void answer_with_stacks() {
  std::array<void*, 1> frame;
  backtrace(frame.data(), 1);  // loads the library of backtrace now, not in the handler
  struct sigaction action {};
  action.sa_handler = write_stack;
  action.sa_flags = SA_RESTART;
  sigaction(request, &action, nullptr);
}

int ask_for_stacks(pid_t process) {
  const fs::path all = "/proc", one = all / std::to_string(process);
  std::error_code gone;  // processes and threads may end while they are listed
  int asked = 0;
  for (fs::directory_iterator thread(one / "task", gone), end; !gone && thread != end;
       thread.increment(gone))
    if (answers(*thread))
      asked += syscall(SYS_tgkill, process, std::stoi(thread->path().filename()), request) == 0;
  for (fs::directory_iterator other(all, gone), end; !gone && other != end; other.increment(gone))
    if (status_of(*other, "PPid:") == std::to_string(process))
      asked += ask_for_stacks(std::stoi(other->path().filename()));
  return asked;
}

}  // namespace tremula::coupled
