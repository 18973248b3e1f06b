// SPDX-License-Identifier: Apache-2.0
#include "process.hpp"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <deque>
#include <stdexcept>

#include "core/deadline.hpp"

namespace tremula::cli {

namespace {

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

}  // namespace

Process::Process(const std::vector<std::string>& arguments,
                 const std::vector<std::string>& variables, Output output,
                 std::optional<uid_t> user) {
  std::vector<std::string> words{TREMULA_COMMAND};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<std::string> environment = variables;
  for (char** entry = environ; *entry != nullptr; ++entry)
    if (std::string(*entry).rfind("TREMULA_", 0) != 0) environment.emplace_back(*entry);
  const std::vector<char*> argv = pointers(words), envp = pointers(environment);

  std::array<int, 2> out{-1, -1}, err{-1, -1};
  if (output == Output::terminal) {
    const winsize size{.ws_row = 24, .ws_col = 60, .ws_xpixel = 0, .ws_ypixel = 0};
    pid_ = ::forkpty(&output_fd_, nullptr, nullptr, &size);
  } else {
    if (::pipe2(out.data(), O_CLOEXEC) != 0 || ::pipe2(err.data(), O_CLOEXEC) != 0)
      throw std::runtime_error("pipe");
    pid_ = ::fork();
  }
  if (pid_ < 0) throw std::runtime_error("fork");
  if (pid_ == 0) {
    const int program = ::open(argv[0], O_PATH | O_CLOEXEC);  // `user` may have no access
    if (output == Output::pipe) {
      ::dup2(out[1], STDOUT_FILENO);
      ::dup2(err[1], STDERR_FILENO);
    }
    if (user && (::setgroups(0, nullptr) != 0 || ::setresuid(*user, *user, *user) != 0))
      ::_exit(126);
    ::fexecve(program, argv.data(), envp.data());
    ::_exit(127);
  }
  if (output == Output::pipe) {
    ::close(out[1]);
    ::close(err[1]);
    output_fd_ = out[0];
    errors_fd_ = err[0];
  }
  for (const int fd : {output_fd_, errors_fd_})
    if (fd >= 0) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
}

Process::~Process() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  for (const int fd : {output_fd_, errors_fd_})
    if (fd >= 0) ::close(fd);
}

void Process::signal(int number) const {
  if (pid_ > 0) ::kill(pid_, number);
}

int Process::wait(double seconds) {
  if (pid_ < 0) return -1;
  const core::Deadline deadline = core::Deadline::after(seconds);
  int status = 0;
  while (::waitpid(pid_, &status, WNOHANG) == 0) {
    if (deadline.expired()) return -1;
    drain(output_fd_, output_, false);
    drain(errors_fd_, errors_, false);
    ::poll(nullptr, 0, 5);
  }
  pid_ = -1;
  drain(output_fd_, output_, true);
  drain(errors_fd_, errors_, true);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string Process::output() {
  drain(output_fd_, output_, false);
  return output_;
}

void Process::close_errors() {
  ::close(errors_fd_);
  errors_fd_ = -1;
}

std::string Process::errors() {
  drain(errors_fd_, errors_, false);
  return errors_;
}

std::vector<Outcome> run_all(const std::vector<std::vector<std::string>>& commands) {
  std::deque<Process> running;
  for (const auto& command : commands) running.emplace_back(command);
  std::vector<Outcome> outcomes;
  for (Process& process : running) {
    const int code = process.wait();
    outcomes.push_back({code, process.output(), process.errors()});
  }
  return outcomes;
}

void Process::drain(int& fd, std::string& into, bool until_end) {
  std::array<char, 4096> bytes;
  while (fd >= 0) {
    pollfd entry{fd, POLLIN, 0};
    if (::poll(&entry, 1, until_end ? 1000 : 0) != 1) return;
    const ssize_t got = ::read(fd, bytes.data(), bytes.size());
    if (got <= 0) {
      ::close(fd);
      fd = -1;
      return;
    }
    into.append(bytes.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace tremula::cli
