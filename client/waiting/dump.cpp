// SPDX-License-Identifier: Apache-2.0
#include "client/waiting/dump.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/thread.hpp"

namespace tremula::client {

namespace {

// A process has one action for a signal, however many sessions it has. The variables that the
// handler reads are set before the handler is installed and kept afterwards, because it may still
// run on another thread when it is removed.
int event = -1;
pid_t home = -1;

void write_event() {
  const std::uint64_t one = 1;
  // If the write fails because the counter is full, a dump is already pending.
  [[maybe_unused]] const auto written = write(event, &one, sizeof one);
}

extern "C" void tremula_on_dump_signal(int number) {
  const int before = errno;
  if (getpid() == home) {
    write_event();
  } else {  // a forked child has no thread that would react to the event
    signal(number, SIG_DFL);
    raise(number);
  }
  errno = before;
}

struct sigaction action_now() {
  struct sigaction now {};
  sigaction(SIGUSR1, nullptr, &now);
  return now;
}
bool is_default(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == SIG_DFL;
}
bool is_ours(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == &tremula_on_dump_signal;
}

/// Writes a text. Drops the rest of the text if standard error accepts nothing within a second, e.g. because its
/// pipe is not read. A session that ends waits for this function.
void write_to_standard_error(const std::string& text) {
  constexpr int most_milliseconds = 1000;
  for (std::size_t at = 0; at < text.size();) {
    pollfd room{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
    const int found = poll(&room, 1, most_milliseconds);
    if (found < 0 && errno == EINTR) continue;
    if (found <= 0) return;
    // A pipe that has room accepts this many bytes in one write.
    const auto written =
        write(STDERR_FILENO, text.data() + at, std::min<std::size_t>(text.size() - at, PIPE_BUF));
    if (written < 0 && errno != EINTR) return;
    if (written > 0) at += static_cast<std::size_t>(written);
  }
}

/// The texts of all sessions of this process, and the thread that writes them.
class Dumps {
public:
  void add(const std::function<std::string()>& text) {
    const std::scoped_lock changes(changes_);
    {
      const std::scoped_lock lock(mutex_);
      texts_.push_back(&text);
    }
    if (thread_.joinable() || !is_default(before_ = action_now())) return;
    if (home != getpid()) event = -1;  // a forked child shares the old descriptor with its parent
    if (event < 0) event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (event < 0) return;
    home = getpid();
    is_over_ = false;
    try {
      thread_ = core::start_thread([this] { run(); });
    } catch (const std::system_error&) {  // no thread can be started: the signal keeps its action
      return;
    }
    struct sigaction action {};
    action.sa_handler = &tremula_on_dump_signal;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(SIGUSR1, &action, nullptr);
  }

  void remove(const std::function<std::string()>& text) noexcept {
    const std::scoped_lock changes(changes_);
    {
      const std::scoped_lock lock(mutex_);
      std::erase(texts_, &text);
      if (!texts_.empty() || !thread_.joinable()) return;
      is_over_ = true;
    }
    if (is_ours(action_now())) sigaction(SIGUSR1, &before_, nullptr);
    write_event();
    thread_.join();
  }

private:
  void run() {
    for (;;) {
      std::uint64_t times = 0;
      pollfd ready{.fd = event, .events = POLLIN, .revents = 0};
      poll(&ready, 1, /*timeout=*/-1);
      if (read(event, &times, sizeof times) < 0 && errno != EAGAIN && errno != EINTR) return;
      const auto all = gather(times > 0);
      if (!all) return;
      write_to_standard_error(*all);  // without the lock
    }
  }

  /// Returns the texts of all sessions if they are requested, else an empty text; nullopt once the
  /// thread must end.
  std::optional<std::string> gather(bool is_asked) {
    const std::scoped_lock lock(mutex_);
    if (is_over_) return std::nullopt;
    std::string all;
    if (!is_asked) return all;
    for (const auto* text : texts_) {
      try {
        all += (*text)();
      } catch (...) {
        all += core::current_error().what();
      }
    }
    return all;
  }

  std::mutex changes_;  // held by add() and remove()
  std::mutex mutex_;    // guards the two members that follow
  std::vector<const std::function<std::string()>*> texts_;
  bool is_over_ = false;
  std::thread thread_;
  struct sigaction before_ {};
};

Dumps& dumps() {
  // Never destroyed: a session may be closed by another static object.
  static Dumps* const all = new Dumps;
  return *all;
}

}  // namespace

DumpOnSignal::DumpOnSignal(std::function<std::string()> text) : text_(std::move(text)) {
  dumps().add(text_);
}

DumpOnSignal::~DumpOnSignal() { dumps().remove(text_); }

}  // namespace tremula::client
