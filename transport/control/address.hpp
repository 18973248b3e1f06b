// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where a server listens, as a user writes it and as a server leaves it in a port file.
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace tremula::transport {

struct HostPort {
  std::string host;  ///< name or numeric address, IPv6 without brackets
  std::uint16_t port = 0;
  friend bool operator==(const HostPort&, const HostPort&) = default;
};

/// "localhost:7423", "10.0.0.1:7423", "[::1]:7423".
/// @throws core::Error invalid_argument naming what was expected and what was found
HostPort parse_host_port(std::string_view text);
/// The inverse of parse_host_port.
std::string to_string(const HostPort& address);

/// The line "host:port" that a server wrote when it had opened its port.
/// @throws core::Error no_server if the file does not exist or cannot be read, or holds no address
HostPort read_port_file(const std::filesystem::path& path);
/// Replaces the file in one step: a reader sees the old one, no file or the whole new one.
/// @throws core::Error invalid_argument with the system's text
void write_port_file(const std::filesystem::path& path, const HostPort& address);

}  // namespace tremula::transport
