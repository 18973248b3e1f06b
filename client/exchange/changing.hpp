// SPDX-License-Identifier: Apache-2.0
#pragma once
// Fields whose extent varies from step to step. They have no parts in the plan and bypass the
// paths: what a pair of ranks shares is known only when the counts of the step are. The ranks of
// the source exchange their counts before the step is sent, so that each knows what it owes to
// which rank. Each sends its own count to every rank of the sink with the step (if the sink takes
// rows by keys: how many rows that rank gets from it). The elements that the two share of all such
// fields follow in one message:
//
//     elements of the first field, in wire order, those of the second one, ...      no padding
//
// Memory is sized by the largest step so far. Plans are kept for as long as the counts stay the same.
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "client/exchange/memory/copy_threads.hpp"
#include "client/exchange/memory/mismatch.hpp"
#include "client/exchange/memory/traffic.hpp"
#include "client/exchange/plan/exchange_plan.hpp"
#include "core/buffer.hpp"
#include "index_calc/layout/changing.hpp"

namespace tremula::client {

/// Bytes that grow to the most that was ever asked for.
class GrowingBuffer {
public:
  /// What was in it may be gone.
  std::span<std::byte> resize(std::size_t bytes) {
    if (bytes > buffer_.bytes()) buffer_ = core::Buffer(bytes + bytes / 2), ++growths_;
    return buffer_.span().first(bytes);
  }
  std::uint64_t growths() const noexcept { return growths_; }

private:
  core::Buffer buffer_;
  std::uint64_t growths_ = 0;
};

/// The layouts of one field in one step, and what this rank shares with which.
class ChangingPlan {
public:
  ChangingPlan(const ExchangePlan::Field& field, Rank me, index_calc::Role role);
  /// @param counts  shape: [coordinate of the source along the dimension that changes]
  void update(std::span<const Index> counts);
  std::optional<index_calc::Package> package_for(Rank peer) const {
    return plan_->package_for(peer);
  }
  const ExchangePlan::Field& field() const noexcept { return *field_; }
  const index_calc::Layout& layout() const noexcept { return mine_; }  ///< of this rank's side
  const index_calc::LocalPart& part() const noexcept { return part_; }
  std::size_t bytes_for(Rank peer) const;

private:
  const ExchangePlan::Field* field_;
  index_calc::Layout sink_;
  Rank me_;
  index_calc::Role role_;
  std::vector<Index> counts_;
  index_calc::Layout mine_;
  index_calc::LocalPart part_;
  std::optional<index_calc::Plan> plan_;  // none before the first step
};

/// The rows of a source rank in the order of the coordinates of the sink that take them.
class RowsByKey {
public:
  /// @param sink  its keys tell which rank takes what; must outlive this object
  explicit RowsByKey(const index_calc::Layout& sink) : sink_(&sink), grid_(sink) {}
  /// @param keys  64-bit integers, of the rows in the order in which the rank has them
  void update(core::BytesView keys);
  /// Numbers of the rows that `peer` takes, ascending.
  std::span<const std::size_t> rows_for(Rank peer) const;
  const index_calc::Layout& sink() const noexcept { return *sink_; }
  std::uint64_t growths() const noexcept { return growths_; }

private:
  const index_calc::Layout* sink_;
  index_calc::ProcessGrid grid_;
  std::vector<std::size_t> rows_, ends_;  // ends_: of each coordinate in rows_
  std::vector<Index> coordinates_;        // of each row
  std::uint64_t growths_ = 0;
};

class ChangingSource {
public:
  /// @param plan  must outlive this object, as `threads`
  ChangingSource(const ExchangePlan& plan, std::size_t slots, CopyThreads& threads);
  /// Of the step that is packed next.
  /// @param stays  until then; else it is copied
  void put(std::size_t field, core::BytesView array, bool stays);
  /// Packs what each peer gets.
  /// @param counts  parallel to the fields of the plan; see ChangingPlan::update
  /// @param traffic  of each message; parallel to the messages of the plan
  void pack(std::size_t slot, std::span<const std::vector<Index>> counts,
            std::span<Traffic* const> traffic);
  /// Writes what the sink is told of a message.  @param to  count_bytes(plan)
  void tell(std::size_t slot, std::size_t message, std::span<std::byte> to) const;
  /// The payload that follows the counts.
  core::BytesView bytes(std::size_t slot, std::size_t message) const;
  /// How often memory for rows was made.
  std::uint64_t growths() const noexcept;

private:
  struct Put {
    GrowingBuffer copy;
    core::BytesView array;
  };
  struct Slot {
    GrowingBuffer buffer;
    std::span<std::byte> packed;
    std::vector<std::size_t> ends;      // of each message in `packed`
    std::vector<std::uint64_t> counts;  // as they are told; shape: [message][plan_.changing]
  };
  /// Of field plan_.changing[k]: null unless its rows are taken by keys.
  const RowsByKey* rows_of(std::size_t k) const {
    return by_key_[k] ? &routes_[*by_key_[k]] : nullptr;
  }
  std::size_t bytes_for(std::size_t k, Rank peer) const;
  void pack(std::size_t k, Rank peer, std::span<std::byte> to);
  const ExchangePlan& plan_;
  CopyThreads& threads_;
  std::vector<ChangingPlan> plans_;                 // parallel to plan_.changing
  std::vector<Put> puts_;                           // likewise
  std::vector<std::size_t> row_bytes_;              // likewise; of this rank, in each row
  std::vector<RowsByKey> routes_;                   // fields whose keys say the same share one
  std::vector<std::optional<std::size_t>> by_key_;  // parallel to plan_.changing: number in routes_
  std::vector<Slot> slots_;
  std::uint64_t copied_ = 0;  // bytes, of the step that is packed next
};

class ChangingSink {
public:
  /// As for a source.
  ChangingSink(const ExchangePlan& plan, CopyThreads& threads, Mismatch& mismatch);
  /// What the source rank of a message has told of the step in turn.
  /// @return where the bytes that follow go; empty: none follow
  std::span<std::byte> take_told(std::size_t message, core::BytesView told);
  /// All of the step is here.
  /// @throws core::Error mismatch, protocol if what the ranks of the source have told does not fit
  void plan_step();
  /// Of the step in turn.  @pre plan_step()
  const index_calc::Layout& layout(std::size_t field) const;
  void unpack(std::size_t field, std::span<std::byte> array, std::span<Traffic* const> traffic);
  std::size_t bytes(std::size_t message) const noexcept { return from_[message].bytes.size(); }
  std::uint64_t growths() const noexcept;

private:
  struct From {
    GrowingBuffer buffer;
    core::BytesView bytes;
    std::vector<std::uint64_t> counts;  // parallel to plan_.changing
  };
  /// A row of the step: where its message has it.
  struct Row {
    std::int64_t key = 0;
    std::size_t message = 0, number = 0;
    std::size_t turn = 0;  ///< by ranks of the source, as they are there
  };
  /// Of field plan_.changing[k] in a message.
  core::BytesView bytes_of(std::size_t k, std::size_t message) const;
  void sort_rows(std::size_t k);
  const ExchangePlan& plan_;
  CopyThreads& threads_;
  Mismatch& mismatch_;
  std::vector<ChangingPlan> plans_;     // parallel to plan_.changing
  std::vector<From> from_;              // parallel to plan_.messages
  std::vector<std::vector<Row>> rows_;  // parallel to plan_.changing; of keys whose rows are sorted
  GrowingBuffer sorted_;
  std::uint64_t growths_ = 0;  // of rows_
};

}  // namespace tremula::client
