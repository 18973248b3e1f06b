// SPDX-License-Identifier: Apache-2.0
#pragma once
// What is in flight. Private to this folder.
#include <deque>
#include <string>
#include <vector>

#include "transport/local/inbox.hpp"
#include "transport/local/list.hpp"

namespace tremula::transport::local {

class LocalEndpoint;
class Peer;
struct Message;

/// A send or a receive. Its endpoint keeps it for the next one after release(). `number` tells it
/// from all others of the endpoint.
///
///   send     queued ──> finished                                  small
///              └──────> announced ──> writing ──> written ──> finished      large
///   receive  queued ──> finished | failed                         small
///              └──────> pulling ──> finished
class LocalOperation final : public Operation, public Linked<LocalOperation> {
public:
  enum class State { queued, announced, writing, written, pulling, finished, failed };

  LocalOperation(LocalEndpoint& endpoint, std::uint64_t index)
      : endpoint_(endpoint), index_(index) {}
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
  std::byte* data = nullptr;   // of a send: never written to
  std::size_t room = 0;        // bytes posted
  std::size_t bytes = 0;       // written so far; when ended: moved, or the length that was too long
  std::uint64_t data_end = 0;  // of a written send: its end in the ring
  Message* message = nullptr;  // that a receive is pulling

private:
  LocalEndpoint& endpoint_;
  std::uint64_t index_;
};

/// A message from a peer that is not in its receive yet. `number` counts those of one peer.
///
///   kept                       small: a copy
///   announced ──> pulled       large: its bytes come through the ring, in the order of the pulls
///       ^           ├──> stopped ──> cut    the receive was given up; the message is announced
///       └───────────┘                       again, and what had been written of it is skipped
struct Message : Linked<Message> {
  enum class State { kept, announced, pulled, stopped, cut };

  State state{};
  Tag tag = 0;
  std::uint64_t bytes = 0;  // all, or until the cut
  std::uint64_t read = 0;   // of a pulled one
  Id id{};                  // of a large one
  LocalOperation* receive = nullptr;
  Bytes copy;  // of a small one
};

/// Makes objects and keeps them for the next use, so that nothing is allocated once there are
/// enough. They never move.
struct Pool {
  /// Copies of small messages that are kept although nothing is in them.
  static constexpr std::size_t idle_copy_bytes = std::size_t{1} << 20;

  LocalOperation& operation(LocalEndpoint& endpoint);
  /// Null if there never was such an operation.
  LocalOperation* find(const Id& id);
  Message& message();
  void recycle(Message& message) noexcept;

  std::vector<LocalOperation*> idle_operations;

private:
  std::deque<LocalOperation> operations_;
  std::uint64_t numbers_ = 0;
  std::deque<Message> messages_;
  std::vector<Message*> idle_messages_;
  std::size_t idle_copies_ = 0;  // bytes
};

}  // namespace tremula::transport::local
