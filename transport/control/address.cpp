// SPDX-License-Identifier: Apache-2.0
#include "transport/control/address.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <fstream>
#include <system_error>

#include "core/error.hpp"

namespace tremula::transport {

using core::Errc, core::Error;

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
    reject("an IPv6 address goes into brackets, once");
  if (host.empty()) reject("it has no host");
  if (host.find_first_of(" \t\r\n/") != std::string_view::npos) reject("that is no host name");
  int port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc{} || end != digits.data() + digits.size() || port < 1 || port > 65535)
    reject("the port is no number from 1 to 65535");
  return {std::string(host), static_cast<std::uint16_t>(port)};
}

std::string to_string(const HostPort& address) {
  const bool is_ipv6 = address.host.find(':') != std::string::npos;
  return is_ipv6 ? fmt::format("[{}]:{}", address.host, address.port)
                 : fmt::format("{}:{}", address.host, address.port);
}

HostPort read_port_file(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::string line;
  if (!in || !std::getline(in, line))
    throw Error(Errc::no_server,
                fmt::format("port file '{}': expected the address of a running server, found {}; "
                            "start one with 'tremula serve --port-file {}'",
                            path.string(), in.is_open() ? "an empty file" : "no readable file",
                            path.string()));
  try {
    return parse_host_port(line);
  } catch (const Error& error) {
    throw Error(Errc::no_server, fmt::format("port file '{}': {}", path.string(), error.what()));
  }
}

void write_port_file(const std::filesystem::path& path, const HostPort& address) {
  std::filesystem::path draft = path;
  draft += fmt::format(".{}", ::getpid());
  std::error_code error;
  {
    std::ofstream out(draft, std::ios::trunc);
    out << to_string(address) << '\n';
    out.close();
    if (!out) error = std::error_code(errno, std::generic_category());
  }
  if (!error) std::filesystem::rename(draft, path, error);
  if (!error) return;
  std::error_code ignored;
  std::filesystem::remove(draft, ignored);
  throw Error(Errc::invalid_argument,
              fmt::format("port file '{}': expected to be able to write it, found: {}; name a file "
                          "in a folder that exists and is writable",
                          path.string(), error.message()));
}

}  // namespace tremula::transport
