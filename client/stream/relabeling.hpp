// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which rank takes which part: what index_calc::relabel has to know of streams and updates. Pure.
#include <span>
#include <string>
#include <vector>

#include "client/exchange/plan/update.hpp"
#include "index_calc/relabel/relabel.hpp"
#include "proto/convert.hpp"

namespace tremula::client {

/// The least bytes between hosts, of all fields together.
/// @param wanted    as the producer is to see them
/// @param producer  with the hosts of all its ranks
/// @param hosts     of the consumer; shape: [group rank]
/// @throws core::Error as index_calc::relabel, and mismatch if the producer has not what is wanted
index_calc::Relabeling<Index> relabel(std::span<const proto::Field> wanted,
                                      const wire::Described& producer,
                                      std::span<const std::string> hosts,
                                      index_calc::Method method);

/// The least bytes between places, of all updates together.
/// @param places  of the ranks of the job; shape: [rank]
/// @throws core::Error as index_calc::relabel and RedistributionPlan
index_calc::Relabeling<Index> relabel(std::span<const Update> updates,
                                      const std::vector<Rank>& places, index_calc::Method method);

}  // namespace tremula::client
