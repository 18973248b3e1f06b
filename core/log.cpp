// SPDX-License-Identifier: Apache-2.0
#include "core/log.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
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

/// How long a line waits for room in standard error, unless an earlier one has waited in vain.
constexpr int most_milliseconds = 1000;

/// Writes to standard error what it takes without blocking, or within a second. No thread: one that
/// hangs in write() could not be ended.
class DroppingSink final : public spdlog::sinks::base_sink<std::mutex> {
public:
  explicit DroppingSink(WhenFull when_full)
      : waits_(when_full == WhenFull::wait), own_(waits_ ? -1 : open_again()) {}
  ~DroppingSink() override {
    if (waits_) flush_();
    if (own_ >= 0) ::close(own_);
  }
  std::uint64_t dropped() const noexcept { return dropped_; }

private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    const std::size_t size = waits_ ? line.size() : std::min<std::size_t>(line.size(), PIPE_BUF);
    std::string text(line.data(), size);
    text.back() = '\n';
    flush_();
    if (untold_ > 0 && kept_.empty())
      keep("- " + std::to_string(std::exchange(untold_, 0)) +
           " lines of this log were dropped, because nobody read them\n");
    if (kept_bytes_ + text.size() <= Log::kept_bytes) {
      keep(std::move(text));
      flush_();
    } else {
      ++dropped_, ++untold_;
    }
  }

  void keep(std::string text) {
    kept_bytes_ += text.size();
    kept_.push_back(std::move(text));
  }

  void flush_() override {
    while (!kept_.empty() && is_writable()) {
      std::string& line = kept_.front();
      // A pipe that is writable takes so much at once.
      const ssize_t written =
          ::write(file(), line.data(), std::min<std::size_t>(line.size(), PIPE_BUF));
      if (written < 0 && (errno == EINTR || errno == EAGAIN)) return;
      const std::size_t done = written < 0 ? line.size() : static_cast<std::size_t>(written);
      if (written < 0) ++dropped_, ++untold_;  // nobody can read it any more
      kept_bytes_ -= done;
      line.erase(0, done);
      if (line.empty()) kept_.pop_front();
    }
  }

  /// Also if a write fails at once.
  bool is_writable() {
    pollfd standard_error{.fd = file(), .events = POLLOUT, .revents = 0};
    const bool is_so = ::poll(&standard_error, 1, waits_ && !is_stuck_ ? most_milliseconds : 0) > 0;
    is_stuck_ = !is_so;
    return is_so;
  }
  int file() const noexcept { return own_ >= 0 ? own_ : STDERR_FILENO; }
  /// Returns standard error once more, not blocking: a terminal is writable when it takes a single byte. The
  /// flags of the one that other processes share stay as they are.
  static int open_again() noexcept {
    return ::open("/proc/self/fd/2", O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  }

  const bool waits_;
  bool is_stuck_ = false;  // the last line has waited in vain
  const int own_;          // -1: standard error itself, with what else the process writes; poll() must do
  std::deque<std::string> kept_;
  std::size_t kept_bytes_ = 0;
  std::atomic<std::uint64_t> dropped_ = 0;
  std::uint64_t untold_ = 0;
};
}  // namespace

struct Log::Impl {
  Impl(std::string name, WhenFull when_full)
      : dropping(when_full == WhenFull::wait && ::isatty(STDERR_FILENO) != 0
                     ? nullptr
                     : std::make_shared<DroppingSink>(when_full)),
        logger(std::move(name), dropping
                                    ? spdlog::sink_ptr(dropping)
                                    : std::make_shared<spdlog::sinks::stderr_color_sink_mt>()) {}
  std::shared_ptr<DroppingSink> dropping;  // spdlog's logger shares its sinks; null: a terminal
  spdlog::logger logger;
};

Log::Log(std::string name, LogLevel level, WhenFull when_full)
    : impl_(std::make_unique<Impl>(std::move(name), when_full)) {
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
  if (impl_->dropping) impl_->dropping->flush();
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
