// SPDX-License-Identifier: Apache-2.0
#include "client/exchange/path/paths.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace tremula::client {

extern const Path& inlined_path;
extern const Path& lent_path;
extern const Path& rma_path;
extern const Path& shared_path;
extern const Path& staged_path;
extern const Path& ring_path;
extern const Path& on_demand_path;

Paths all_paths() {
  static const std::array<const Path*, 7> in_order{&inlined_path,  &lent_path,   &rma_path,
                                                   &shared_path,   &staged_path, &ring_path,
                                                   &on_demand_path};
  return in_order;
}

const Path& choose(Paths paths, const PartFacts& facts) {
  const Path* possible = nullptr;
  for (const Path* const path : paths) {
    const Fit fit = path->fit(facts);
    if (fit == Fit::good) return *path;
    if (fit == Fit::possible && possible == nullptr) possible = path;
  }
  if (possible != nullptr) return *possible;
  throw core::Error(
      core::Errc::unsupported,
      fmt::format(
          "expected a path for a part (near: {}, queued: {}, lent: {}, inside one job: {}); "
          "found none among the {} of this build",
          facts.is_near, facts.is_queued, facts.may_lend, facts.is_agreed, paths.size()));
}

const Path& foresee(Paths paths, const Prospect& prospect, bool is_short, bool reads_suit) {
  const bool is_queued = prospect.is_queued(), is_near = prospect.is_near;
  const bool lends = !is_queued || prospect.is_lent;
  const Path& told = choose(paths, {.is_near = is_near,
                                    .is_queued = is_queued,
                                    .is_short = is_short,
                                    .may_lend = lends,
                                    .is_mapped = lends && prospect.is_allocated,
                                    .is_readable = !is_queued && !is_near});
  if (!told.is_asked()) return told;
  return choose(paths, {.is_source = false,
                        .is_near = is_near,
                        .is_queued = is_queued,
                        .is_mapped = is_near && prospect.is_allocated,
                        .told = &told,
                        .told_suits = reads_suit});
}

const Path& find_path(Paths paths, proto::PartPlace::Kind kind) {
  const auto found =
      std::ranges::find_if(paths, [&](const Path* path) { return path->kind() == kind; });
  if (found == paths.end())
    throw core::Error(
        core::Errc::protocol,
        fmt::format("path of a part: expected one of the {} paths of this build, found "
                    "number {}; do both sides run the same version of Tremula?",
                    paths.size(), static_cast<int>(kind)));
  return **found;
}

}  // namespace tremula::client
