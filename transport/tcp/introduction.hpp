// SPDX-License-Identifier: Apache-2.0
#pragma once
// Both ends of a new connection prove that they are ranks of the link before any other byte is
// accepted. Private to this folder.
//
//   connecting rank   its id, opening of the exchange    ──>
//                                                        <──  challenge      accepting rank
//                     proof                              ──>
//                                                        <──  proof
//
// The exchange is that of transport/control; its key is made from both ranks' secrets, which travel
// only through the server, and only to the ranks of the link.
#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "transport/control/authentication.hpp"
#include "transport/tcp/socket.hpp"

namespace tremula::transport::tcp {

/// Returns the key that a pair of ranks shares.
core::Key key_of(const RankAddress& accepting, const RankAddress& connecting);

/// Reads exactly as many bytes as the exchange needs next.
class PayloadReader {
public:
  enum class Received { all, less, end };
  /// Reads until `bytes` bytes have arrived since clear(). Never blocks.
  Received receive(const Descriptor& socket, std::size_t bytes);
  /// Returns the bytes received since clear().
  BytesView bytes() const noexcept { return std::span(bytes_).first(count_); }
  void clear() noexcept { count_ = 0; }

private:
  std::array<std::byte, sizeof(RankAddress::Id) + exchange_payload_bytes> bytes_{};
  std::size_t count_ = 0;
};
/// Sends a few bytes over a socket that has sent little so far, so that they fit into its buffer.
/// Returns whether all were sent.
bool send_at_once(const Descriptor& socket, BytesView bytes) noexcept;

/// One attempt to connect to a peer, until both ends have proved themselves.
class ConnectionAttempt {
public:
  enum class State {
    under_way,
    proved,
    closed,    ///< by the other end, which may have had no room: another attempt may succeed
    refused,   ///< no program listens there, or there is no route
    impostor,  ///< another program listens there
  };
  /// @param socket  a socket that has begun to connect to the peer
  ConnectionAttempt(const RankAddress& own, const RankAddress& peer, Descriptor socket, int epoll,
                    std::uint64_t event);
  ~ConnectionAttempt();
  ConnectionAttempt(const ConnectionAttempt&) = delete;
  ConnectionAttempt& operator=(const ConnectionAttempt&) = delete;

  /// Continues the attempt when epoll reports an event of the socket. Never blocks.
  State move();
  /// Returns the errno of an attempt that was refused.
  int error() const noexcept { return error_; }
  /// Takes the connection of an attempt that has succeeded; epoll no longer reports events of it.
  Descriptor take();

private:
  int epoll_;
  RankAddress::Id own_id_;
  Descriptor socket_;
  ClientExchange exchange_;
  PayloadReader reader_;
  bool has_opened_ = false;
  int error_ = 0;
  std::uint64_t event_;
};

/// Room for a connection that has proved nothing yet. All listeners of the process share
/// slots_of_process slots, because descriptors belong to the process.
struct SlotTraits {
  using Handle = bool;
  static Handle none() { return false; }
  static void close(Handle) noexcept;
};
using ConnectionSlot = core::UniqueHandle<SlotTraits>;

/// Slots that all listeners share, and extra slots of each, so that no listener waits for another.
inline constexpr std::size_t slots_of_process = 128, slots_of_listener = 4;

/// The accepting end: the listening socket, and connections that have proved nothing yet.
class Listener {
public:
  using Clock = std::chrono::steady_clock;
  /// Bit that marks the epoll events of a listener.
  static constexpr std::uint64_t event_bit = std::uint64_t{1} << 63;

  /// @param own  its host and port are replaced by those of the listening socket
  Listener(RankAddress& own, int epoll);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  /// Sets the ranks whose connections to accept, index = rank, and begins to accept.
  void expect(std::vector<RankAddress> peers);
  /// Stops waiting for this rank.
  void stop_expecting(Rank rank) noexcept;
  /// Handles an epoll event of the listener. Never blocks.
  void move(std::uint64_t event);
  /// Closes connections that have taken too long to prove themselves. Reads a clock only if some
  /// connection is pending.
  void close_late();
  /// Adds a new connection. If there is no room, closes the oldest that has named no rank, or else the
  /// oldest of all; a rank whose connection is closed tries again.
  void add(Descriptor socket);

  struct Connection {
    Rank rank;
    Descriptor socket;
  };
  /// Takes the connections that have proved to come from a rank; each rank appears at most once.
  std::vector<Connection> take_accepted();
  bool has_all() const noexcept { return missing_ == 0; }
  /// Returns how many connections were closed because they proved nothing.
  std::uint64_t rejected() const noexcept { return rejected_; }
  /// Returns how many connections have proved nothing yet.
  std::size_t pending() const noexcept { return pending_.size(); }

private:
  struct PendingConnection {
    std::uint64_t number;
    Clock::time_point until;
    Descriptor socket;
    ConnectionSlot slot;  // empty if it takes one of the listener's own
    PayloadReader reader{};
    std::optional<Rank> rank{};  // the rank that it claims to come from
    std::optional<ServerExchange> exchange{};
  };
  using PendingConnections = std::vector<PendingConnection>;
  void accept();
  ConnectionSlot make_room();
  void process(PendingConnections::iterator connection);
  void remove(PendingConnections::iterator connection) noexcept;
  enum class Verdict { pending, accepted, rejected };
  Verdict continue_exchange(PendingConnection& connection);
  Verdict admit(PendingConnection& connection);

  const RankAddress& own_;
  int epoll_;
  Descriptor socket_;
  std::vector<RankAddress> peers_;
  std::vector<bool> is_settled_;  // connected, or no longer expected; index = rank
  std::size_t missing_ = 0;
  PendingConnections pending_;  // oldest first
  std::vector<Connection> accepted_;
  std::uint64_t numbers_ = 0, rejected_ = 0;
};

}  // namespace tremula::transport::tcp
