// SPDX-License-Identifier: Apache-2.0
#include "core/log.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <climits>
#include <deque>
#include <mutex>
#include <utility>

#include "core/error.hpp"

namespace tremula::core {

namespace {
spdlog::level::level_enum level_of(LogLevel level) {
  switch (level) {
    case LogLevel::off:
      return spdlog::level::off;
    case LogLevel::error:
      return spdlog::level::err;
    case LogLevel::warn:
      return spdlog::level::warn;
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::debug:
      return spdlog::level::debug;
  }
  return spdlog::level::info;
}

/// How long a line waits for room in standard error, unless the previous line waited in vain.
constexpr std::chrono::milliseconds longest_wait{1000};

/// Writes the lines that standard error accepts without blocking, or within a second. Uses no
/// thread, because a thread that hangs in write() could not be ended.
class DroppingSink final : public spdlog::sinks::base_sink<std::mutex> {
  using Clock = std::chrono::steady_clock;

public:
  explicit DroppingSink(LogOverflow overflow)
      : waits_(overflow == LogOverflow::wait), own_(waits_ ? -1 : open_again()) {}
  ~DroppingSink() override {
    if (waits_) write_kept(true);
    if (own_ >= 0) ::close(own_);
  }
  std::uint64_t dropped() const noexcept { return dropped_; }
  /// Writes the kept lines that can be written without waiting.
  void write_without_waiting() {
    const std::scoped_lock lock(mutex_);
    write_kept(false);
  }

private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    const std::size_t size = waits_ ? line.size() : std::min<std::size_t>(line.size(), PIPE_BUF);
    std::string text(line.data(), size);
    text.back() = '\n';
    write_kept(waits_);
    if (unreported_ > 0 && kept_.empty())
      keep("- " + std::to_string(std::exchange(unreported_, 0)) +
           " lines of this log were dropped, because they were not read\n");
    if (kept_bytes_ + text.size() <= Log::kept_bytes) {
      keep(std::move(text));
      write_kept(waits_);
    } else {
      ++dropped_, ++unreported_;
    }
  }

  void keep(std::string text) {
    kept_bytes_ += text.size();
    kept_.push_back(std::move(text));
  }

  void flush_() override { write_kept(waits_); }

  void write_kept(bool may_wait) {
    const bool waits_now = may_wait && !is_stuck_;
    const auto until = Clock::now() + (waits_now ? longest_wait : std::chrono::milliseconds{0});
    write_until(until);
    if (may_wait || kept_.empty()) is_stuck_ = !kept_.empty();
  }

  void write_until(Clock::time_point until) {
    // A write to a shared pipe would block if another process had just filled it, so the pipe is
    // opened again as non-blocking. It is opened for each write, because the application may
    // redirect standard error.
    const int again = waits_ && !kept_.empty() && is_pipe() ? open_again() : -1;
    const int file = again >= 0 ? again : own_ >= 0 ? own_ : STDERR_FILENO;
    write_to(file, until);
    if (again >= 0) ::close(again);
  }

  void write_to(int file, Clock::time_point until) {
    while (!kept_.empty() && is_writable(file, until)) {
      std::string& line = kept_.front();
      // A writable pipe accepts PIPE_BUF bytes without blocking.
      const ssize_t written =
          ::write(file, line.data(), std::min<std::size_t>(line.size(), PIPE_BUF));
      const bool may_try_again = errno == EINTR || (errno == EAGAIN && Clock::now() < until);
      if (written < 0 && may_try_again) continue;
      if (written < 0 && errno == EAGAIN) return;
      const std::size_t done = written < 0 ? line.size() : static_cast<std::size_t>(written);
      if (written < 0) ++dropped_, ++unreported_;  // the line cannot be written
      kept_bytes_ -= done;
      line.erase(0, done);
      if (line.empty()) kept_.pop_front();
    }
  }

  /// Waits until a write can proceed or would fail immediately. Returns false if neither happens by `until`.
  static bool is_writable(int file, Clock::time_point until) {
    pollfd standard_error{.fd = file, .events = POLLOUT, .revents = 0};
    while (true) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
      const int found =
          ::poll(&standard_error, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
      if (found >= 0 || errno != EINTR) return found > 0;
    }
  }
  static bool is_pipe() noexcept {
    struct stat found {};
    return ::fstat(STDERR_FILENO, &found) == 0 && S_ISFIFO(found.st_mode);
  }
  /// Opens standard error once more, as non-blocking, because poll() reports a terminal as writable even if
  /// it accepts only a single byte. The flags of the descriptor that other processes share do not change.
  static int open_again() noexcept {
    return ::open("/proc/self/fd/2", O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  }

  const bool waits_;
  bool is_stuck_ = false;  // whether the previous line waited in vain
  /// Separate descriptor of standard error. -1: standard error itself is used, in order with the
  /// process's other output; then, except on a pipe, only poll() keeps a write from blocking.
  const int own_;
  std::deque<std::string> kept_;
  std::size_t kept_bytes_ = 0;
  std::atomic<std::uint64_t> dropped_ = 0;
  std::uint64_t unreported_ = 0;  // dropped lines that have not been reported yet
};
}  // namespace

struct Log::Impl {
  Impl(std::string name, LogOverflow overflow)
      : dropping(overflow == LogOverflow::wait && ::isatty(STDERR_FILENO) != 0
                     ? nullptr
                     : std::make_shared<DroppingSink>(overflow)),
        logger(std::move(name), dropping
                                    ? spdlog::sink_ptr(dropping)
                                    : std::make_shared<spdlog::sinks::stderr_color_sink_mt>()) {}
  std::shared_ptr<DroppingSink> dropping;  // shared with the logger; null: waits, on a terminal
  spdlog::logger logger;
};

Log::Log(std::string name, LogLevel level, LogOverflow overflow)
    : impl_(std::make_unique<Impl>(std::move(name), overflow)) {
  impl_->logger.set_level(level_of(level));
  if (impl_->dropping) impl_->logger.set_error_handler([](const std::string&) {});  // would block
  impl_->logger.set_pattern("%Y-%m-%dT%H:%M:%S.%e %^%l%$ %n %v");
}
Log::~Log() = default;
Log::Log(Log&&) noexcept = default;
Log& Log::operator=(Log&&) noexcept = default;

bool Log::is_on(LogLevel level) const noexcept {
  return level != LogLevel::off && impl_->logger.should_log(level_of(level));
}

void Log::flush() const {
  if (impl_->dropping) impl_->dropping->write_without_waiting();
}

std::uint64_t Log::dropped() const noexcept {
  return impl_->dropping ? impl_->dropping->dropped() : 0;
}

void Log::write(LogLevel level, std::string_view room, std::string_view text) const {
  if (is_on(level)) impl_->logger.log(level_of(level), "{} {}", room, text);
}

LogLevel parse_log_level(std::string_view text) {
  if (text == "off") return LogLevel::off;
  if (text == "error") return LogLevel::error;
  if (text == "warn") return LogLevel::warn;
  if (text == "info") return LogLevel::info;
  if (text == "debug") return LogLevel::debug;
  throw Error(Errc::invalid_argument,
              "log level: expected one of off, error, warn, info, debug; found '" +
                  std::string(text) + "'");
}

}  // namespace tremula::core
