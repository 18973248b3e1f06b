// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <vector>

#include "client/exchange/exchange.hpp"
#include "client/exchange/path/copy_threads.hpp"
#include "client/exchange/path/readable.hpp"
#include "core/buffer.hpp"

namespace tremula::client {

/// The producer's end of an exchange. Sends step s when every peer has credited step s -
/// queue_depth. All staging is sized when the exchange is made; no step allocates memory for data.
class OutExchange {
public:
  /// @param endpoint  connected; must outlive this object, and so must `threads`
  OutExchange(ExchangePlan plan, transport::Endpoint& endpoint, std::uint64_t link,
              std::uint64_t first_step, int queue_depth, CopyThreads& threads);
  ~OutExchange() { take_back(); }
  OutExchange(const OutExchange&) = delete;

  /// True when `step` may be put: its staging is free and every peer has credited step -
  /// queue_depth. Makes progress.
  bool is_ready(std::uint64_t step);
  /// Takes one field of `step`.  @pre is_ready(step) was true
  /// @param may_lend  `local` stays as it is until is_credited(step + 1): a part that a peer can
  /// map
  ///                  is not packed. With queue_depth 0 nothing is packed, whatever is said here.
  void put(std::uint64_t step, std::size_t field, std::span<const std::byte> local, bool may_lend);
  /// Posts the messages of `step`.  @pre every field of it was put
  void send(std::uint64_t step);
  /// Tells every peer that `step` does not exist, nor any after it.  @pre is_ready(step) was true
  void send_end(std::uint64_t step);
  /// True when every peer has credited all steps before `step`, and nothing is on its way. Makes
  /// progress, and serves what peers ask for.
  bool is_credited(std::uint64_t step);
  /// True when every peer has credited all steps before `step`, as far as is known.
  bool has_credited(std::uint64_t step) const noexcept;
  /// What is lent is the application's again, though peers may not have taken it: where they map
  /// it, they keep what it holds now. With queue_depth 0 the exchange is of no use afterwards.
  void take_back() noexcept;
  /// True when nothing that was sent is on its way any more. Makes progress.
  bool is_idle();
  /// True when every peer, and there is one, has told that it wants no further steps.
  bool has_left() const noexcept;

  const ExchangePlan& plan() const noexcept { return plan_; }
  /// Bytes that went to or came from peers that had to be waited for, piece by piece.
  std::uint64_t moved() const noexcept { return moved_; }
  /// With one peer, by the number of its message in the plan.
  const Traffic& traffic(std::size_t message) const { return peers_[message].traffic; }
  /// With all peers together.
  Traffic traffic() const noexcept;

private:
  struct Outgoing {
    std::span<std::byte> bytes;                // header and payload
    std::span<std::byte> packed;               // where parts are packed
    std::vector<bool> is_put;                  // || parts
    std::vector<transport::Request> requests;  // of its segments
    std::size_t posted = 0;                    // bytes
    bool is_on_wire = false;
    core::Deadline::Clock::time_point sent_at;  // its first segment
  };
  struct Slot {
    core::Buffer staging;
    std::unique_ptr<transport::MemoryRegion> region;  // of it
    std::vector<Outgoing> outgoing;                   // || plan_.messages
    std::vector<std::span<const std::byte>> lent;     // || plan_.fields; empty if nothing is lent
    std::vector<std::optional<transport::local::Loan>> loans;  // || plan_.fields
    std::uint64_t step = 0;                                    // in it
    bool is_mapped = false;    // near peers copy out of what is lent
    bool is_readable = false;  // far peers read what is lent
  };
  /// A part that a peer has asked for and does not have yet.
  struct Asked {
    bool is_open = false;
    Slot* slot = nullptr;
    std::size_t part = 0;
    Index done = 0;  // elements sent, or in the ring
    std::size_t pieces = 0;
    core::Deadline::Clock::time_point since;
  };
  struct Peer {
    std::uint64_t credited = 0;  // steps before this one are credited
    bool is_near = false, has_left = false;
    std::optional<core::Deadline::Clock::time_point> reads_since;  // it reads a local buffer
    Traffic traffic;
    AskBytes said;
    transport::Request request;
    Asked asked;
    transport::local::ChunkRing ring;                         // near
    std::vector<std::span<std::byte>> bounce;                 // far: pieces_under_way
    std::array<transport::Request, pieces_under_way> pieces;  // far
    HeaderBytes delivered;
    transport::Request delivered_request;
  };

  Slot& slot(std::uint64_t step) { return slots_[step % slots_.size()]; }
  /// The whole step goes in the message.
  bool is_sent(std::size_t message) const { return !is_direct_ && !peers_[message].is_near; }
  void begin(Slot& slot, std::uint64_t step);
  void make_staging();
  void make_rings();
  /// @param memory, region  of the field's local buffer, where it has them
  proto::PartPlace place_of(Slot& slot, std::size_t message, std::size_t part,
                            const std::optional<transport::local::Loan>& memory,
                            const transport::MemoryRegion* region);
  void end_reading(Peer& peer);
  void pack_stretch(const Message::Part& part, index_calc::Stretch stretch,
                    std::span<const std::byte> local, std::span<std::byte> wire);
  void pack(Slot& slot, std::size_t message, std::size_t part, std::span<const std::byte> local);
  void pack_and_post(Slot& slot, std::size_t message, std::size_t part,
                     std::span<const std::byte> local);
  /// Posts what is not posted of the first `bytes` of the message, in whole segments.
  void post(Slot& slot, std::size_t message, std::size_t bytes);
  proto::PackageHeader header_of(const Slot& slot, std::size_t message) const;
  void take_credits();
  void begin_to_serve(std::size_t message, const proto::PackageHeader& header,
                      core::BytesView said);
  void tell_delivered(std::size_t message, std::uint64_t step);
  void serve(std::size_t message);
  bool serve_by_ring(Peer& peer, const Message::Part& part);
  bool serve_by_messages(Peer& peer, Rank rank, const Message::Part& part);
  /// A peer may still copy out of what the slot lends.
  bool may_be_read(const Slot& slot) const;
  /// True when nothing of the slot is on its way any more.
  bool is_free(Slot& slot);

  ExchangePlan plan_;
  transport::Endpoint& endpoint_;
  std::uint64_t link_;
  CopyThreads& threads_;
  bool is_direct_;  // queue_depth 0: nothing is staged
  std::unique_ptr<transport::local::SharedMemory>
      shared_;  // what near peers map: packed parts or rings
  core::Buffer bounce_;
  std::unique_ptr<transport::MemoryRegion> bounce_region_;
  std::vector<Readable> readable_;  // || plan_.fields
  std::vector<Peer> peers_;         // || plan_.messages
  std::vector<Slot> slots_;
  transport::local::Mappings mappings_;
  std::uint64_t moved_ = 0;
};

}  // namespace tremula::client
