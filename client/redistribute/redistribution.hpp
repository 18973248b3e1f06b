// SPDX-License-Identifier: Apache-2.0
#pragma once
// Arrays of one job brought from one layout to another, again and again by one plan: no server, no
// stream. What stays on a rank is copied once, what goes elsewhere is packed and unpacked, segment
// by segment: on one machine through memory that both ranks map, to others by messages, and without
// either copy where a package lies in one piece.
//
// Source: COSTA paper, Eq. (14) and section 6, "Batched Transformation".
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "client/redistribute/near_rings.hpp"
#include "client/redistribute/redistribution_plan.hpp"
#include "core/buffer.hpp"
#include "transport/transport.hpp"

namespace tremula::client::redistribute {

/// Of one rank since the redistribution was made. Exact.
struct RedistributionStatistics {
  std::uint64_t runs = 0;
  std::uint64_t messages_sent = 0;  ///< segments of a long message one by one, heads not
  std::uint64_t bytes_sent = 0, bytes_received = 0;
  std::uint64_t bytes_kept = 0;    ///< that stayed on the rank, counted as they lie in `from`
  std::uint64_t copied_bytes = 0;  ///< by this rank's processor, counted as they lie in `from`
  double plan_seconds = 0;
};

/// Memory for segments on their way to and from ranks on other machines, lent to one run at a time:
/// as many buffers as one run had under way at most, none longer than the longest segment, however
/// many redistributions a job keeps.
class Staging {
public:
  core::Buffer take(std::size_t bytes) {
    if (idle_.empty()) return core::Buffer(bytes);
    core::Buffer buffer = std::move(idle_.back());
    idle_.pop_back();
    return buffer.bytes() < bytes ? core::Buffer(bytes) : std::move(buffer);
  }
  void give_back(core::Buffer buffer) {
    if (buffer.bytes() > 0) idle_.push_back(std::move(buffer));
  }
  /// Of what is not in use.
  std::size_t bytes() const noexcept {
    std::size_t sum = 0;
    for (const core::Buffer& buffer : idle_) sum += buffer.bytes();
    return sum;
  }

private:
  std::vector<core::Buffer> idle_;
};

class Redistribution {
public:
  /// @throws core::Error as RedistributionPlan
  Redistribution(std::span<const Update> updates, Rank me, Rank size,
                 const index_calc::PlanOptions& options = {});
  /// Collective. Returns when `from` may be changed and all of `to` is there.
  /// @param endpoint  reaches the ranks of the job by their numbers; nobody else sends by it now
  /// @param rings     for ranks that are near; none: all by endpoint. Counts the runs
  /// @param from, to  a buffer for each update; may not overlap
  /// @throws core::Error invalid_argument before anything is moved if a buffer is too short or two
  /// overlap; mismatch, when all is done, if a value did not fit its new type; timed_out naming the
  /// peers that are missing and other errors, after which the redistribution is of no use and
  /// `from` and `to` must stay. `to` is undefined after an error.
  void run(transport::Endpoint& endpoint, NearRings& rings, Staging& staging,
           std::span<const core::BytesView> from, std::span<const std::span<std::byte>> to,
           core::Deadline deadline);

  /// A run ended before its time: it and the ways to the peers are of no use any more.
  bool has_failed() const noexcept { return has_failed_; }
  const RedistributionPlan& plan() const noexcept { return plan_; }
  const RedistributionStatistics& statistics() const noexcept { return statistics_; }

private:
  class Run;
  void abandon(NearRings& rings) noexcept;
  /// What ranks tell each other before their elements, so that those that do other things are
  /// noticed: near ranks before each segment, others before each message.
  struct Head {
    std::uint64_t run = 0, plan = 0, bytes = 0;
    friend bool operator==(const Head&, const Head&) = default;
  };
  /// One segment on its way.
  struct Slot {
    core::Buffer buffer;
    std::vector<Piece> pieces;
    std::size_t bytes = 0;
    transport::Request request;
  };
  /// Of one message: those in use are `oldest` and the `used - 1` after it.
  struct Ring {
    std::vector<Slot> slots;
    std::size_t oldest = 0, used = 0;
    Head head;
    transport::Request head_request;
  };

  RedistributionPlan plan_;
  bool has_failed_ = false;
  std::vector<Ring> outgoing_, incoming_;  // shape: [message]
  RedistributionStatistics statistics_;
};

}  // namespace tremula::client::redistribute
