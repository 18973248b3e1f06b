// SPDX-License-Identifier: Apache-2.0
#pragma once
// Carries a redistribution between the ranks of one job: the ends of its messages, over paths that
// need no announcements to the sink, because both sides know the order of the parts.
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "client/exchange/memory/memory_view.hpp"
#include "client/exchange/path/chunks.hpp"
#include "client/exchange/path/paths.hpp"
#include "client/redistribute/near_rings.hpp"
#include "client/redistribute/redistribution_plan.hpp"
#include "core/deadline.hpp"
#include "index_calc/transform/carries.hpp"
#include "transport/transport.hpp"

namespace tremula::client::redistribute {

/// Statistics of one rank since the redistribution was made. Exact.
struct RedistributionStatistics {
  std::uint64_t runs = 0;
  std::uint64_t messages_sent = 0;  ///< each chunk of a long message counts, heads do not
  std::uint64_t bytes_sent = 0, bytes_received = 0;
  std::uint64_t bytes_kept = 0;    ///< bytes that stayed on the rank, in the type of `from`
  std::uint64_t copied_bytes = 0;  ///< copied by this rank's processor, in the type of `from`
  double plan_seconds = 0;
};

class Redistribution {
public:
  /// @param listed  plans of each pass (update.hpp); empty if no update has lists
  /// @param paths   must outlive this object
  /// @throws core::Error as RedistributionPlan
  Redistribution(std::span<const Update> updates, Rank me, RankCount size,
                 const index_calc::PlanOptions& options = {}, RankCount near_ranks = 0,
                 std::span<const std::uint32_t> machines = {},
                 std::span<const std::vector<ListedUpdate>> listed = {}, Paths paths = all_paths());
  ~Redistribution();
  /// Moves all arrays. Collective. Returns when `from` may be changed and all of `to` has arrived.
  ///
  /// A rank that refuses its buffers takes part with memory of its own, so that no rank waits for
  /// it: the ranks that it sends to throw mismatch, naming it, once everything is done, and their
  /// `to` is undefined. All ranks may continue with the next run.
  /// @param endpoint  reaches the ranks of the job by their numbers; nothing else may use it
  ///                  meanwhile
  /// @param rings     for near ranks, as many as the plan has; without rings, everything goes over
  ///                  the endpoint. Counts the runs
  /// @param from, to  a buffer for each update; must not overlap
  /// @throws core::Error invalid_argument if a buffer is too short or two overlap, unsupported if
  ///         one is not in host memory: `to` is untouched. Once everything is done: mismatch if a
  ///         value did not fit its new type, or a rank has refused its buffers. timed_out, naming
  ///         the missing peers, and other errors: the redistribution cannot be used afterwards, and
  ///         `from` and `to` must stay allocated. `to` is undefined after an error.
  void run(transport::Endpoint& endpoint, NearRings& rings, ChunkPool& chunks,
           std::span<const ConstMemoryView> from, std::span<const MemoryView> to,
           core::Deadline deadline);

  /// Returns whether a run was cut short, after which this object and the connections to the peers
  /// cannot be used.
  bool has_failed() const noexcept { return has_failed_; }
  /// Returns the plan of the first pass.
  const RedistributionPlan& plan() const noexcept { return *plans_.front(); }
  const RedistributionStatistics& statistics() const noexcept { return statistics_; }

private:
  class Run;
  void run(Run& pass, core::Deadline deadline, bool is_refused);
  /// Takes the buffers of a run, or others of the same sizes if they cannot be used: returns why then.
  std::optional<core::Error> take(std::span<const ConstMemoryView> from,
                                  std::span<const MemoryView> to,
                                  std::vector<core::Bytes>& stand_ins);
  void abandon(NearRings& rings, ChunkPool& chunks, std::vector<core::Bytes> stand_ins) noexcept;

  std::vector<std::unique_ptr<index_calc::Carries>>
      carries_;  // of sums of integers; the plans refer to them
  std::vector<std::unique_ptr<RedistributionPlan>> plans_;  // of each pass; the runs refer to them
  Rank me_;
  Paths paths_;
  bool has_failed_ = false;
  std::vector<std::unique_ptr<Run>>
      runs_;                           // parallel to plans_; made for an endpoint, rings and chunks
  std::vector<core::BytesView> from_;  // of the run at hand
  std::vector<std::span<std::byte>> to_;
  RedistributionStatistics statistics_;
};

}  // namespace tremula::client::redistribute
