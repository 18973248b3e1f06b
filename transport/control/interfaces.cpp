// SPDX-License-Identifier: Apache-2.0
#include "transport/control/interfaces.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>

#include "core/error.hpp"

namespace tremula::transport {

namespace {

/// Returns e.g. "10.0.0.5"; empty if it is not an IP address, or is an IPv6 link-local one.
std::string numeric(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* bytes = nullptr;
  if (address != nullptr && address->sa_family == AF_INET) {
    bytes = &reinterpret_cast<const sockaddr_in*>(address)->sin_addr;
  } else if (address != nullptr && address->sa_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
    if (!IN6_IS_ADDR_LINKLOCAL(&v6)) bytes = &v6;
  }
  if (bytes == nullptr) return {};
  return inet_ntop(address->sa_family, bytes, text.data(), text.size()) == nullptr ? ""
                                                                                   : text.data();
}

/// Returns the address from which this host would send to the Internet; empty if there is no such
/// route. Sends nothing.
std::string address_to_the_world() {
  const int handle = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (handle < 0) return {};
  sockaddr_in world{};
  world.sin_family = AF_INET;
  world.sin_port = htons(9);
  world.sin_addr.s_addr = htonl(0xC0000201);  // 192.0.2.1, which no host has (RFC 5737)
  sockaddr_storage own{};
  socklen_t bytes = sizeof own;
  const bool is_routed =
      connect(handle, reinterpret_cast<const sockaddr*>(&world), sizeof world) == 0 &&
      getsockname(handle, reinterpret_cast<sockaddr*>(&own), &bytes) == 0;
  close(handle);
  return is_routed ? numeric(reinterpret_cast<const sockaddr*>(&own)) : "";
}

std::optional<Interface> with_address(std::string_view address, std::span<const Interface> all) {
  const auto found = std::ranges::find(all, address, &Interface::address);
  if (found == all.end() || found->is_loopback) return std::nullopt;
  return *found;
}

}  // namespace

std::vector<Interface> interfaces() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, &freeifaddrs);
  std::vector<Interface> found;
  for (const int family : {AF_INET, AF_INET6})
    for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
      if (at->ifa_addr == nullptr || at->ifa_addr->sa_family != family) continue;
      std::string address = numeric(at->ifa_addr);
      if ((at->ifa_flags & IFF_UP) == 0 || address.empty()) continue;
      found.push_back({at->ifa_name, std::move(address), (at->ifa_flags & IFF_LOOPBACK) != 0});
    }
  return found;
}

std::string listed(std::span<const Interface> all) {
  std::string text;
  for (const Interface& one : all)
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", one.name, one.address);
  return text.empty() ? "none" : text;
}

const Interface& find_interface(std::string_view name_or_address, std::span<const Interface> all) {
  const auto found = std::ranges::find_if(all, [&](const Interface& one) {
    return one.name == name_or_address || one.address == name_or_address;
  });
  if (found == all.end())
    throw core::Error(
        core::Errc::invalid_argument,
        fmt::format("expected an interface or an address of this host, which has {}; found '{}'",
                    listed(all), name_or_address));
  return *found;
}

std::optional<Interface> outward_interface(std::span<const Interface> all) {
  if (auto routed = with_address(address_to_the_world(), all)) return routed;
  const auto first = std::ranges::find(all, false, &Interface::is_loopback);
  if (first == all.end()) return std::nullopt;
  return *first;
}

BindChoice choose_bind(std::string_view configured, std::string_view own_end,
                       std::string_view server_outward, std::span<const Interface> all) {
  if (!configured.empty()) {
    const Interface& named = find_interface(configured, all);
    return {named.is_loopback ? std::nullopt : std::optional(named), "ofi_bind names it"};
  }
  if (auto to_server = with_address(own_end, all))
    return {std::move(to_server), "it reaches the server"};
  // The server is reached through loopback: it is on this host, unless a tunnel leads to it.
  if (auto of_server = with_address(server_outward, all))
    return {std::move(of_server), "other hosts reach the server through it"};
  return {std::nullopt, "the server is reached through loopback and serves only this host"};
}

}  // namespace tremula::transport
