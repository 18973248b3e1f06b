// SPDX-License-Identifier: Apache-2.0
#pragma once
// The network interfaces of this host, and which of them a job or a server is reached by.
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

/// All of this host, IPv4 first; without addresses that hold on one link alone (fe80::).
std::vector<Interface> interfaces();

/// "eth0 (10.0.0.5), lo (127.0.0.1)"
std::string listed(std::span<const Interface> all);

/// The first of `all` with this name or address.
/// @throws core::Error invalid_argument that lists `all`
const Interface& find_interface(std::string_view name_or_address, std::span<const Interface> all);

/// The one by which other hosts most probably reach this one: that of the route to the world, else
/// the first that is not loopback; empty if there is none.
std::optional<Interface> outward_interface(std::span<const Interface> all);

/// What is listened on for peers on other hosts, and why.
struct BindChoice {
  std::optional<Interface> interface;  ///< empty: loopback
  std::string why;
};

/// @param configured      name or address; empty: choose
/// @param own_end         address of this end of the connection to the server; empty: loopback
/// @param server_outward  where other hosts reach the server; empty: nowhere
/// @throws core::Error as find_interface
BindChoice choose_bind(std::string_view configured, std::string_view own_end,
                       std::string_view server_outward, std::span<const Interface> all);

}  // namespace tremula::transport
