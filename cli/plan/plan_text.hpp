// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "cli/plan/redistribution.hpp"

namespace tremula::cli {

/// What `tremula plan` prints first: shape, bytes, ranks and both layouts. Ends with a new line.
std::string plan_head_text(const Redistribution& redistribution);

/// And of each rank: its plan, a table of its packages and their total; of many packages the first
/// 32. Ends with a new line.
/// @param validated  the three algorithms were compared
std::string plan_rank_text(const Redistribution& redistribution, const RankPlan& plan,
                           bool validated);

/// And last: what the words in the tables mean.
std::string plan_words_text(const Redistribution& redistribution);

}  // namespace tremula::cli
