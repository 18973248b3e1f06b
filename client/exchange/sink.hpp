// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <exception>
#include <memory>
#include <optional>
#include <vector>

#include "client/exchange/answers.hpp"
#include "client/exchange/changing.hpp"
#include "client/exchange/memory/memory_view.hpp"
#include "client/exchange/memory/mismatch.hpp"
#include "core/buffer.hpp"
#include "proto/attributes.hpp"

namespace tremula::client {

/// The sink end of an exchange: the steps of one link on one rank. No call blocks. All memory is
/// sized by the plan and allocated when first needed; no later step allocates memory for data,
/// except for changing fields.
class Sink {
public:
  /// @param endpoint  connected; must outlive this object, and so must `threads`
  /// @param paths     that the source may choose from
  Sink(ExchangePlan plan, transport::Endpoint& endpoint, std::uint64_t link, Queue queue,
       CopyThreads& threads, Paths paths = all_paths());

  /// State of the current step.
  enum class State { nothing, step, end };
  /// Returns `step` once a first message of the current step has arrived, and `end` once every peer
  /// has announced that no more steps follow. Makes progress.
  State poll();
  /// Returns whether, after State::end, steps follow over another exchange because the source has
  /// declared its layouts again.
  bool is_redeclared() const noexcept { return is_redeclared_; }
  /// Returns the number of the current step, as the source counts.  @pre poll() was State::step
  std::uint64_t step() const noexcept { return step_; }
  /// Returns the time of the current step, in the unit of the stream; nullopt if it has none.
  /// @pre poll_complete() was true
  std::optional<std::int64_t> time() const noexcept { return time_; }
  /// Returns the attributes of the current step.  @pre poll_complete() was true
  const proto::Attributes& attributes() const noexcept { return attributes_; }
  /// Asks for the current step, once, if the source keeps steps until they are claimed.
  void claim();
  /// Returns how many steps before the current one, or before the end, went over no link.
  std::uint64_t dropped() const noexcept { return queue_.is_shared ? 0 : dropped_; }
  /// Returns the number of finished steps.
  std::uint64_t steps() const noexcept { return turn_; }
  /// This rank's layout of a variable-extent field in the current step.  @pre poll_complete() was
  /// true
  const index_calc::Layout& layout(std::size_t field) const { return changing_->layout(field); }
  /// Forgets what was fetched of `field` in this step: a new array follows.
  void begin_again(std::size_t field);
  /// Fetches what has become available of `field` since the last call for it. Makes progress.
  /// @return whether all of it is in `array`
  /// @throws core::Error unsupported if the array is not in host memory
  bool fetch_some(std::size_t field, MemoryView array);
  /// Throws, once, if a fetched value did not fit its new type or a part does not have the hash
  /// that its source has sent.
  /// @throws core::Error mismatch
  void rethrow_mismatch();
  /// Gives up fetching after a failure: from now on no rank writes into an array passed to
  /// fetch_some().
  void give_up_fetching() noexcept;
  /// True when all of the current step has arrived or can be fetched. Makes progress.
  bool poll_complete();
  /// The step after the current one, as far as its first message shows.
  struct Next {
    State state = State::nothing;
    std::optional<std::int64_t> time;  ///< of a step
  };
  /// Looks at the step after the current one, without taking any of it or finishing the current
  /// one. Makes progress.
  /// @pre poll_complete() was true; the source announces at least two steps without a credit
  /// @throws core::Error unsupported if the source has declared its layouts again before that step
  Next look_ahead();
  /// True while a look_ahead() that found nothing is pending; reset by claim().
  bool looks_ahead() const noexcept { return looks_ahead_; }
  /// True when the step is complete and the credits of the step queue_depth before it have been
  /// sent.
  bool poll_finish();
  /// Frees the step's room for the step queue_depth later, credits the sources and moves on to the
  /// next step.
  /// @pre poll_finish()
  void finish_step();
  /// Reports to every source rank that the end was seen (after State::end) or that no further step
  /// is wanted.
  /// @pre not called before; poll_told() was true
  void leave();
  /// True when all credits and claims, and the messages of leave(), have been sent or have failed.
  /// Makes progress.
  bool poll_told();
  /// Returns the first failure of this side to send; null if there is none. It does not affect
  /// steps that have arrived: a peer may have sent them before it was lost.
  const std::exception_ptr& unsent() const noexcept { return unsent_; }
  /// Makes progress.
  /// @return whether all credits and claims have been sent and no step has arrived in part
  bool advance();

  /// Appends what changes when advance() can continue: the endpoint's wake descriptor and words of
  /// shared memory.
  void list_waits(WaitWords& words);

  /// True while anything from the peer of message `message` is missing, or a credit to it is not
  /// sent.
  bool is_owed(std::size_t message) const noexcept;

  /// True while the message of the current step or of the end, or one that a pending look_ahead()
  /// waits for, has not fully arrived.
  bool is_awaited(std::size_t message) const noexcept {
    return !slots_[slot()][message].has_arrived || is_next_awaited(message);
  }

  const ExchangePlan& plan() const noexcept { return plan_; }
  /// Returns the bytes moved from peers chunk by chunk, while they were waited for.
  std::uint64_t moved() const noexcept { return moved_; }
  /// Returns the traffic with one peer, by the number of its message in the plan.
  const Traffic& traffic(std::size_t message) const { return peers_[message].traffic; }
  /// Returns the traffic summed over all peers.
  Traffic traffic() const noexcept;
  /// Returns the path that the last part of a message took; before the first part, the path of
  /// arrays that are not lent.
  std::string_view path(std::size_t message) const { return paths_[peers_[message].last]->name(); }

private:
  /// What is known of one message of the step in a slot.
  struct Incoming {
    std::span<std::byte> told;
    transport::Request request;
    bool is_told = false, has_arrived = false;
    std::uint32_t used = 0;             // paths, a bit for each
    std::vector<std::uint8_t> told_of;  // shape: [part]; of paths_: as the source has told
    std::vector<std::uint8_t> path_of;  // shape: [part]; of paths_: that it takes
    std::vector<PartState> states;      // shape: [part]
    std::vector<std::uint64_t> hashes;  // shape: [part]; if the plan proves
    transport::Request changing;
    HeaderBytes credit;
    transport::Request credit_request;
  };
  struct Peer {
    Traffic traffic;
    AnswerBytes wish;
    transport::Request wish_request;
    HeaderBytes claim;
    transport::Request claim_request;
    std::uint64_t claimed = 0;  // turns before this one are
    std::unique_ptr<Way> way;
    std::vector<std::unique_ptr<SinkEnd>> ends;  // parallel to paths_; made when needed first
    std::size_t usual = 0, last = 0;  // of paths_: if nothing is lent; that was taken last
  };

  std::size_t slot() const { return turn_ % slots_.size(); }
  std::size_t next_slot() const { return (turn_ + 1) % slots_.size(); }
  bool is_next_awaited(std::size_t message) const noexcept {
    return looks_ahead_ && !slots_[next_slot()][message].request.is_finished();
  }
  std::vector<Incoming>& incoming() { return slots_[slot()]; }
  /// Every peer has told the end.
  bool is_ended() const noexcept { return ended_ == plan_.messages.size(); }
  SinkEnd& end(Peer& peer, std::size_t path);
  std::size_t position(const Path& path) const;
  void receive(std::size_t slot, std::size_t message);
  void take_arrived();
  /// True when all of the message is here.
  bool take_message(std::size_t message);
  /// False if it tells the end of the stream.
  bool take_header(std::size_t message, core::BytesView bytes);
  void take_places(std::size_t message, core::BytesView bytes);
  /// Of a step, with the message of one of its peers.
  void take_metadata(const Message& message, const proto::MessageHeader& header);
  /// True when the attributes of the step in turn are here, or there are none.
  bool take_attributes();
  /// Compares the attributes of the step in turn with what its other peers have set.
  /// @throws core::Error mismatch naming two ranks of the source
  void check_attributes() const;
  void tell(std::size_t message, proto::MessageKind kind, std::uint64_t step);
  /// True when a credit or a claim is on its way, or has failed: see unsent().
  bool poll_sent(transport::Request& answer) noexcept;
  bool tell_wish(std::size_t message, const proto::PartPlace& wish);
  /// Brings the part further; true when all of it is in its array.
  bool fetch(std::size_t message, std::size_t part);
  /// Whether the part is in its array as it was in the source's.
  void prove(std::size_t message, std::size_t part);
  /// Of a part whose source waits to be asked.
  std::size_t chosen(std::size_t message, std::size_t part);

  ExchangePlan plan_;
  transport::Endpoint& endpoint_;
  std::uint64_t link_;
  CopyThreads& threads_;
  Paths paths_;
  Queue queue_;
  transport::local::Mappings mappings_;
  std::uint64_t moved_ = 0;
  Mismatch mismatch_;
  std::unique_ptr<ChangingSink> changing_;  // null if no field changes
  std::exception_ptr unsent_;
  std::string not_proved_;  // the first part that is not what its source has hashed
  ChunkPool chunks_;
  std::unique_ptr<StepStaging> staging_;
  core::Buffer told_;
  std::unique_ptr<transport::MemoryRegion> told_region_;
  std::unique_ptr<transport::MemoryRegion> target_;  // of the array that is fetched into
  SinkArrays arrays_;
  std::vector<std::vector<Incoming>> slots_;  // shape: [slot][message]
  std::uint64_t turn_ = 0;                    // steps finished
  std::uint64_t step_ = 0, dropped_ = 0;
  bool looks_ahead_ = false, is_redeclared_ = false;
  std::size_t begun_ = 0, arrived_ = 0, ended_ = 0;  // messages of the step in turn
  std::optional<std::int64_t> time_;                 // of it
  Rank told_time_;                                   // first; it or that there is none
  proto::Attributes attributes_;                     // of it
  core::Bytes attribute_bytes_;                      // as they come; empty when they have
  /// Hash of the attributes of a rank of the source.
  struct OtherHash {
    Rank rank;
    std::uint32_t hash;
  };
  std::optional<OtherHash> other_hash_;  // of the first peer that does not send them
  Rank attributes_of_;                   // the peer that sends them
  transport::Request attribute_request_;
  std::vector<Peer> peers_;  // parallel to plan_.messages; last: its ends use the above
};

}  // namespace tremula::client
