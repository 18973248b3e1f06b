// SPDX-License-Identifier: Apache-2.0
#pragma once
// The only place where a plan meets a transport: carries the steps of one link of one rank.
//
// When a consumer rank has unpacked a step it credits each of its producer ranks; a producer rank
// sends step s to a peer only when that peer has credited step s - queue_depth. All staging is
// sized when the exchange is made; no step allocates memory for data. Nothing here blocks.
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "client/exchange_plan.hpp"
#include "core/buffer.hpp"
#include "proto/package_header.hpp"
#include "transport/transport.hpp"

namespace tremula::client {

using HeaderBytes = std::array<std::byte, proto::package_header_bytes>;

/// Counted exactly, since the exchange was made.
struct ExchangeCounters {
  std::uint64_t steps = 0, packages = 0, bytes = 0;
};

/// The producer's end.
class OutExchange {
public:
  /// @param endpoint  connected; must outlive this object
  OutExchange(ExchangePlan plan, transport::Endpoint& endpoint, std::uint64_t link,
              std::uint64_t first_step, int queue_depth);

  /// True when `step` may be packed: its staging is free and every peer has credited step -
  /// queue_depth. Makes progress.
  bool is_ready(std::uint64_t step);
  /// Packs one field of `step`.  @pre is_ready(step) was true
  void pack(std::uint64_t step, std::size_t field, std::span<const std::byte> local);
  /// Posts the messages of `step`.  @pre every field of it was packed
  void send(std::uint64_t step);
  /// Tells every peer that `step` does not exist, nor any after it.  @pre is_ready(step) was true
  void send_end(std::uint64_t step);
  /// True when every peer has credited all steps before `step`. Makes progress.
  bool is_credited(std::uint64_t step);
  /// True when nothing that was sent is on its way any more. Makes progress.
  bool is_idle();
  /// True when every peer, and there is one, has told that it wants no further steps.
  bool has_left() const noexcept;

  const ExchangePlan& plan() const noexcept { return plan_; }
  const ExchangeCounters& counters() const noexcept { return counters_; }

private:
  struct Slot {
    core::Buffer staging;
    std::vector<std::span<std::byte>> bytes;   // parallel to plan_.messages
    std::vector<transport::Request> requests;  // parallel to plan_.messages
  };
  struct Credit {
    std::uint64_t credited = 0;  // steps before this one are credited
    bool has_left = false;
    HeaderBytes bytes;
    transport::Request request;
  };
  Slot& slot(std::uint64_t step) { return slots_[step % slots_.size()]; }
  void post(Slot& slot, std::size_t message, const proto::PackageHeader& header, std::size_t bytes);
  void take_credits();
  /// True when nothing of the slot is on its way any more.
  bool is_free(Slot& slot);

  ExchangePlan plan_;
  transport::Endpoint& endpoint_;
  std::uint64_t link_;
  std::vector<Credit> credits_;  // parallel to plan_.messages
  std::vector<Slot> slots_;
  ExchangeCounters counters_;
};

/// The consumer's end.
class InExchange {
public:
  InExchange(ExchangePlan plan, transport::Endpoint& endpoint, std::uint64_t link, int queue_depth);

  /// What is known of the step in turn.
  enum class State { nothing, step, end };
  /// `step` as soon as a first message of it is here, `end` when every peer has told that there are
  /// no more. Makes progress.
  State poll();
  /// Number of the step in turn, as the producer counts.  @pre poll() was State::step
  std::uint64_t step() const noexcept { return step_; }
  /// Forgets what was unpacked of `field` in this step: a new buffer follows.
  void begin_again(std::size_t field);
  /// Unpacks what has arrived of `field` since the last call for it; true when all of it is in
  /// `local`.
  bool unpack_some(std::size_t field, std::span<std::byte> local);
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

  const ExchangePlan& plan() const noexcept { return plan_; }
  const ExchangeCounters& counters() const noexcept { return counters_; }

private:
  struct Incoming {
    std::span<std::byte> bytes;
    transport::Request request;
    bool has_arrived = false;
    std::vector<bool> is_unpacked;  // per part
    HeaderBytes credit;
    transport::Request credit_request;
  };
  struct Slot {
    core::Buffer staging;
    std::vector<Incoming> incoming;  // parallel to plan_.messages
  };
  Slot& slot() { return slots_[turn_ % slots_.size()]; }
  /// Every peer has told the end.
  bool is_ended() const noexcept { return ended_ == plan_.messages.size(); }
  void receive(Slot& slot, std::size_t message);
  void take_arrived();
  void take(std::size_t message, std::size_t bytes);
  void tell(std::size_t message, proto::PackageKind kind, std::uint64_t step);

  ExchangePlan plan_;
  transport::Endpoint& endpoint_;
  std::uint64_t link_;
  std::vector<Slot> slots_;
  std::uint64_t turn_ = 0;  // steps finished
  std::uint64_t step_ = 0;
  std::size_t arrived_ = 0, ended_ = 0;  // messages of the step in turn
  ExchangeCounters counters_;
};

}  // namespace tremula::client
