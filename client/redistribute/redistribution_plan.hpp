// SPDX-License-Identifier: Apache-2.0
#pragma once
// All that one rank of a job moves when arrays go from one layout of the job to another: a message plan
// as source and one as sink. Pure: no transport, no memory moved.
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "client/exchange/plan/exchange_plan.hpp"
#include "client/exchange/plan/update.hpp"

namespace tremula::client::redistribute {

/// The plans of an update one layout of which lists what its ranks own; empty for another one.
struct ListedUpdate {
  std::shared_ptr<const index_calc::Plan> as_source{}, as_sink{};
};

class RedistributionPlan {
public:
  /// What the application passes for an array.
  struct Array {
    index_calc::LocalPart from, to;            ///< `to` in the dimensions of `from`
    std::size_t from_width = 0, to_width = 0;  ///< bytes of an element
    bool is_scaled = false;  ///< nothing comes: all that is left to do is to = beta * to
    /// Where that is not all of the buffer, of which a list tells: the places, and how many from each on.
    std::vector<std::pair<Index, Index>> scaled{};
  };

  /// @param pass        of each update (update.hpp)
  /// @param size        ranks of the job
  /// @param near_ranks  of them on this machine; 0: all
  /// @param listed      of this pass, parallel to updates; empty if none has lists
  /// @throws core::Error as make_plan, and naming the update that no group of `size` ranks can make
  RedistributionPlan(std::span<const Update> updates, Rank pass, Rank me, Rank size,
                     const index_calc::PlanOptions& options = {}, Rank near_ranks = 0,
                     std::span<const std::uint32_t> machines = {},
                     std::span<const ListedUpdate> listed = {});
  RedistributionPlan(const RedistributionPlan&) = delete;  // ends refer to it

  std::span<const Array> arrays() const noexcept { return arrays_; }
  /// Begin with this rank itself, if something stays there, then the next rank, and go round.
  const ExchangePlan& source() const noexcept { return source_; }
  const ExchangePlan& sink() const noexcept { return sink_; }
  double seconds() const noexcept { return seconds_; }  ///< spent on it
  /// The same on all ranks that passed the same updates.
  std::uint64_t fingerprint() const noexcept { return source_.fingerprint; }
  /// Most that goes at once to a peer where there are so many ranks: of the job, or of this machine
  /// for what goes through shared memory.
  static std::size_t longest_chunk_bytes(Rank ranks) noexcept;

private:
  std::vector<Array> arrays_;
  ExchangePlan source_, sink_;
  double seconds_ = 0;
};

}  // namespace tremula::client::redistribute
