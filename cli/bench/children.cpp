// SPDX-License-Identifier: Apache-2.0
#include "cli/bench/children.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <thread>

#include "core/deadline.hpp"
#include "core/error.hpp"

namespace tremula::cli {

using core::Errc, core::Error;
namespace fs = std::filesystem;

namespace {

sigset_t ending_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

/// Returns at most the first 2000 characters of a file.
std::string beginning_of(const fs::path& file) {
  std::ifstream stream(file);
  std::string text(std::istreambuf_iterator<char>(stream), {});
  text.resize(std::min<std::size_t>(text.size(), 2000));
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

}  // namespace

HeldSignals::HeldSignals() {
  const sigset_t set = ending_signals();
  sigprocmask(SIG_BLOCK, &set, &before_);
}

HeldSignals::~HeldSignals() {
  sigset_t pending;
  sigpending(&pending);
  for (const int number : {SIGINT, SIGTERM})  // libraries that libfabric loads also handle them
    if (sigismember(&pending, number) == 1) ::signal(number, SIG_DFL);
  sigprocmask(SIG_SETMASK, &before_, nullptr);
}

void expect_no_signal() {
  sigset_t pending;
  sigpending(&pending);
  for (const int number : {SIGINT, SIGTERM})
    if (sigismember(&pending, number) == 1)
      throw Error(Errc::cancelled, fmt::format("interrupted by signal {}", number));
}

Folder::Folder() {
  std::string pattern = (fs::temp_directory_path() / "tremula-bench-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr)
    throw Error(Errc::internal,
                fmt::format("expected to make {}, found: {}", pattern, std::strerror(errno)));
  path_ = pattern;
}

Folder::~Folder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

Children::~Children() {
  const auto forget_ended = [this] {
    std::erase_if(children_,
                  [](const Child& child) { return waitpid(child.pid, nullptr, WNOHANG) != 0; });
  };
  for (const int number : {SIGTERM, SIGKILL}) {
    forget_ended();
    for (const Child& child : children_) kill(child.pid, number);
    const auto deadline = core::Deadline::after(2);
    while (!children_.empty() && !deadline.expired()) {
      forget_ended();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
}

void Children::start(const std::string& name, const std::function<void()>& work,
                     const fs::path& output) {
  signal(SIGCHLD, SIG_DFL);  // some parents ignore it, and waitpid would then find no child
  std::fflush(nullptr);
  const pid_t parent = getpid(), pid = fork();
  if (pid < 0)
    throw Error(Errc::internal,
                fmt::format("expected to start another process, found: {}", std::strerror(errno)));
  if (pid > 0) {
    children_.push_back({pid, name, output});
    return;
  }
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(1);  // the parent died before PR_SET_PDEATHSIG
  const sigset_t set = ending_signals();
  sigprocmask(SIG_UNBLOCK, &set, nullptr);
  if (!output.empty()) {
    const int file = open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600),
              nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (file < 0 || nothing < 0) _exit(1);
    dup2(file, STDOUT_FILENO);
    dup2(file, STDERR_FILENO);
    dup2(nothing, STDIN_FILENO);
  }
  int status = 0;
  try {
    work();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    status = 1;
  }
  std::fflush(nullptr);
  _exit(status);
}

std::size_t Children::count_running() {
  for (auto child = children_.begin(); child != children_.end();) {
    int status = 0;
    if (waitpid(child->pid, &status, WNOHANG) != child->pid) {
      ++child;
      continue;
    }
    const Child ended = *child;
    child = children_.erase(child);
    if (status != 0)
      throw Error(
          Errc::internal,
          fmt::format("{} ended with {} {}{}", ended.name, WIFEXITED(status) ? "status" : "signal",
                      WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status),
                      ended.output.empty() ? "" : ": " + beginning_of(ended.output)));
  }
  return children_.size();
}

fs::path own_program() { return fs::read_symlink("/proc/self/exe"); }

void become(std::vector<std::string> command) {
  std::vector<char*> words;
  words.reserve(command.size() + 1);
  for (std::string& word : command) words.push_back(word.data());
  words.push_back(nullptr);
  execvp(words[0], words.data());
  throw Error(Errc::unsupported, fmt::format("expected to run the program {}, found: {}",
                                             command[0], std::strerror(errno)));
}

}  // namespace tremula::cli
