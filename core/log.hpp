// SPDX-License-Identifier: Apache-2.0
#pragma once
// One line an event: `time level group.rank room event key=value ...` on standard error.
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace tremula::core {

enum class LogLevel { off, error, warn, info, debug };

/// Decides about a line that standard error does not take at once, e.g. because its pipe is not read. It is
/// kept until a later write or flush, at most Log::kept_bytes of them; further ones are dropped, and their
/// number is written when there is room again. With `wait`, the first such line first waits up to a second for room.
enum class WhenFull { wait, drop };

/// A log with the name of its writer. Thread-safe. There is no global log: `main` or `Session`
/// makes one and passes it down.
class Log {
public:
  static constexpr std::size_t kept_bytes = std::size_t{1} << 20;

  /// @param name  "ocean.3" for rank 3 of group ocean, "server" for the server
  /// @param when_full  `drop` never blocks the caller; lines longer than a pipe takes at once (PIPE_BUF)
  /// are cut, and SIGPIPE is ignored. Colours are used only by `wait`, on a terminal, where a line waits as
  /// long as it must.
  Log(std::string name, LogLevel level, WhenFull when_full = WhenFull::wait);
  ~Log();
  Log(Log&&) noexcept;
  Log& operator=(Log&&) noexcept;

  bool is_on(LogLevel level) const noexcept;
  /// Writes lines that were kept, as far as there is room now. Never blocks.
  void flush() const;
  /// Lines that were dropped so far.
  std::uint64_t dropped() const noexcept;
  /// @param room  the folder that writes the line, e.g. "client"
  /// @param text  "event key=value key=value"
  void write(LogLevel level, std::string_view room, std::string_view text) const;
  void error(std::string_view room, std::string_view text) const {
    write(LogLevel::error, room, text);
  }
  void warn(std::string_view room, std::string_view text) const {
    write(LogLevel::warn, room, text);
  }
  void info(std::string_view room, std::string_view text) const {
    write(LogLevel::info, room, text);
  }
  void debug(std::string_view room, std::string_view text) const {
    write(LogLevel::debug, room, text);
  }
  /// For destructors and what else may not throw: a line that cannot be made is left out.
  /// @param text  makes it
  template <std::invocable Text>
  void try_warn(std::string_view room, Text&& text) const noexcept {
    try {
      warn(room, text());
    } catch (...) {  // out of memory: there is nobody to tell
    }
  }

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// "warn" and so on.  @throws Error invalid_argument for any other text, naming the levels
LogLevel parse_log_level(std::string_view text);

}  // namespace tremula::core
