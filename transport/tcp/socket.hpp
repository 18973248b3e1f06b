// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sockets and the addresses of ranks. Private to this folder.
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <string>

#include "core/unique_handle.hpp"
#include "transport/transport.hpp"

namespace tremula::transport::tcp {

struct DescriptorTraits {
  using Handle = int;
  static Handle none() { return -1; }
  static void close(Handle handle) noexcept;
};
using Descriptor = core::UniqueHandle<DescriptorTraits>;

/// Takes over a new socket. Children made by fork do not keep it, and closing it ends the
/// connection even if another process holds it.
Descriptor own_socket(int handle) noexcept;
/// Makes an epoll report events on a socket.  @throws core::Error transport
void watch(int epoll, const Descriptor& socket, std::uint64_t key, std::uint32_t events);
/// Undoes watch(). Must be called before the socket is closed: otherwise its events are reported
/// while another process holds the socket.
void forget(int epoll, const Descriptor& socket) noexcept;

/// Returns the system's text for an error number.
std::string system_text(int error);
[[noreturn]] void throw_system(const std::string& what);

/// An IP address and a port, of this or another host.
class HostPort {
public:
  HostPort() = default;
  /// @param ip  numeric
  /// @throws core::Error invalid_argument if `ip` is not numeric
  HostPort(const std::string& ip, std::uint16_t port);
  /// Returns the address of the near end of a socket; far_end_of() returns that of the far end.
  static HostPort near_end_of(const Descriptor& socket);
  static HostPort far_end_of(const Descriptor& socket);

  const sockaddr* socket_address() const noexcept {
    return reinterpret_cast<const sockaddr*>(&address_);
  }
  socklen_t length() const noexcept;
  int family() const noexcept { return address_.ss_family; }
  std::uint16_t port() const noexcept;
  HostPort with_port(std::uint16_t port) const;
  /// Returns e.g. "10.0.0.5:41233"; without a port "10.0.0.5".
  std::string text() const;

private:
  sockaddr_storage address_{};
};

/// Decoded address of a rank's endpoint, which only the ranks on the other side receive. A program
/// that knows it counts as a member of the link, so the secret appears in no error, log or status.
struct RankAddress {
  using Id = std::uint64_t;  ///< not secret
  using Secret = std::array<std::byte, 32>;
  HostPort host_port;
  Id id = 0;
  Secret secret{};

  Address encode() const;
  /// @throws core::Error transport if `address` is not such an address
  static RankAddress decode(BytesView address, Rank rank);
};

/// Returns a socket that listens at `host_port`; port 0 stands for any free port.
Descriptor listen_at(const HostPort& host_port);
/// Returns a socket that has begun to connect to `to` from the address `from`.
/// @throws core::Error transport
Descriptor begin_connecting(const HostPort& from, const HostPort& to);
/// Sets the options of every connection: no delay for small writes, and probes by the system that
/// detect a dead peer.
void set_options(const Descriptor& socket) noexcept;

}  // namespace tremula::transport::tcp
