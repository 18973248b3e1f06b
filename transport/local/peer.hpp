// SPDX-License-Identifier: Apache-2.0
#pragma once
// All that goes on between an endpoint and one of its peers. Private to this folder.
#include "core/error.hpp"
#include "transport/local/operation.hpp"
#include "transport/local/rings.hpp"
#include "transport/local/shared_memory.hpp"

namespace tremula::transport::local {

/// Small messages go at once, and are copied if there is no receive for them. Large ones:
///
///   sender   announce ────────┐                  ┌─> writes bytes ──┐         finished when all
///   receiver                  └─> receive, pull ─┘                  └─> reads  bytes are read
///
/// Who gives up while bytes are on their way says how many there are (cut, revoke), so that the
/// other one skips them, and everything else goes on.
class Peer {
public:
  /// Small messages that the receiver may have to keep for one peer; more are announced.
  static constexpr std::size_t kept_bytes = std::size_t{256} << 10;

  /// @param inbox  the peer's
  /// @param its_lane  in it, the one that is ours
  /// @param my_lane  of the own inbox, the one that is the peer's
  Peer(Rank rank, Mapping inbox, std::size_t its_lane, Lane& my_lane, Pool& pool);
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  Rank rank() const noexcept { return rank_; }
  void send(LocalOperation& operation);
  void receive(LocalOperation& operation);
  /// Lets everything proceed as far as it can without waiting.
  void progress();
  /// Whether there is more to do than to wait for the next command.
  bool is_busy() const noexcept { return is_flowing() || has_commands() || !queued_.is_empty(); }
  void give_up(LocalOperation& operation) noexcept;

  bool is_lost() const noexcept { return lost_code_ != core::Errc{}; }
  /// Looks whether it has closed its end, which costs a read of its memory.
  bool has_closed() const noexcept { return inbox_.is_abandoned(); }
  /// Looks whether its process has ended, which costs a system call.
  bool has_died() const noexcept { return !inbox_.is_held(); }
  /// Nothing will come of it any more, but what has come already.
  void lose(core::Errc code, std::string reason);
  /// In which an operation ends that is of no use any more.
  core::Error error_of(const LocalOperation& operation) const;

  bool is_watched = false;  ///< the endpoint's note

private:
  struct Command {
    Kind kind;
    Body body;
  };

  /// One look at everything.  @return bytes of large messages that moved
  std::size_t step();
  bool is_flowing() const noexcept {
    return !pulled_.is_empty() || !writing_.is_empty() || !written_.is_empty();
  }
  void obey(const CommandReader::Command& command);
  void obey_receiver(Kind kind, const Id& id);
  void obey_sender(Kind kind, Tag tag, const Body& body);
  /// A command of ours about a large message. Never fails.
  void say(Kind kind, const Id& id, std::uint64_t bytes = 0);
  bool has_commands() const noexcept { return said_ < unsaid_.size(); }

  // of sends
  /// False if there is no room at the moment.
  bool start(LocalOperation& send);
  /// @return bytes written
  std::size_t write();

  // of receives
  void take_eager(Tag tag, BytesView bytes);
  /// A message without a receive finds one, or waits for it.
  void arrive(Message& message);
  /// A receive without a message finds one, or waits for it.
  void await(LocalOperation& receive);
  void meet(LocalOperation& receive, Message& message);
  void put(LocalOperation& receive, BytesView bytes) noexcept;
  void free_eager(std::size_t bytes) noexcept;
  /// Of a message whose receive was given up: it is announced again.
  void stop(Message& message);
  void cut(const Body& body);
  void revoke(const Body& body);
  /// @return bytes read
  std::size_t read(std::size_t available);

  Rank rank_;
  Mapping inbox_;
  Lane& its_lane_;
  Lane& my_lane_;
  Pool& pool_;
  core::Errc lost_code_{};  // why it is lost
  std::string lost_reason_;

  CommandWriter commands_out_;
  std::vector<Command> unsaid_;  // for which there was no room, from said_ on
  std::size_t said_ = 0;
  DataWriter data_out_;
  std::uint64_t eager_slots_written_ = 0, eager_slots_freed_ = 0;  // ever
  List<LocalOperation> queued_;                                    // sends
  List<LocalOperation> writing_, written_;  // sends that are pulled, in the order of the pulls

  CommandReader commands_in_;
  DataReader data_in_;
  std::uint64_t arrivals_ = 0, freed_slots_ = 0;  // ever
  List<LocalOperation> receives_;                 // without a message
  List<Message> arrived_;                         // without a receive
  List<Message> pulled_;  // and what is left of those that were cut, in the order of the pulls
};

}  // namespace tremula::transport::local
