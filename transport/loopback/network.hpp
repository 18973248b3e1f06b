// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <compare>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "transport/transport.hpp"

namespace tremula::transport {

class LoopbackOperation;

/// Connects the loopback transports of one process. Must outlive them. Thread-safe. A test can
/// inject faults: see Fault and lose().
class Network {
public:
  /// A message in flight, as the fault injector sees it.
  struct MessageView {
    std::int64_t number;  ///< messages sent before it in this network
    Tag tag;
  };
  /// Harm done to a message; none by default.
  struct Fault {
    bool drop = false;         ///< never arrives; its send finishes
    bool fail = false;         ///< its send ends in Errc::transport
    double delay_seconds = 0;  ///< arrives this much later, before all later messages of its tag
    std::optional<std::size_t>
        arrives_as{};  ///< length that the receiver finds; zeros beyond the bytes sent
    std::optional<std::size_t>
        flipped_byte{};  ///< position of a byte that arrives with all bits inverted
    bool operator==(const Fault&) const = default;
  };
  /// Called for every message, one at a time. Must not call the network.
  using FaultInjector = std::function<Fault(const MessageView&)>;
  /// How peers notice that an endpoint is gone: by an error, or only because nothing more arrives.
  enum class Loss { reported, silent };
  struct Counters {
    std::int64_t messages_sent = 0, messages_delivered = 0, bytes_delivered = 0;
    std::int64_t reads = 0, bytes_read = 0;
    std::int64_t messages_harmed = 0;  ///< messages with a Fault
  };

  /// @param eager_bytes  a send of at most this many bytes is copied and finishes immediately; a
  ///                     longer one finishes when it is received. 0 is the strictest: code that
  ///                     works with it works with every transport.
  explicit Network(std::size_t eager_bytes = 8192) : eager_bytes_(eager_bytes) {}

  void inject_faults(FaultInjector injector);
  /// Makes the rank at `address` die: its unfinished sends never arrive, and sends to it end in
  /// peer_lost, or never end if the loss is silent.
  void lose(const Address& address, Loss loss = Loss::reported);
  Counters counters() const;

private:
  friend class LoopbackEndpoint;
  friend class LoopbackOperation;
  friend class LoopbackRegion;

  using Id = std::uint64_t;
  enum class State { open, closed, lost, lost_silently };
  struct Member {
    Side side;
    State state;
  };
  struct Key {
    Id from, to;
    Tag tag;
    auto operator<=>(const Key&) const = default;
  };
  struct Message {
    BytesView bytes;            ///< memory of the sender, or of `copy`
    Bytes copy;                 ///< bytes of an eager or harmed message
    LoopbackOperation* sender;  ///< null if its send has finished
    Deadline::Clock::time_point due;
  };
  /// Messages and receives that have no match so far. At most one of the two queues contains items,
  /// apart from messages that are not yet due.
  struct Channel {
    std::deque<Message> messages;
    std::deque<LoopbackOperation*> receives;
  };

  static Address address_of(Id id);
  /// Returns the endpoint with this address.
  /// @throws core::Error transport if no endpoint of this network has had this address
  Id id_of(const Address& address) const;
  Id open(Side side);
  void close(Id id);
  static bool is_known_gone(State state) { return state == State::closed || state == State::lost; }

  void post_send(LoopbackOperation& operation, BytesView bytes);
  void post_receive(LoopbackOperation& operation);
  /// Delivers the messages of this channel that have a receive, and fails the operations that can
  /// never finish.
  void settle(const Key& key);
  void deliver(const Message& message, LoopbackOperation& receive);
  void withdraw(LoopbackOperation& operation);
  std::uint64_t add_region(Id owner, BytesView bytes);
  void remove_region(std::uint64_t number);
  /// Completes the read immediately, unless its peer was lost silently.
  void read(LoopbackOperation& operation, const RegionKey& region, std::size_t offset);

  mutable std::mutex mutex_;  ///< guards everything below and the state of every operation
  std::size_t eager_bytes_;
  std::vector<Member> members_;  ///< index = id; an id is never reused
  std::map<Key, Channel> channels_;
  struct Region {
    Id owner;
    BytesView bytes;
  };
  std::map<std::uint64_t, Region> regions_;
  std::uint64_t last_region_ = 0;
  FaultInjector injector_;
  Counters counters_;
};

}  // namespace tremula::transport
