// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "cli/plan/redistribution.hpp"

namespace tremula::cli {

/// Returns the head of `tremula plan`: shape, bytes, ranks and both layouts. Ends with a newline.
std::string plan_head_text(const Redistribution& redistribution);

/// Returns the text about a rank: its plan, a table of its packages (the first 32 if there are
/// more) and their total. Ends with a newline.
/// @param validated  true if the three algorithms were compared
std::string plan_rank_text(const Redistribution& redistribution, const RankPlan& plan,
                           bool validated);

/// Returns the end of the text, which explains the words in the tables.
std::string plan_words_text(const Redistribution& redistribution);

}  // namespace tremula::cli
