// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>

#include "cli/plan/picture/picture.hpp"
#include "cli/plan/redistribution.hpp"

namespace tremula::cli {

/// Returns a picture of a redistribution. It shows the matrix of volumes and, for arrays of one or
/// two dimensions, also the blocks of the producer, the blocks of the consumer, and the package of
/// one pair of ranks.
/// @param peer  the other rank of the pair; nullopt for the one with the largest package
/// @throws core::Error as volumes() does, and invalid_argument for an array without elements
Picture plan_picture(const Redistribution& redistribution, const RankPlan& plan,
                     std::optional<Rank> peer);

/// Writes plan_picture to a file that ends in .svg or .png.
/// @throws core::Error as plan_picture does; unsupported for .png in a build without Cairo;
/// invalid_argument if the file cannot be written
void draw_plan(const std::string& file, const Redistribution& redistribution, const RankPlan& plan,
               std::optional<Rank> peer);

}  // namespace tremula::cli
