// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which ranks of a component take part in which of its variables: those that define it. The others hold no points of
// it, and call nothing for it.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "coupling/oasis/component.hpp"

namespace tremula::oasis {

/// A variable as one rank defines it.
struct Definition {
  std::string name;
  bool is_out = false;
  int bundle = 1;
  int partition = 0;             ///< of this rank, from 1
  std::int64_t global_size = 0;  ///< ig_size of it; 0: not given
  std::int64_t end = 0;          ///< above its greatest point on this rank
};

/// A variable as all ranks see it.
struct Member {
  std::string name;
  std::int64_t end = 0;  ///< above the greatest point of any rank
  /// The same for variables in which the same ranks take part; 0: all ranks.
  std::uint64_t set = 0;
  bool takes_part = false;  ///< this rank
  /// Some rank takes part without points. If it leaves calls out, the others wait for it in vain.
  bool has_ranks_without_points = false;
};

/// Agrees on the variables, in one order on all ranks. A rank may leave out a variable if it holds no points of the
/// partition that others use for it.
/// @param partitions  points of this rank's partitions
/// @throws Error on all ranks if two define a variable differently
std::vector<Member> agree(const Component& component, std::span<const Definition> mine,
                          std::span<const std::int64_t> partitions);

}  // namespace tremula::oasis
