// SPDX-License-Identifier: Apache-2.0
#include "transport/control/reach_server.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <thread>

#include "core/error.hpp"

namespace tremula::transport {

using core::Deadline, core::Errc, core::Error;

namespace {

constexpr std::string_view file_prefix = "file:";
constexpr double first_pause = 0.02, longest_pause = 1;  // seconds between two attempts
constexpr double last_attempt = 0.1;  // of the seconds that there are, these are left for it
constexpr double told_after = 1;

/// @param port_file  empty: none
std::optional<core::Key> key_of(const ServerName& server, const std::string& port_file) {
  if (server.key.key) return server.key.key;
  if (server.key.file == core::no_key_file) return std::nullopt;
  if (!server.key.file.empty()) return core::read_key_file(server.key.file);
  // It is there before the port file, or not at all.
  std::error_code unknown;
  if (port_file.empty() || !std::filesystem::exists(key_file_beside(port_file), unknown))
    return std::nullopt;
  return core::read_key_file(key_file_beside(port_file));
}

}  // namespace

std::filesystem::path key_file_beside(const std::filesystem::path& port_file) {
  return port_file.string() + ".key";
}

void try_server(const ServerName& server, const Attempt& attempt, Deadline deadline) {
  const bool is_file = server.text.starts_with(file_prefix);
  const std::string file = is_file ? server.text.substr(file_prefix.size()) : "";
  const auto with_origin = [&](const Error& e) {
    return Error(e.code(), fmt::format("{} (address from {})", e.what(), server.from));
  };
  HostPort address;
  try {
    address = is_file ? read_port_file(file) : parse_host_port(server.text);
  } catch (const Error& e) {
    throw with_origin(e);
  }
  const std::optional<core::Key> key = key_of(server, file);
  try {
    attempt(address, key, deadline);
  } catch (const Error& e) {
    if (e.code() != Errc::no_server) throw;
    if (!is_file) throw with_origin(e);
    throw Error(e.code(),
                fmt::format("port file '{0}' is stale: {1} (address from {2}); a server that was "
                            "killed leaves its file behind: start one with 'tremula serve "
                            "--port-file {0}'",
                            file, e.what(), server.from));
  }
}

void wait_for_server(const ServerName& server, const Attempt& attempt, Deadline deadline,
                     const std::function<void(const std::string& found)>& tell) {
  const auto start = Deadline::Clock::now();
  bool is_told = false;
  for (double pause = first_pause;; pause = std::min(2 * pause, longest_pause)) {
    try {
      return try_server(server, attempt, deadline);
    } catch (const Error& e) {
      if (e.code() != Errc::no_server || deadline.remaining() <= last_attempt) throw;
      const Deadline::Seconds waited = Deadline::Clock::now() - start;
      if (!is_told && waited.count() >= told_after) {
        tell(e.what());
        is_told = true;
      }
    }
    const double left = std::max(0.0, deadline.remaining() - last_attempt);
    std::this_thread::sleep_for(Deadline::Seconds(std::min(pause, left)));
  }
}

}  // namespace tremula::transport
