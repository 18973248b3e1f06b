// SPDX-License-Identifier: Apache-2.0
#pragma once
// A log with one line per event, on standard error: `time level group.rank room event key=value`.
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace tremula::core {

enum class LogLevel { off, error, warn, info, debug };

/// How a log treats a line that standard error does not accept immediately, e.g. because its pipe
/// is not read. Such lines are kept until a later write or flush, at most Log::kept_bytes of them;
/// further lines are dropped, and their number is written when there is room again. With `wait`,
/// the first such line waits up to a second for room.
enum class LogOverflow { wait, drop };

/// A log with the name of its writer. Thread-safe. There is no global log: `main` or `Session`
/// creates one and passes it on.
class Log {
public:
  static constexpr std::size_t kept_bytes = std::size_t{1} << 20;

  /// @param name  e.g. "ocean.3" for rank 3 of group ocean; "server" for the server
  /// @param overflow  `drop` never blocks the caller, which has to ignore SIGPIPE; lines longer
  /// than a pipe accepts in one write (PIPE_BUF) are cut. Only `wait` uses colours, and only on a
  /// terminal, where a line waits without a time limit.
  Log(std::string name, LogLevel level, LogOverflow overflow = LogOverflow::wait);
  ~Log();
  Log(Log&&) noexcept;
  Log& operator=(Log&&) noexcept;

  bool is_on(LogLevel level) const noexcept;
  /// Writes as many kept lines as there is room for now. Never blocks.
  void flush() const;
  /// Returns how many lines have been dropped so far.
  std::uint64_t dropped() const noexcept;
  /// Writes a line.
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
  /// Writes a warning from a destructor or other code that must not throw: a line that cannot be
  /// made is dropped.
  /// @param text  returns the text of the line
  template <std::invocable Text>
  void try_warn(std::string_view room, Text&& text) const noexcept {
    try {
      warn(room, text());
    } catch (...) {  // out of memory: the line cannot be reported
    }
  }

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Returns the level with this name, e.g. "warn".
/// @throws Error invalid_argument for any other text, naming the levels
LogLevel parse_log_level(std::string_view text);

}  // namespace tremula::core
