// SPDX-License-Identifier: Apache-2.0
#pragma once
// Operations in flight, and messages that await a receive. Private to this folder.
#include <deque>
#include <string>
#include <vector>

#include "transport/tcp/fifo.hpp"
#include "transport/transport.hpp"

namespace tremula::transport::tcp {

class Endpoint;
class Peer;

/// A pooled operation: after release(), the endpoint keeps the object for the next operation.
///
///   send     queued ──> finished                                            copied
///              ├──────> writing ──> finished                                up to longest_eager
///              └──────> announced ──> streaming ──> sent ──> finished       longer, or no credit
///                                      │     ^────────┘   the receive was given up; another pulls
///                                      └──> ending ──> finished            or is too short for it
///   receive  posted ──> arriving ──> finished | failed                      eager
///              └──────> pulling ──> finished | failed                       announced
///   read     pulling ──> finished | failed
///   serve    streaming                                                      what a peer reads
class Operation final : public transport::Operation {
public:
  enum class Kind { send, receive, read, serve };
  enum class State {
    queued,
    writing,
    announced,
    streaming,
    sent,
    ending,
    posted,
    arriving,
    pulling,
    finished,
    failed
  };

  Operation(Endpoint& endpoint, std::uint32_t index) : endpoint_(endpoint), index_(index) {}
  std::optional<std::size_t> test() override;
  void cancel() noexcept override;
  void release() noexcept override;

  /// Returns the number by which the peer refers to this operation. No other operation of the endpoint
  /// has it, not even an earlier one in this object.
  std::uint64_t id() const noexcept { return std::uint64_t{generation} << 32 | index_; }
  bool has_ended() const noexcept { return state == State::finished || state == State::failed; }
  void finish(std::size_t moved) noexcept {
    state = State::finished;
    bytes = moved;
  }

  Kind kind{};
  State state = State::finished;
  std::uint32_t generation = 0;
  Peer* peer = nullptr;
  Tag tag = 0;
  std::byte* data = nullptr;  // a send only reads it
  std::size_t room = 0;       // bytes posted
  std::size_t bytes = 0;      // bytes moved; for a message that is too long, its length
  std::size_t expected = 0;   // bytes that a receive or read pulls
  std::uint64_t theirs = 0;   // the peer's number for its end; for a read, the offset
  std::uint64_t number = 0;   // number of the arrival that a receive pulls
  std::uint64_t region = 0;   // for a serve, the first word of the key; for a read, the second
  std::string_view why{};     // reason for a failure; empty if a message was too long
  Operation* next = nullptr;

private:
  Endpoint& endpoint_;
  std::uint32_t index_;
};

/// A message from a peer that has no receive yet. `number` counts the messages of one peer.
struct Arrival {
  std::uint64_t number = 0;
  Tag tag = 0;
  std::uint64_t bytes = 0;
  std::uint64_t send = 0;  // number of the send, if it was announced
  bool is_announced = false;
  std::uint64_t cost = 0;  // credit to give back when it is delivered
  Bytes copy;              // its bytes, if it was not announced
  Arrival* next = nullptr;
};

/// Makes objects and keeps them for reuse, so that nothing is allocated once there are enough. The
/// objects never move.
class Pool {
public:
  explicit Pool(Endpoint& endpoint) : endpoint_(endpoint) {}
  Operation& operation();
  void release(Operation& operation) noexcept { idle_operations_.push_back(&operation); }
  /// Returns the operation in flight that has this id; null if there is none.
  Operation* find(std::uint64_t id);
  Arrival& arrival();
  void release(Arrival& arrival) noexcept;
  std::deque<Operation>& operations() noexcept { return operations_; }

private:
  /// The most capacity, in bytes, that copies keep for reuse.
  static constexpr std::size_t idle_copy_bytes = std::size_t{1} << 20;

  Endpoint& endpoint_;
  std::deque<Operation> operations_;
  std::vector<Operation*> idle_operations_;
  std::deque<Arrival> arrivals_;
  std::vector<Arrival*> idle_arrivals_;
  std::size_t idle_copies_ = 0;  // bytes of capacity
};

}  // namespace tremula::transport::tcp
