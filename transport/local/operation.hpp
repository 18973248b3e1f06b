// SPDX-License-Identifier: Apache-2.0
#pragma once
// Operations and messages in flight. Private to this folder.
#include <deque>
#include <string>
#include <vector>

#include "transport/local/inbox.hpp"
#include "transport/local/list.hpp"

namespace tremula::transport::local {

class Endpoint;
class Peer;
struct Arrival;

/// A send or a receive. After release(), the endpoint reuses the object. `number` distinguishes the
/// operation from all others of the endpoint.
///
///   send     queued ──> finished                                  small
///              └──────> announced ──> writing ──> written ──> finished      large
///   receive  queued ──> finished | failed                         small
///              └──────> pulling ──> finished
class Operation final : public transport::Operation, public Linked {
public:
  enum class State { queued, announced, writing, written, pulling, finished, failed };

  Operation(Endpoint& endpoint, std::uint64_t index) : endpoint_(endpoint), index_(index) {}
  std::optional<std::size_t> test() override;
  void cancel() noexcept override;
  void release() noexcept override;

  Id id() const noexcept { return {index_, number}; }
  void finish(std::size_t moved) noexcept {
    state = State::finished;
    bytes = moved;
  }
  bool has_ended() const noexcept { return state == State::finished || state == State::failed; }

  State state = State::finished;
  bool is_send = false;
  Peer* peer = nullptr;
  Tag tag = 0;
  std::byte* data = nullptr;   // a send only reads it
  std::size_t room = 0;        // bytes posted
  std::size_t bytes = 0;       // written so far; once ended: moved, or the length if too long
  std::uint64_t data_end = 0;  // end of a written send in the ring
  Arrival* arrival = nullptr;  // message that a receive is pulling

private:
  Endpoint& endpoint_;
  std::uint64_t index_;
};

/// A message from a peer that has not yet reached its receive. `number` counts the messages of one
/// peer.
///
///   kept                       small: a copy
///   announced ──> pulled       large: its bytes arrive through the ring, in the order of the pulls
///       ^           ├──> stopped ──> cut    its receive was given up: the message is announced
///       └───────────┘                       again, and the bytes written so far are skipped
struct Arrival : Linked {
  enum class State { kept, announced, pulled, stopped, cut };

  State state{};
  Tag tag = 0;
  std::uint64_t bytes = 0;  // of the complete message, or up to the cut
  std::uint64_t read = 0;   // bytes read of a pulled message
  Id id{};                  // of a large message
  Operation* receive = nullptr;
  Bytes copy;  // of a small message
};

/// Makes objects and keeps them for reuse, so that nothing is allocated once there are enough. The
/// objects never move.
struct Pool {
  /// The most capacity, in bytes, that copies of small messages keep for reuse.
  static constexpr std::size_t idle_copy_bytes = std::size_t{1} << 20;

  Operation& operation(Endpoint& endpoint);
  /// Returns the operation with this id; null if there is none, or its object has been reused.
  Operation* find(const Id& id);
  Arrival& arrival();
  void recycle(Arrival& arrival) noexcept;

  std::vector<Operation*> idle_operations;

private:
  std::deque<Operation> operations_;
  std::uint64_t numbers_ = 0;
  std::deque<Arrival> arrivals_;
  std::vector<Arrival*> idle_arrivals_;
  std::size_t idle_copies_ = 0;  // bytes of capacity
};

}  // namespace tremula::transport::local
