// SPDX-License-Identifier: Apache-2.0
#pragma once
// The exchange of messages between an endpoint and one of its peers. Private to this folder.
#include <new>
#include <string>

#include "core/error.hpp"
#include "transport/local/operation.hpp"
#include "transport/local/rings.hpp"
#include "transport/local/shared_memory.hpp"

namespace tremula::transport::local {

/// Small messages are sent immediately, and copied if there is no receive for them. Large messages:
///
///   sender   announce ────────┐                  ┌─> writes bytes ──┐         finished when all
///   receiver                  └─> receive, pull ─┘                  └─> reads  bytes are read
///
/// If an operation is given up while its bytes are in flight, the sender reports how many bytes it
/// has written (cut, revoke); the receiver skips these bytes, and nothing else is affected.
class Peer {
public:
  /// Bytes of small messages that the receiver may have to keep for one peer; beyond that, messages
  /// are announced.
  static constexpr std::size_t kept_bytes = std::size_t{256} << 10;

  /// @param inbox     inbox of the peer
  /// @param its_lane  the lane of that inbox to which this rank writes
  /// @param my_lane   the lane of this rank's inbox to which the peer writes
  Peer(Rank rank, Mapping inbox, std::size_t its_lane, Lane& my_lane, Pool& pool);
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  Rank rank() const noexcept { return rank_; }
  void send(Operation& operation);
  /// Starts a receive. If there is no memory for it, the peer is lost, as in progress() and give_up().
  void receive(Operation& operation);
  /// Advances all operations as far as possible; waits at most a few microseconds for the other side.
  void progress();
  /// Returns whether there is more to do than wait for the next command.
  bool is_busy() const noexcept {
    return is_flowing() || has_unsent_commands() || !queued_.empty();
  }
  /// Gives an operation up; does nothing if it has ended.
  void give_up(Operation& operation) noexcept;

  bool is_lost() const noexcept { return lost_code_ != core::Errc{}; }
  /// Returns whether the peer has closed its end; costs a read of its memory.
  bool has_closed() const noexcept { return inbox_.is_abandoned(); }
  /// Returns whether the peer's process has ended; costs a system call.
  bool has_died() const noexcept { return !inbox_.is_held(); }
  /// Returns whether the peer's process is stopped; costs system calls.
  bool is_stopped() const noexcept { return inbox_.is_stopped(); }
  /// Stops sending to the peer and reading from it; messages that have arrived can still be
  /// received.
  void mark_lost(core::Errc code, std::string reason) noexcept;
  /// Returns the error of a failed receive, or of an unfinished operation with a lost peer.
  core::Error error_of(const Operation& operation) const;

  bool is_watched = false;  ///< kept by the endpoint

private:
  struct Command {
    CommandKind kind;
    Body body;
  };

  /// Runs an action; the peer is lost if there is no memory for it.
  template <class Action>
  void run(Action action) {
    try {
      action();
    } catch (const std::bad_alloc&) {
      mark_lost(core::Errc::transport, "out of memory");  // short enough to need no memory
    }
  }
  /// Reads and writes once, as far as possible.  @return bytes of large messages that moved
  std::size_t advance();
  bool is_flowing() const noexcept {
    return !pulled_.empty() || !writing_.empty() || !written_.empty();
  }
  void handle(const CommandReader::Command& command);
  void handle_receiver_command(CommandKind kind, const Id& id);
  void handle_sender_command(CommandKind kind, Tag tag, const Body& body);
  /// Removes the operation from all lists and sends the peer the command that it needs.
  void withdraw(Operation& operation);
  /// Sends a command about a large message, or keeps it until there is room.
  void send_command(CommandKind kind, const Id& id, std::uint64_t bytes = 0);
  bool has_unsent_commands() const noexcept { return sent_ < unsent_.size(); }

  // sends
  /// Begins a send. Returns false if there is no room at the moment.
  bool start(Operation& send);
  /// Writes the unsent commands and the bytes of pulled sends that fit.  @return bytes written
  std::size_t write();

  // receives
  void take_eager(Tag tag, BytesView bytes);
  /// Matches a message with its receive, or keeps it until there is one.
  void match_or_keep(Arrival& arrival);
  /// Matches a receive with its message, or queues it until there is one.
  void match_or_queue(Operation& receive);
  void match(Operation& receive, Arrival& arrival);
  void deliver(Operation& receive, BytesView bytes) noexcept;
  void free_eager(std::size_t bytes) noexcept;
  /// Stops the pull of a message whose receive was given up; the message is announced again.
  void stop_pull(Arrival& arrival);
  void cut(const Body& body);
  void revoke(const Body& body);
  /// Reads bytes of pulled messages.  @return bytes read
  std::size_t read(std::size_t available);

  Rank rank_;
  Mapping inbox_;
  Lane& its_lane_;
  Lane& my_lane_;
  Pool& pool_;
  core::Errc lost_code_{};  // why the peer is lost; zero while it is not
  std::string lost_reason_;

  CommandWriter commands_out_;
  std::vector<Command> unsent_;  // the first sent_ are sent, the others await room
  std::size_t sent_ = 0;
  DataWriter data_out_;
  std::uint64_t eager_lines_written_ = 0, eager_lines_freed_ = 0;  // totals
  List<Operation> queued_;                                         // sends that have not begun
  List<Operation> writing_, written_;  // sends that are pulled, in the order of the pulls

  CommandReader commands_in_;
  DataReader data_in_;
  std::uint64_t arrivals_ = 0, freed_lines_ = 0;  // totals
  List<Operation> receives_;                      // without a message so far
  List<Arrival> arrived_;                         // without a receive so far
  List<Arrival> pulled_;  // including the rest of messages that were cut, in the order of the pulls
};

}  // namespace tremula::transport::local
