// SPDX-License-Identifier: Apache-2.0
#include "transport/control/reach_server.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <cstdint>
#include <string_view>
#include <thread>
#include <utility>

#include "core/error.hpp"
#include "transport/control/key_of_port.hpp"
#include "transport/control/peer_owner.hpp"

namespace tremula::transport {

using core::Deadline, core::Errc, core::Error;

namespace {

constexpr std::string_view file_prefix = "file:";
constexpr double first_pause = 0.02, longest_pause = 1;  // seconds between two attempts
constexpr double last_attempt = 0.1;  // seconds kept for the last attempt before the deadline
constexpr double report_after = 1;    // seconds

/// Address and key for one attempt, read anew for each attempt.
struct Reading {
  HostPort address;
  std::optional<core::Key> key{};
  std::filesystem::path found{};  ///< file in which a key that no setting names was found
};

bool is_loopback(const std::string& host) {
  boost::system::error_code error;
  const auto address = boost::asio::ip::make_address(host, error);
  return host == "localhost" || (!error && address.is_loopback());
}

/// Returns the file of the server's key if no setting names a key; empty if there is none.
std::filesystem::path unnamed_key(const ServerName& server, const HostPort& address,
                                  const std::string& port_file) {
  if (port_file.empty())
    return is_loopback(address.host) ? find_key_of_port(address.port, server.key.runtime_folder)
                                     : std::filesystem::path();
  // A server writes its key before the port file, or not at all.
  std::error_code unknown;
  const std::filesystem::path beside = key_file_beside(port_file);
  return std::filesystem::exists(beside, unknown) ? beside : std::filesystem::path();
}

Error with_origin(const ServerName& server, const Error& e) {
  return Error(e.code(), fmt::format("{} (address from {})", e.what(), server.from));
}

/// Returns the address that `server` stands for, and the user that owns its file.
/// @param port_file  empty: none
PortFileContents find_address(const ServerName& server, const std::string& port_file) {
  try {
    if (!port_file.empty()) return load_port_file(port_file);
    return {parse_host_port(server.text), ::geteuid()};
  } catch (const Error& e) {
    throw with_origin(server, e);
  }
}

/// Returns the address and the key for an attempt.
/// @param port_file  empty: none
Reading look_up(const ServerName& server, const std::string& port_file) {
  PortFileContents contents = find_address(server, port_file);
  Reading out{std::move(contents.address)};
  if (server.key.key) {
    out.key = server.key.key;
  } else if (!server.key.file.empty()) {
    if (server.key.file != core::no_key_file) out.key = core::read_key_file(server.key.file);
  } else if (out.found = unnamed_key(server, out.address, port_file); !out.found.empty()) {
    out.key = core::read_key_file(out.found);
  } else if (contents.owner != ::geteuid() && contents.owner != 0) {
    throw Error(Errc::invalid_argument,
                fmt::format("port file '{}': expected one of this user, {}, or of root, because no "
                            "key is named; found one of user {}; set key_file (TREMULA_KEY_FILE, "
                            "--key-file) to that server's key file, or to 'none' to accept any "
                            "server",
                            port_file, ::geteuid(), contents.owner));
  }
  return out;
}

/// Returns true if the error says that the server and this process do not have the same key.
bool is_about_key(const Error& e) {
  return e.code() == Errc::refused &&
         std::string_view(e.what()).find(ways_to_key) != std::string_view::npos;
}

/// Returns whether the error comes from objection_to_peer.
bool is_about_user(const Error& e) {
  return std::string_view(e.what()).find(accepted_connection) != std::string_view::npos;
}

/// Adds to the error which key of a port was refused, if one was.
Error with_key(const Error& e, const std::filesystem::path& of_port) {
  if (of_port.empty()) return e;
  return Error(e.code(), fmt::format("{} (the key came from '{}'; remove that file if its server "
                                     "has ended)",
                                     e.what(), of_port.string()));
}

bool is_same_key(const std::optional<core::Key>& a, const std::optional<core::Key>& b) {
  return a.has_value() == b.has_value() && (!a || std::ranges::equal(a->bytes(), b->bytes()));
}

}  // namespace

std::filesystem::path key_file_beside(const std::filesystem::path& port_file) {
  return port_file.string() + ".key";
}

TrustedUsers trusted_users(const ServerName& server, const std::optional<core::Key>& key) {
  return key || !server.key.file.empty() ? TrustedUsers::all : TrustedUsers::own_and_root;
}

void try_server(const ServerName& server, const ServerAttempt& attempt, Deadline deadline) {
  const bool is_file = server.text.starts_with(file_prefix);
  const std::string file = is_file ? server.text.substr(file_prefix.size()) : "";
  const bool is_key_named = server.key.key || !server.key.file.empty();
  for (Reading now = look_up(server, file);;) try {
      return attempt(now.address, now.key, deadline);
    } catch (const Error& e) {
      if (is_about_key(e) && !is_key_named && !deadline.expired()) {
        // A server with its own key may have been started after the key was looked up.
        Reading later = look_up(server, file);
        if (!is_same_key(later.key, now.key)) {
          now = std::move(later);
          continue;
        }
      }
      if (is_about_key(e)) throw with_key(e, is_file ? "" : now.found);
      if (e.code() != Errc::no_server) throw;
      if (!is_file || is_about_user(e)) throw with_origin(server, e);
      throw Error(
          e.code(),
          fmt::format("port file '{0}' is stale: {1} (address from {2}); a server that is "
                      "killed leaves its file behind; start a new server with 'tremula serve "
                      "--port-file {0}'",
                      file, e.what(), server.from));
    }
}

void wait_for_server(const ServerName& server, const ServerAttempt& attempt, Deadline deadline,
                     const std::function<void(const std::string& found)>& report) {
  const auto start = Deadline::Clock::now();
  bool is_reported = false;
  for (double pause = first_pause;; pause = std::min(2 * pause, longest_pause)) {
    try {
      return try_server(server, attempt, deadline);
    } catch (const Error& e) {
      if (e.code() != Errc::no_server || deadline.remaining() <= last_attempt) throw;
      const Deadline::Seconds waited = Deadline::Clock::now() - start;
      if (!is_reported && waited.count() >= report_after) {
        report(e.what());
        is_reported = true;
      }
    }
    const double left = std::max(0.0, deadline.remaining() - last_attempt);
    std::this_thread::sleep_for(Deadline::Seconds(std::min(pause, left)));
  }
}

}  // namespace tremula::transport
