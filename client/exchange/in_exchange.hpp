// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <vector>

#include "client/exchange/exchange.hpp"
#include "client/exchange/path/copy_threads.hpp"
#include "client/exchange/path/mismatch.hpp"
#include "client/exchange/path/part_reader.hpp"
#include "core/buffer.hpp"

namespace tremula::client {

/// The consumer's end of an exchange. All staging is sized when the exchange is made; no step
/// allocates memory for data.
class InExchange {
public:
  /// @param endpoint  connected; must outlive this object, and so must `threads`
  InExchange(ExchangePlan plan, transport::Endpoint& endpoint, std::uint64_t link, int queue_depth,
             CopyThreads& threads);

  /// What is known of the step in turn.
  enum class State { nothing, step, end };
  /// `step` as soon as a first message of it is here, `end` when every peer has told that there are
  /// no more. Makes progress.
  State poll();
  /// Number of the step in turn, as the producer counts.  @pre poll() was State::step
  std::uint64_t step() const noexcept { return step_; }
  /// Steps finished.
  std::uint64_t steps() const noexcept { return turn_; }
  /// Forgets what was fetched of `field` in this step: a new buffer follows.
  void begin_again(std::size_t field);
  /// Fetches what can be had of `field` since the last call for it; true when all of it is in
  /// `local`. Makes progress.
  bool fetch_some(std::size_t field, std::span<std::byte> local);
  /// @throws core::Error mismatch if a value that was fetched did not fit its new type; once
  void tell_mismatch() { mismatch_.tell(); }
  /// After a failure: from now on nobody writes into a buffer that fetch_some was given.
  void give_up_fetching() noexcept;
  /// True when every message of the step in turn is here. Makes progress.
  bool is_complete();
  /// True when the step is complete and the credits of the step queue_depth before it are on their
  /// way.
  bool can_finish_step();
  /// Frees the step's staging for the step queue_depth later, credits the producers and goes on to
  /// the next step.
  /// @pre can_finish_step()
  void finish_step();
  /// Tells every producer rank that the end was seen (after State::end) or that no further step is
  /// wanted.
  /// @pre not called before; is_told() was true
  void leave();
  /// True when all credits, and what leave() sent, are on their way. Makes progress.
  bool is_told();
  /// True when all credits are on their way and no message has come in part. Makes progress.
  bool is_idle();

  const ExchangePlan& plan() const noexcept { return plan_; }
  /// Bytes that went to or came from peers that had to be waited for, piece by piece.
  std::uint64_t moved() const noexcept { return moved_; }
  /// With one peer, by the number of its message in the plan.
  const Traffic& traffic(std::size_t message) const { return peers_[message].traffic; }
  /// With all peers together.
  Traffic traffic() const noexcept;

private:
  struct Incoming {
    std::span<std::byte> bytes;
    std::vector<transport::Request> requests;  // of its segments
    std::size_t segments_here = 0;
    bool has_arrived = false;
    bool is_placed = false;                // its payload tells where the parts are
    std::vector<proto::PartPlace> places;  // || parts, if is_placed
    std::vector<bool> is_fetched;          // || parts
    HeaderBytes credit;
    transport::Request credit_request;
  };
  struct Slot {
    core::Buffer staging;
    std::unique_ptr<transport::MemoryRegion> region;  // of it
    std::vector<Incoming> incoming;                   // || plan_.messages
  };
  /// A part that was asked for and is not here yet.
  struct Asked {
    bool is_open = false;
    Index done = 0, posted = 0;  // elements
    std::size_t pieces_done = 0, pieces_posted = 0;
    std::optional<transport::local::Loan> loan;  // the producer writes it there
  };
  struct Peer {
    bool is_near = false;
    Traffic traffic;
    Asked asked;
    AskBytes ask;
    transport::Request ask_request;
    transport::local::ChunkRing ring;  // near
    std::uint64_t ring_region = 0;
    std::vector<std::span<std::byte>> bounce;                 // far: pieces_under_way
    std::array<transport::Request, pieces_under_way> pieces;  // far
    PartReader reader;                                        // far
    std::vector<std::optional<bool>> is_read;                 // || parts, once known
    HeaderBytes delivered;
    transport::Request delivered_request;
  };

  Slot& slot() { return slots_[turn_ % slots_.size()]; }
  /// Every peer has told the end.
  bool is_ended() const noexcept { return ended_ == plan_.messages.size(); }
  /// The whole step comes in the message.
  bool is_sent(std::size_t message) const { return !is_direct_ && !peers_[message].is_near; }
  void receive(Slot& slot, std::size_t message);
  void take_arrived();
  /// True when all of the message is here.
  bool has_arrived(std::size_t message);
  /// False if it tells the end of the stream.
  bool take_header(std::size_t message, std::size_t bytes);
  /// @pre all of the message is here
  void take_places(std::size_t message);
  void tell(std::size_t message, proto::PackageKind kind, std::uint64_t step);
  bool fetch(std::size_t message, std::size_t part, std::span<std::byte> local);
  /// False if it cannot be asked for at the moment.
  bool ask_for(std::size_t message, std::size_t part, std::span<std::byte> local);
  void tell_wish(std::size_t message, const proto::PartPlace& place);
  bool take_delivery(Peer& peer, Rank rank);
  bool take_from_ring(std::size_t message, const Message::Part& part, const proto::PartPlace& place,
                      std::span<std::byte> local);
  bool take_pieces(std::size_t message, const Message::Part& part, std::span<std::byte> local);
  /// Whether the part is read by RMA.
  bool is_read(std::size_t message, std::size_t part, const proto::PartPlace& place,
               std::span<const std::byte> local);
  bool read(std::size_t message, std::size_t part, std::span<std::byte> local);

  ExchangePlan plan_;
  transport::Endpoint& endpoint_;
  std::uint64_t link_;
  CopyThreads& threads_;
  bool is_direct_;  // queue_depth 0: nothing is staged
  transport::local::Mappings mappings_;
  std::uint64_t moved_ = 0;
  Mismatch mismatch_;
  core::Buffer bounce_;
  std::unique_ptr<transport::MemoryRegion> bounce_region_;
  std::unique_ptr<transport::MemoryRegion> target_;  // of the buffer that is fetched into
  std::vector<Peer> peers_;                          // || plan_.messages
  std::vector<Slot> slots_;
  std::uint64_t turn_ = 0;  // steps finished
  std::uint64_t step_ = 0;
  std::size_t begun_ = 0, arrived_ = 0, ended_ = 0;  // messages of the step in turn
};

}  // namespace tremula::client
