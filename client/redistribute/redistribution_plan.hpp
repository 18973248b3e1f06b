// SPDX-License-Identifier: Apache-2.0
#pragma once
// Everything that one rank of a job moves when arrays go from one layout of the job to another: a
// message plan as source and one as sink. Pure: no transport, no memory moved.
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "client/exchange/plan/exchange_plan.hpp"
#include "client/exchange/plan/update.hpp"

namespace tremula::client::redistribute {

/// Plans of an update if one of its layouts lists what its ranks own; empty for other updates.
struct ListedUpdate {
  std::shared_ptr<const index_calc::Plan> as_source{}, as_sink{};
};

class RedistributionPlan {
public:
  /// Buffers that the application passes for an array.
  struct Array {
    index_calc::LocalPart from, to;            ///< `to` in the dimensions of `from`
    std::size_t from_width = 0, to_width = 0;  ///< bytes of an element
    bool is_scaled = false;  ///< no elements arrive: only to = beta * to remains to be done
    /// Runs of places to scale, as first place and length, if a list covers only part of the
    /// buffer; empty for all of it.
    std::vector<std::pair<Index, Index>> scaled{};
  };

  /// @param pass        pass of all updates (update.hpp)
  /// @param size        number of ranks of the job
  /// @param near_ranks  number of ranks on this machine; 0 if all are
  /// @param listed      plans of this pass, parallel to updates; empty if none has lists
  /// @throws core::Error as make_plan, naming the update that fails if there are several
  RedistributionPlan(std::span<const Update> updates, RankCount pass, Rank me, RankCount size,
                     const index_calc::PlanOptions& options = {}, RankCount near_ranks = 0,
                     std::span<const std::uint32_t> machines = {},
                     std::span<const ListedUpdate> listed = {});
  RedistributionPlan(const RedistributionPlan&) = delete;  // ends refer to it

  std::span<const Array> arrays() const noexcept { return arrays_; }
  /// Returns the plan as source; its messages begin with this rank itself, if anything stays there,
  /// then the next rank, and wrap around.
  const ExchangePlan& source() const noexcept { return source_; }
  /// Returns the plan as sink, in the same order.
  const ExchangePlan& sink() const noexcept { return sink_; }
  double seconds() const noexcept { return seconds_; }  ///< spent on the plan
  /// Returns a number that is the same on all ranks that passed the same updates.
  std::uint64_t fingerprint() const noexcept { return source_.fingerprint; }
  /// Returns the most bytes that go to a peer at once.
  /// @param ranks  number of ranks of the job, or of this machine for chunks through shared memory
  static std::size_t longest_chunk_bytes(RankCount ranks) noexcept;

private:
  std::vector<Array> arrays_;
  ExchangePlan source_, sink_;
  double seconds_ = 0;
};

}  // namespace tremula::client::redistribute
