// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "client/exchange/answers.hpp"
#include "client/exchange/changing.hpp"
#include "client/exchange/memory/memory_view.hpp"
#include "client/exchange/memory/readable.hpp"
#include "core/buffer.hpp"

namespace tremula::client {

/// Data of a step in addition to its arrays.
struct StepMetadata {
  std::optional<std::int64_t> time{};
  core::BytesView attributes{};  ///< encoded (proto/attributes.hpp)
  /// Counts of each changing field, see ChangingPlan::update. Parallel to the fields of the plan;
  /// empty if no field changes.
  std::span<const std::vector<Index>> counts{};
};

/// The source end of an exchange: the steps of one link on one rank. No call blocks.
///
/// Each step that is put gets a turn, 0, 1, ..., and holds a slot until every peer has credited it:
///
///     turns      first_                                                turns()
///                  | announced, not credited | kept, not yet announced |    idle slots
///     a peer:   credited                   told <= claimed
///
/// Without Queue::keeps every step is announced at once. With it, a step is announced to a peer
/// when the peer has claimed its turn, and a step that no rank has announced to any peer can be
/// withdrawn: the turns after it move down by one. All ranks of the source withdraw, and leave out,
/// the same steps (freeze, admit), so that all ranks of the sink see the same ones. With
/// Queue::is_latest, announcements to quick peers stop early enough to leave room for the newest
/// step: told <= turns that all peers had credited at the last admit() + slots - 1.
///
/// The end-of-stream marker gets its own slot after the last step, even when the queue is full, so
/// a sink learns that no step follows before it has credited the last ones.
///
/// All memory is sized by the plan and allocated when first needed. No later step allocates memory
/// for data, except for changing fields.
class Source {
public:
  /// @param endpoint  connected; must outlive this object, and so must `threads`
  /// @param paths     to choose from
  Source(ExchangePlan plan, transport::Endpoint& endpoint, std::uint64_t link,
         std::uint64_t first_step, Queue queue, CopyThreads& threads, Paths paths = all_paths());
  ~Source();
  Source(const Source&) = delete;

  /// When the oldest lent step was first offered to a peer; nullopt if none is lent, or not offered
  /// yet.
  std::optional<core::Deadline::Clock::time_point> lent_since() const noexcept {
    return order_.empty() ? std::nullopt : slots_[order_.front()].told_at;
  }
  /// True when the next step may be put, as a slot is idle, or will be left out. Makes progress.
  bool poll_room();
  /// True when a slot is idle, whether or not the next step will be left out. Makes progress.
  bool poll_slot() {
    advance();
    return !idle_.empty();
  }
  /// State of the queue as one rank knows it.
  struct Known {
    std::uint64_t told = 0;  ///< turns [0, told) have been announced to a peer
    std::uint64_t done = 0;  ///< turns [0, done) no longer hold a slot
  };
  bool drops() const noexcept { return queue_.when_full != WhenFull::block; }
  bool is_shared() const noexcept { return queue_.is_shared; }
  /// Returns whether the ranks of the source agree on every step.
  bool is_agreed() const noexcept { return drops() || is_shared(); }
  /// Stops announcements to peers until admit(), deal() or thaw().
  /// @return state of the queue as this rank knows it
  Known freeze() noexcept;
  /// Decides, as every rank does, whether the next step is taken (takes_step()), and whether a kept
  /// step is withdrawn to make room. Ends a freeze().
  /// @param of_all  maximum of `told` and minimum of `done` over all ranks
  void admit(const Known& of_all);
  /// Ends a freeze() where several links share the steps.
  /// @param takes_step  whether this link takes the next step
  void deal(bool takes_step) noexcept { is_frozen_ = false, takes_ = takes_step; }
  /// Steps in flight, as agreed by all ranks. Equal to most_load() when the queue is full.
  std::uint64_t load(const Known& of_all) const noexcept { return turns() - of_all.done; }
  std::uint64_t most_load() const noexcept { return depth(); }
  /// Ends a freeze() without a decision.
  void thaw() noexcept { is_frozen_ = false; }
  bool takes_step() const noexcept { return takes_; }
  /// Counts a step that is left out, in place of put() and send().  @pre !takes_step()
  void leave_out() noexcept { dropped_ += is_shared() ? 0U : 1U; }
  /// Returns the number of steps left out or withdrawn, without those that went over another link
  /// that shares them.
  std::uint64_t dropped() const noexcept { return dropped_; }
  /// Returns the largest number of steps that held a slot at one time.
  std::uint64_t most_steps() const noexcept { return most_steps_; }
  /// Returns the bytes of most_steps() steps on this rank.
  std::uint64_t most_bytes() const noexcept { return most_steps_ * step_bytes_; }
  /// Returns whether a step may outlive the call that puts it.
  bool is_queued() const noexcept { return queue_.depth > 0; }
  /// Takes one field of `step`.  @pre poll_room() was true
  /// @param may_lend  `array` stays unchanged until poll_credit(step + 1). With queue_depth 0 it
  ///                  always does; otherwise a step that is kept is always copied.
  /// @throws core::Error unsupported if the array is not in host memory
  void put(std::uint64_t step, std::size_t field, ConstMemoryView array, bool may_lend);
  /// Announces `step` to every peer; with Queue::keeps, to a peer once it has claimed the step. The
  /// attributes go to the peers that get a message in any case: to each rank of the sink once, from
  /// one rank of the source. The other peers get their hash.
  /// @pre every field of it was put
  void send(std::uint64_t step, const StepMetadata& metadata = {});
  /// True when the end may be sent after all steps before `step`. Makes progress.
  bool poll_end(std::uint64_t step) {
    most_told_ = ~std::uint64_t{0};  // nothing needs room any more
    return !queue_.keeps() || poll_credit(step);
  }
  /// Announces to every peer that neither `step` nor any later step follows.  @pre poll_end(step)
  /// @param kind  end_of_stream; or redeclared if steps follow over another exchange
  void send_end(std::uint64_t step, proto::MessageKind kind = proto::MessageKind::end_of_stream);
  /// True when every peer has credited all steps before `step`, and nothing is on its way. Makes
  /// progress, and serves what peers ask for.
  bool poll_credit(std::uint64_t step);
  /// True when no peer needs an array that was put before `step`, as far as is known.
  bool has_credited(std::uint64_t step) const noexcept;
  /// Reclaims lent arrays even if peers have not read them. A peer that maps the memory keeps a
  /// copy of its current contents. With queue_depth 0 the exchange cannot be used afterwards.
  void take_back() noexcept;
  /// Makes progress.
  /// @return whether no transfer is in flight and, with Queue::keeps, every step is credited
  bool advance();
  /// True while an answer from the peer of message `message` is missing.
  bool is_owed(std::size_t message) const noexcept {
    return !peers_[message].has_left && peers_[message].credited < turns();
  }
  /// True while the oldest step that holds a slot waits for the credit of the peer.
  bool is_awaited(std::size_t message) const noexcept {
    return !order_.empty() && !peers_[message].has_left && peers_[message].credited <= first_;
  }
  /// Returns the number of steps from the oldest one that a peer has not credited up to `next`,
  /// which is not counted.
  std::uint64_t behind(std::uint64_t next) const noexcept {
    return order_.empty() ? 0 : next - slots_[order_.front()].step;
  }
  /// Returns the turn of the oldest step that holds a slot.
  std::uint64_t first_turn() const noexcept { return first_; }
  /// Returns the number of turns: steps put and not withdrawn, and the end once it is sent.
  std::uint64_t turns() const noexcept { return first_ + order_.size(); }
  bool has_left(std::size_t message) const noexcept { return is_over(peers_[message]); }
  /// True when there are peers, and all of them have reported that they want no further steps.
  bool has_left() const noexcept;

  /// Appends what changes when advance() can continue: the endpoint's wake descriptor and words of
  /// shared memory.
  void list_waits(WaitWords& words);

  const ExchangePlan& plan() const noexcept { return plan_; }
  /// Returns the bytes moved to peers chunk by chunk, while they were waited for.
  std::uint64_t moved() const noexcept { return moved_; }
  /// Returns the traffic with one peer, by the number of its message in the plan.
  const Traffic& traffic(std::size_t message) const { return peers_[message].traffic; }
  /// Returns the traffic summed over all peers.
  Traffic traffic() const noexcept;
  /// Returns the path that the last part of a message took; before the first part, the path of
  /// arrays that are not lent.
  std::string_view path(std::size_t message) const { return paths_[peers_[message].last]->name(); }

private:
  /// What is told of one step to one peer.
  struct Told {
    std::span<std::byte> bytes;
    std::vector<std::uint8_t> path_of;  // shape: [part]; a position in paths_
    std::uint32_t used = 0;             // paths, a bit for each
    std::size_t parts_put = 0;
    std::vector<std::uint64_t> hashes;  // shape: [part]; if the plan proves
    transport::Request request, attributes, changing;
    std::optional<core::Deadline::Clock::time_point> sent_at;  // until it is known to be sent
  };
  struct Slot {
    std::uint64_t step = ~std::uint64_t{0};                    // in it
    std::optional<core::Deadline::Clock::time_point> told_at;  // to the first peer
    std::optional<std::int64_t> time;
    core::Bytes attributes;
    std::uint32_t attribute_hash = 0;
    std::vector<Told> told;  // parallel to plan_.messages
  };
  struct Peer {
    // each is a count: turns [0, n) have been credited / announced / claimed
    std::uint64_t credited = 0, told = 0, claimed = 0;
    bool has_left = false;
    std::size_t usual = 0, last = 0;  // of paths_: if nothing is lent; that was taken last
    Traffic traffic;
    AnswerBytes answer;
    transport::Request request;
    std::unique_ptr<Way> way;
    std::vector<std::unique_ptr<SourceEnd>> ends;  // parallel to paths_; made when needed first
  };

  std::size_t depth() const noexcept { return slots_.size() - 1; }
  std::size_t end_slot() const noexcept { return depth(); }
  /// It has left, or taken everything and the end, too: no answer follows, and it may be gone.
  bool is_over(const Peer& peer) const noexcept {
    return peer.has_left || (has_told_end_ && peer.credited == turns());
  }
  std::size_t slot_at(std::uint64_t turn) const { return order_[turn - first_]; }
  /// The slot that `step` is put into.
  std::size_t slot_for(std::uint64_t step);
  /// The step in the slot has the next turn.
  void line_up();
  void withdraw(std::uint64_t turn);
  /// Slots that no peer needs any longer are idle again.
  void retire();
  /// Tells every peer of what it may be told of.
  void tell_peers();
  void tell(std::size_t message, std::uint64_t turn);
  bool is_all_credited(std::uint64_t step) const noexcept;
  SourceEnd& end(Peer& peer, std::size_t path);
  PartFacts facts(std::size_t message) const;
  std::size_t chosen(const PartFacts& facts) const;
  void begin(std::size_t slot, std::uint64_t step);
  std::size_t tell_places(std::size_t slot, std::size_t message);
  void take_answers();
  void serve(std::size_t message, const proto::MessageHeader& header, core::BytesView said);
  /// The peer may still touch what was lent in the slot.
  bool is_untaken(std::uint64_t turn, std::size_t message) const;
  /// True when nothing of the slot is on its way any more.
  bool poll_sent(std::size_t slot);

  ExchangePlan plan_;
  transport::Endpoint& endpoint_;
  std::uint64_t link_;
  CopyThreads& threads_;
  Paths paths_;
  Queue queue_;
  std::uint64_t first_step_;
  bool is_any_near_ = false, is_any_far_ = false;
  std::uint64_t moved_ = 0;
  ChunkPool chunks_;
  std::unique_ptr<StepStaging> staging_;
  core::Buffer told_;
  std::unique_ptr<transport::MemoryRegion> told_region_;
  transport::local::Mappings mappings_;
  std::unique_ptr<ChangingSource> changing_;  // null if no field changes
  std::vector<Readable> readable_;            // parallel to plan_.fields
  std::vector<SourceArrays> arrays_;          // shape: [slot]
  std::vector<Slot> slots_;                   // the last one: of the end
  std::deque<std::size_t> order_, idle_;      // slots: of turns from first_ on; free ones
  std::optional<std::size_t> putting_;        // slot of the step that is not sent yet
  std::uint64_t first_ = 0;                   // turn
  std::uint64_t most_told_;                   // no turn from this one on is
  std::uint64_t dropped_ = 0, most_steps_ = 0, step_bytes_ = 0;
  bool takes_ = true, is_frozen_ = false, has_told_end_ = false;
  std::vector<Peer> peers_;  // parallel to plan_.messages; last: its ends use the above
};

}  // namespace tremula::client
