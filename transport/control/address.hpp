// SPDX-License-Identifier: Apache-2.0
#pragma once
// The address at which a server listens, as users write it and as the server writes it to a port
// file.
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "core/small_file.hpp"

namespace tremula::transport {

struct HostPort {
  std::string host;  ///< name or numeric address, IPv6 without brackets
  std::uint16_t port = 0;
  friend bool operator==(const HostPort&, const HostPort&) = default;
};

/// Parses "localhost:7423", "10.0.0.1:7423" or "[::1]:7423".
/// @throws core::Error invalid_argument naming what was expected and what was found
HostPort parse_host_port(std::string_view text);
/// Returns the text that parse_host_port accepts.
std::string to_string(const HostPort& address);

struct PortFileContents {
  HostPort address;
  std::uint32_t owner = 0;  ///< user id of the file's owner
};

/// Reads the line "host:port" that a server wrote when it had opened its port. Does not wait.
/// @throws core::Error no_server if the file does not exist or holds no address; invalid_argument
/// if it is not a file, or cannot be read
PortFileContents load_port_file(const std::filesystem::path& path);
/// Returns only the address of load_port_file.
HostPort read_port_file(const std::filesystem::path& path);
/// Writes a port file in one step, replacing any that an earlier server of this user left. A reader
/// finds either the previous state or the complete new file.
/// @throws core::Error invalid_argument with the system's text, or if there is a file that no
/// server of this user can have written
core::OwnFile write_port_file(const std::filesystem::path& path, const HostPort& address);

}  // namespace tremula::transport
