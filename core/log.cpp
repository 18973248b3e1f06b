// SPDX-License-Identifier: Apache-2.0
#include "core/log.hpp"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

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
}  // namespace

struct Log::Impl {
  explicit Impl(std::string name)
      : logger(std::move(name), std::make_shared<spdlog::sinks::stderr_color_sink_mt>()) {}
  spdlog::logger logger;
};

Log::Log(std::string name, LogLevel level) : impl_(std::make_unique<Impl>(std::move(name))) {
  impl_->logger.set_level(level_of(level));
  impl_->logger.set_pattern("%Y-%m-%dT%H:%M:%S.%e %^%l%$ %n %v");
}
Log::~Log() = default;
Log::Log(Log&&) noexcept = default;
Log& Log::operator=(Log&&) noexcept = default;

bool Log::is_on(LogLevel level) const noexcept {
  return level != LogLevel::off && impl_->logger.should_log(level_of(level));
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
