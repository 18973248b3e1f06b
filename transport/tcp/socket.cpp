// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/socket.hpp"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "core/close_on_fork.hpp"

namespace tremula::transport::tcp {

using core::Errc, core::Error;

namespace {

/// Seconds until the system reports a peer that acknowledges nothing as lost. A peer that is only
/// slow, e.g. stopped in a debugger, acknowledges nothing either once its buffers are full: the
/// owner of the link has to detect losses that matter sooner.
constexpr int lost_after_seconds = 600;
constexpr int probe_after_seconds = 60, probe_every_seconds = 20, probes = 27;
constexpr int backlog = 1024;

constexpr std::array address_magic{std::byte{'t'}, std::byte{'c'}, std::byte{'p'}, std::byte{1}};
constexpr std::size_t ip_bytes = 16;
constexpr std::size_t address_bytes = address_magic.size() + 1 + ip_bytes + sizeof(std::uint16_t) +
                                      sizeof(RankAddress::Id) + sizeof(RankAddress::Secret);

void set(const Descriptor& socket, int level, int option, int value) noexcept {
  setsockopt(socket.get(), level, option, &value, sizeof value);
}

}  // namespace

void DescriptorTraits::close(Handle handle) noexcept {
  core::clear_close_on_fork(handle);
  ::shutdown(handle, SHUT_RDWR);  // has no effect on a descriptor that is not a socket
  ::close(handle);
}

Descriptor own_socket(int handle) noexcept {
  core::set_close_on_fork(handle);
  return Descriptor(handle);
}

void watch(int epoll, const Descriptor& socket, std::uint64_t key, std::uint32_t events) {
  epoll_event event{.events = events, .data = {.u64 = key}};
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, socket.get(), &event) != 0) throw_system("epoll_ctl");
}

void forget(int epoll, const Descriptor& socket) noexcept {
  if (socket) epoll_ctl(epoll, EPOLL_CTL_DEL, socket.get(), nullptr);
}

std::string system_text(int error) { return std::generic_category().message(error); }
void throw_system(const std::string& what) {
  const int error = errno;
  throw Error(Errc::transport, "tcp: " + what + " failed: " + system_text(error));
}

HostPort::HostPort(const std::string& ip, std::uint16_t port) {
  auto& v4 = reinterpret_cast<sockaddr_in&>(address_);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(address_);
  if (inet_pton(AF_INET, ip.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
  } else if (inet_pton(AF_INET6, ip.c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
  } else {
    throw Error(Errc::invalid_argument,
                "tcp: expected a numeric address of this host, e.g. 10.0.0.5, found '" + ip + "'");
  }
}

HostPort HostPort::near_end_of(const Descriptor& socket) {
  HostPort host_port;
  socklen_t bytes = sizeof host_port.address_;
  if (getsockname(socket.get(), reinterpret_cast<sockaddr*>(&host_port.address_), &bytes) != 0)
    throw_system("getsockname");
  return host_port;
}

HostPort HostPort::far_end_of(const Descriptor& socket) {
  HostPort host_port;
  socklen_t bytes = sizeof host_port.address_;
  if (getpeername(socket.get(), reinterpret_cast<sockaddr*>(&host_port.address_), &bytes) != 0)
    throw_system("getpeername");
  return host_port;
}

socklen_t HostPort::length() const noexcept {
  return family() == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
}

std::uint16_t HostPort::port() const noexcept {
  return ntohs(family() == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(address_).sin6_port
                                    : reinterpret_cast<const sockaddr_in&>(address_).sin_port);
}

HostPort HostPort::with_port(std::uint16_t port) const {
  HostPort host_port = *this;
  (family() == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(host_port.address_).sin6_port
                        : reinterpret_cast<sockaddr_in&>(host_port.address_).sin_port) =
      htons(port);
  return host_port;
}

std::string HostPort::text() const {
  std::array<char, INET6_ADDRSTRLEN> ip{};
  const bool is_v6 = family() == AF_INET6;
  const void* address =
      is_v6 ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in6&>(address_).sin6_addr)
            : &reinterpret_cast<const sockaddr_in&>(address_).sin_addr;
  if (inet_ntop(family(), address, ip.data(), ip.size()) == nullptr) return {};
  if (port() == 0) return ip.data();
  return (is_v6 ? '[' + std::string(ip.data()) + ']' : std::string(ip.data())) + ':' +
         std::to_string(port());
}

Address RankAddress::encode() const {
  Address out(address_magic.begin(), address_magic.end());
  const auto add = [&out](const void* from, std::size_t bytes) {
    const auto* begin = static_cast<const std::byte*>(from);
    out.insert(out.end(), begin, begin + bytes);
  };
  const bool is_v6 = host_port.family() == AF_INET6;
  out.push_back(std::byte(is_v6 ? 6 : 4));
  std::array<std::byte, ip_bytes> ip{};
  if (is_v6)
    std::memcpy(ip.data(),
                &reinterpret_cast<const sockaddr_in6*>(host_port.socket_address())->sin6_addr, 16);
  else
    std::memcpy(ip.data(),
                &reinterpret_cast<const sockaddr_in*>(host_port.socket_address())->sin_addr, 4);
  add(ip.data(), ip.size());
  const std::uint16_t port = htons(host_port.port());
  add(&port, sizeof port);
  add(&id, sizeof id);
  add(secret.data(), secret.size());
  return out;
}

RankAddress RankAddress::decode(BytesView address, Rank rank) {
  if (address.size() != address_bytes ||
      std::memcmp(address.data(), address_magic.data(), address_magic.size()) != 0)
    throw Error(Errc::transport, "tcp: expected the address of rank " + std::to_string(rank.value) +
                                     " of the other side, found other bytes");
  const std::byte* at = address.data() + address_magic.size();
  const auto take = [&at](void* to, std::size_t bytes) {
    std::memcpy(to, at, bytes);
    at += bytes;
  };
  RankAddress found;
  std::byte family{};
  std::array<std::byte, ip_bytes> ip{};
  std::uint16_t port = 0;
  take(&family, 1);
  take(ip.data(), ip.size());
  take(&port, sizeof port);
  take(&found.id, sizeof found.id);
  take(found.secret.data(), found.secret.size());
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(family == std::byte{6} ? AF_INET6 : AF_INET, ip.data(), text.data(), text.size());
  found.host_port = HostPort(text.data(), ntohs(port));
  return found;
}

Descriptor listen_at(const HostPort& host_port) {
  Descriptor socket = own_socket(
      ::socket(host_port.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
  if (!socket) throw_system("socket");
  if (::bind(socket.get(), host_port.socket_address(), host_port.length()) != 0)
    throw_system("binding to " + host_port.text());
  if (::listen(socket.get(), backlog) != 0) throw_system("listening at " + host_port.text());
  return socket;
}

Descriptor begin_connecting(const HostPort& from, const HostPort& to) {
  Descriptor socket =
      own_socket(::socket(to.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
  if (!socket) throw_system("socket");
  set_options(socket);  // before it is connected: a host may also die during the introduction
  set(socket, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
  if (from.family() == to.family() &&
      ::bind(socket.get(), from.socket_address(), from.length()) != 0)
    throw_system("binding to " + from.text());
  if (::connect(socket.get(), to.socket_address(), to.length()) != 0 && errno != EINPROGRESS)
    throw_system("connecting to " + to.text());
  return socket;
}

void set_options(const Descriptor& socket) noexcept {
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, probe_after_seconds);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, probe_every_seconds);
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, probes);
  set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, 1000 * lost_after_seconds);
}

}  // namespace tremula::transport::tcp
