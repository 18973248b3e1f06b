// SPDX-License-Identifier: Apache-2.0
#include "transport/control/address.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <string>
#include <system_error>

#include "core/error.hpp"

namespace tremula::transport {

using core::Errc, core::Error;

namespace {

constexpr std::string_view file_kind = "port file";
constexpr std::size_t most_file_bytes = 4096;

/// Throws unless `path` is free, or holds a file that a server of this user may have written there.
void check_may_replace(const std::filesystem::path& path) {
  const auto refuse = [&](const std::string& found) {
    throw Error(
        Errc::invalid_argument,
        fmt::format("port file '{}': expected no file, or one that an earlier server of this "
                    "user wrote; found {}; name another file, or remove this one",
                    path.string(), found));
  };
  const auto old = core::read_small_file(file_kind, path, most_file_bytes);
  if (!old) return;
  if (old->owner != ::geteuid()) refuse(fmt::format("one of user {}", old->owner));
  if (old->text.empty()) return;
  try {
    parse_host_port(std::string_view(old->text).substr(0, old->text.find('\n')));
  } catch (const Error&) {
    refuse("other text");
  }
}

}  // namespace

HostPort parse_host_port(std::string_view text) {
  const auto reject = [&](std::string_view found) {
    throw Error(Errc::invalid_argument,
                fmt::format("server address: expected host:port such as localhost:7423 or "
                            "[::1]:7423, found '{}': {}",
                            text, found));
  };
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) reject("it has no port");
  std::string_view host = text.substr(0, colon);
  const std::string_view digits = text.substr(colon + 1);
  const bool is_bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (is_bracketed) host = host.substr(1, host.size() - 2);
  if (host.find_first_of(is_bracketed ? "[]" : "[]:") != std::string_view::npos)
    reject("an IPv6 address must be in one pair of brackets");
  if (host.empty()) reject("it has no host");
  if (host.find_first_of(" \t\r\n/") != std::string_view::npos)
    reject("the host name is not valid");
  int port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc{} || end != digits.data() + digits.size() || port < 1 || port > 65535)
    reject("the port is not a number from 1 to 65535");
  return {std::string(host), static_cast<std::uint16_t>(port)};
}

std::string to_string(const HostPort& address) {
  const bool is_ipv6 = address.host.find(':') != std::string::npos;
  return is_ipv6 ? fmt::format("[{}]:{}", address.host, address.port)
                 : fmt::format("{}:{}", address.host, address.port);
}

PortFileContents load_port_file(const std::filesystem::path& path) {
  const auto file = core::read_small_file(file_kind, path, most_file_bytes);
  if (!file || file->text.empty())
    throw Error(
        Errc::no_server,
        fmt::format("port file '{}': expected the address of a running server, found {}; "
                    "start one with 'tremula serve --port-file {}'",
                    path.string(), file ? "an empty file" : "no readable file", path.string()));
  try {
    return {parse_host_port(std::string_view(file->text).substr(0, file->text.find('\n'))),
            file->owner};
  } catch (const Error& error) {
    throw Error(Errc::no_server, fmt::format("port file '{}': {}", path.string(), error.what()));
  }
}

HostPort read_port_file(const std::filesystem::path& path) { return load_port_file(path).address; }

core::OwnFile write_port_file(const std::filesystem::path& path, const HostPort& address) {
  check_may_replace(path);
  return core::Draft(file_kind, path, to_string(address) + '\n', 0666).replace();
}

}  // namespace tremula::transport
