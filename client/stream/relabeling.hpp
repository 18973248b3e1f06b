// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which rank takes which part: index_calc::relabel, for streams and for updates. Pure.
#include <span>
#include <string>
#include <vector>

#include "client/exchange/plan/update.hpp"
#include "index_calc/relabel/relabel.hpp"
#include "proto/convert.hpp"

namespace tremula::client {

/// Returns the labels by which the fewest bytes go between hosts, summed over all fields.
/// @param wanted    fields as the producer sees them
/// @param producer  with the hosts of all its ranks
/// @param hosts     hosts of the consumer's ranks; shape: [group rank]
/// @throws core::Error as index_calc::relabel, and invalid_argument if the producer offers no field
///         of a wanted name
index_calc::Relabeling<Index> relabel(std::span<const proto::Field> wanted,
                                      const wire::Described& producer,
                                      std::span<const std::string> hosts,
                                      index_calc::Method method);

/// Returns the labels by which the fewest bytes go between places, summed over all updates.
/// @param places  places of the ranks of the job; shape: [rank]
/// @throws core::Error as index_calc::relabel and RedistributionPlan
index_calc::Relabeling<Index> relabel(std::span<const Update> updates,
                                      const std::vector<RankCount>& places,
                                      index_calc::Method method);

}  // namespace tremula::client
