// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <set>
#include <string>

#include "core/types.hpp"
#include "proto/control.pb.h"

namespace tremula::proto {

/// Returns the ranks for which a rank waits; empty if it waits for no particular ones.
std::set<core::Rank> ranks_of(const wire::Wait& wait);
/// Returns a text such as "rank 3" or "ranks 0-2 and 5", which names at most eight runs.
std::string ranks_text(const std::set<core::Rank>& ranks);
/// Returns a text for people that states what a rank waits for: "in begin_step of stream 's', step 4, for rank 1 of
/// group 'b' to send the next step".
std::string wait_text(const wire::Wait& wait);

}  // namespace tremula::proto
