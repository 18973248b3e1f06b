// SPDX-License-Identifier: Apache-2.0
#pragma once
// All that one rank of a job moves when arrays go from one layout of the job to another. Pure: no
// transport, no memory moved.
//
// Between two ranks goes one message: the packages of all updates one after the other, without
// headers, each in the order of the producer's memory. A long one goes in segments, cut alike on
// both sides.
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "client/exchange/plan/update.hpp"
#include "index_calc/plan/plan_cache.hpp"

namespace tremula::client::redistribute {

class RedistributionPlan {
public:
  struct Array {
    index_calc::Transformation transformation;
    index_calc::Plan outgoing, incoming;
    index_calc::LocalPart from, to;  ///< `to` in the dimensions of `from`
    index_calc::Order wire_order = index_calc::Order::row;
    index_calc::Order write_order = index_calc::Order::row;  ///< in which `to` is written best
    std::size_t closest = 0;  ///< the dimension of `from` that is closest in the consumer's memory
    std::size_t from_width = 0, to_width = 0;  ///< bytes of an element
  };
  /// The elements of one update in a message.
  struct Part {
    std::size_t array = 0;
    index_calc::Package package;
    /// Byte of the buffer where it begins if it lies there in one piece as on the wire.
    std::optional<std::size_t> contiguous_at;
  };
  struct Message {
    Rank peer = 0;
    std::vector<Part> parts;  ///< in the order of the updates
    std::size_t bytes = 0;
    std::size_t segment_bytes = 0;  ///< that go at once to a peer on the same machine
  };

  /// @param size  ranks of the job
  /// @throws core::Error as make_plan, and naming the update that no group of `size` ranks can make
  RedistributionPlan(std::span<const Update> updates, Rank me, Rank size,
                     const index_calc::PlanOptions& options = {});
  RedistributionPlan(const RedistributionPlan&) = delete;  // messages refer to plans

  std::span<const Array> arrays() const noexcept { return arrays_; }
  /// Beginning with the next rank, and going round. None is empty.
  std::span<const Message> sends() const noexcept { return sends_; }
  std::span<const Message> receives() const noexcept { return receives_; }
  /// What stays on this rank.
  std::span<const Part> own() const noexcept { return own_; }
  double seconds() const noexcept { return seconds_; }  ///< spent on it
  /// The same on all ranks that passed the same updates.
  std::uint64_t fingerprint() const noexcept { return fingerprint_; }
  /// Most that goes at once to a peer of a job of `size` ranks, and what goes to one on another
  /// machine.
  static std::size_t segment_bytes(Rank size) noexcept;
  /// What goes at once of a message, the same on both sides.
  std::size_t segment_bytes(const Message& message, bool is_near) const noexcept {
    return is_near ? message.segment_bytes : segment_bytes_;
  }

private:
  void add(const Update& update, Rank me, const index_calc::PlanOptions& options);
  void add_messages(Rank me, Rank size);

  std::vector<Array> arrays_;
  std::vector<Message> sends_, receives_;
  std::vector<Part> own_;
  double seconds_ = 0;
  std::uint64_t fingerprint_ = 0;
  std::size_t segment_bytes_ = 0;
};

/// A stretch of a part that goes in one segment.
struct Piece {
  const RedistributionPlan::Part* part = nullptr;
  index_calc::Stretch stretch;
  std::size_t at = 0;  ///< byte of the segment
  std::size_t bytes = 0;
};

/// Cuts a message into segments.
class Segments {
public:
  /// @param bytes  of a segment, at most
  Segments(const RedistributionPlan& plan, const RedistributionPlan::Message& message,
           std::size_t bytes)
      : plan_(plan), message_(message), bytes_(bytes) {}
  bool is_at_end() const noexcept { return part_ == message_.parts.size(); }
  /// Fills `pieces` with those of the next segment.
  /// @pre not at the end
  /// @return bytes of the segment
  std::size_t next(std::vector<Piece>& pieces);

private:
  const RedistributionPlan& plan_;
  const RedistributionPlan::Message& message_;
  std::size_t bytes_;
  std::size_t part_ = 0;
  Index first_ = 0;  // element of the part
};

}  // namespace tremula::client::redistribute
