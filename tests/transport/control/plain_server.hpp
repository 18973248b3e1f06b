// SPDX-License-Identifier: Apache-2.0
#pragma once
// A server on plain sockets that shares no code with the code under test.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "transport/control/address.hpp"

namespace tremula::transport {

/// A listening socket on this host. Its calls block, for at most 30 s per wait.
class PlainServer {
public:
  /// @param port  any free port if 0
  explicit PlainServer(std::uint16_t port = 0)
      : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    const int yes = 1;
    ::setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    socklen_t length = sizeof address;
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), length), 0);
    EXPECT_EQ(::listen(listener_, 16), 0);
    EXPECT_EQ(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length), 0);
    port_ = ntohs(address.sin_port);
  }
  ~PlainServer() {
    drop();
    ::close(listener_);
  }
  HostPort address() const { return {"127.0.0.1", port_}; }
  void accept() {
    EXPECT_TRUE(is_readable(listener_));
    peer_ = ::accept(listener_, nullptr, nullptr);
    EXPECT_GE(peer_, 0);
  }
  /// Accepts a client that connects within that time. Returns whether there is a client.
  bool accept_within(int milliseconds) {
    pollfd entry{listener_, POLLIN, 0};
    if (::poll(&entry, 1, milliseconds) == 1) peer_ = ::accept(listener_, nullptr, nullptr);
    return peer_ >= 0;
  }
  void write(std::string_view raw) { EXPECT_TRUE(write_if_there(raw)); }
  /// Writes unless the other side has closed its end. Returns whether everything was written.
  bool write_if_there(std::string_view raw) {
    return ::send(peer_, raw.data(), raw.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(raw.size());
  }
  /// Reads exactly `bytes` bytes; fewer only if the other side closes, or sends nothing for 30 s.
  std::string read(std::size_t bytes) {
    std::string out(bytes, '\0');
    std::size_t have = 0;
    while (have < bytes && is_readable(peer_)) {
      const ssize_t got = ::recv(peer_, out.data() + have, bytes - have, 0);
      if (got <= 0) break;
      have += static_cast<std::size_t>(got);
    }
    out.resize(have);
    return out;
  }
  bool has_bytes_within(double seconds) {
    pollfd entry{peer_, POLLIN, 0};
    return ::poll(&entry, 1, static_cast<int>(1000 * seconds)) == 1;
  }
  /// Closes this end. While it is open, a ControlConnection that closes waits up to a second for it.
  void drop() {
    if (peer_ >= 0) ::close(peer_);
    peer_ = -1;
  }
  void drop_with_reset() {
    const linger now{1, 0};
    ::setsockopt(peer_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    drop();
  }

private:
  static bool is_readable(int fd) {
    pollfd entry{fd, POLLIN, 0};
    return ::poll(&entry, 1, 30'000) == 1;
  }
  int listener_;
  int peer_ = -1;
  std::uint16_t port_ = 0;
};

}  // namespace tremula::transport
