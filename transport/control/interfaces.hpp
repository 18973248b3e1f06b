// SPDX-License-Identifier: Apache-2.0
#pragma once
// The network interfaces of this host, and the one through which a job or a server is reached.
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tremula::transport {

/// One address of an interface that is up.
struct Interface {
  std::string name;     ///< "eth0"
  std::string address;  ///< numeric: "10.0.0.5"
  bool is_loopback = false;
  friend bool operator==(const Interface&, const Interface&) = default;
};

/// Returns all interfaces of this host that are up, IPv4 first, without link-local addresses
/// (fe80::).
std::vector<Interface> interfaces();

/// Returns e.g. "eth0 (10.0.0.5), lo (127.0.0.1)"; "none" if there are none.
std::string listed(std::span<const Interface> all);

/// Returns the first of `all` with this name or address.
/// @throws core::Error invalid_argument that lists `all`
const Interface& find_interface(std::string_view name_or_address, std::span<const Interface> all);

/// Returns the interface through which other hosts most probably reach this host: the one on the
/// route to the Internet, else the first that is not loopback; nullopt if there is none.
std::optional<Interface> outward_interface(std::span<const Interface> all);

/// The interface at which to listen for peers on other hosts, and the reason for the choice.
struct BindChoice {
  std::optional<Interface> interface;  ///< nullopt: loopback
  std::string why;
};

/// Chooses the interface at which a job or a server listens.
/// @param configured      name or address of an interface; empty: choose
/// @param own_end         address of this end of the connection to the server; empty: loopback
/// @param server_outward  address at which other hosts reach the server; empty if they cannot
/// @throws core::Error as find_interface
BindChoice choose_bind(std::string_view configured, std::string_view own_end,
                       std::string_view server_outward, std::span<const Interface> all);

}  // namespace tremula::transport
