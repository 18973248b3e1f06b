// SPDX-License-Identifier: Apache-2.0
#pragma once
// Both ends of a new connection prove that they are ranks of the link, before a byte of it counts.
// Private to this folder.
//
//   connecting rank   its id, opening of the exchange    ──>
//                                                        <──  challenge      accepting rank
//                     proof                              ──>
//                                                        <──  proof
//
// The exchange is that of transport/control; its key is made of both ranks' secrets, which are told
// through the server alone, to the ranks of the link.
#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "transport/control/authentication.hpp"
#include "transport/tcp/socket.hpp"

namespace tremula::transport::tcp {

/// The key of a pair of ranks.
core::Key key_of(const Invitation& accepting, const Invitation& connecting);

/// Reads as many bytes as the exchange needs next, and none more.
class Listening {
public:
  enum class Heard { all, less, end };
  /// Never blocks.
  Heard hear(const Descriptor& socket, std::size_t bytes);
  /// What was heard.
  BytesView bytes() const noexcept { return std::span(bytes_).first(count_); }
  void clear() noexcept { count_ = 0; }

private:
  std::array<std::byte, sizeof(Invitation::Id) + exchange_payload_bytes> bytes_{};
  std::size_t count_ = 0;
};
/// Writes a few bytes to a socket that has written little so far.
bool say(const Descriptor& socket, BytesView bytes) noexcept;

/// The connecting end of one attempt.
class Dial {
public:
  enum class State {
    under_way,
    proved,
    closed,   ///< the other end has gone, or had no time: another attempt may succeed
    refused,  ///< nobody listens there, or there is no way
    false_,   ///< another program listens there
  };
  /// @param socket  that has begun to connect to the peer
  Dial(const Invitation& own, const Invitation& peer, Descriptor socket, int epoll,
       std::uint64_t event);
  ~Dial();
  Dial(const Dial&) = delete;
  Dial& operator=(const Dial&) = delete;

  /// Goes on when the system tells of the socket. Never blocks.
  State move();
  /// Of one that was refused.
  int error() const noexcept { return error_; }
  /// The connection of one that is proved; the system tells of it no more.
  Descriptor take();

private:
  int epoll_;
  Invitation::Id own_id_;
  Descriptor socket_;
  ClientExchange exchange_;
  Listening listening_;
  bool has_opened_ = false;
  int error_ = 0;
  std::uint64_t event_;
};

/// Room for a connection that has proved nothing. Those of all doors are of one store: the
/// descriptors are the process's.
struct SeatTraits {
  using Handle = bool;
  static Handle none() { return false; }
  static void close(Handle) noexcept;
};
using Seat = core::UniqueHandle<SeatTraits>;

/// In the store, and what each door has beside it, so that none waits for what happens at another.
inline constexpr std::size_t seats_of_process = 128, seats_of_door = 4;

/// The accepting end: what listens, and connections that have proved nothing yet.
class Door {
public:
  using Clock = std::chrono::steady_clock;
  /// Events of the system with this bit are of a door.
  static constexpr std::uint64_t event_bit = std::uint64_t{1} << 63;

  /// @param own  its host and port are replaced by that at which the door listens
  Door(Invitation& own, int epoll);
  ~Door();
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;
  /// The ranks to let in, in their order.
  void expect(std::vector<Invitation> peers);
  /// This rank need not come.
  void excuse(Rank rank) noexcept;
  /// Goes on when the system tells of something that is the door's. Never blocks.
  void move(std::uint64_t event);
  /// Closes what has taken too long. Reads a clock while there is anybody.
  void close_late();
  /// A new connection. The oldest that has named no rank makes room for it; a rank tries again.
  void take_in(Descriptor socket);

  struct Entrant {
    Rank rank;
    Descriptor socket;
  };
  /// Connections that have proved to be those of a rank, each rank once.
  std::vector<Entrant> take_entrants();
  bool has_all() const noexcept { return missing_ == 0; }
  /// Connections that were closed because they proved nothing.
  std::uint64_t strangers() const noexcept { return strangers_; }
  /// Connections that have proved nothing yet.
  std::size_t guests() const noexcept { return guests_.size(); }

private:
  struct Guest {
    std::uint64_t number;
    Clock::time_point until;
    Descriptor socket;
    Seat seat;  // none: one of the door's
    Listening listening{};
    std::optional<Rank> rank{};  // as it says
    std::optional<ServerExchange> exchange{};
  };
  using Guests = std::vector<Guest>;
  void accept();
  Seat make_room();
  void attend(Guests::iterator guest);
  void dismiss(Guests::iterator guest) noexcept;
  enum class Verdict { stays, enters, leaves };
  Verdict hear(Guest& guest);
  Verdict admit(Guest& guest);

  const Invitation& own_;
  int epoll_;
  Descriptor socket_;
  std::vector<Invitation> peers_;
  std::vector<bool> is_here_;  // index = rank
  std::size_t missing_ = 0;
  Guests guests_;  // oldest first
  std::vector<Entrant> entrants_;
  std::uint64_t numbers_ = 0, strangers_ = 0;
};

}  // namespace tremula::transport::tcp
