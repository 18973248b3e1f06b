// SPDX-License-Identifier: Apache-2.0
#pragma once
// The ranks of a component that take part in each of its variables: those that define the variable. The others
// hold no points of it, and make no calls for it.
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
  int partition = 0;             ///< number of this rank's partition, from 1
  std::int64_t global_size = 0;  ///< ig_size of the partition; 0 if not given
  std::int64_t end = 0;          ///< one past the partition's greatest point on this rank
};

/// A variable as all ranks see it.
struct Member {
  std::string name;
  std::int64_t end = 0;  ///< one past the greatest point of any rank
  /// Key of the set of ranks that take part: variables with the same ranks have the same key; 0 for all ranks.
  std::uint64_t set = 0;
  bool takes_part = false;  ///< true if this rank takes part
  /// True if some rank takes part without points. If that rank omits calls, the others wait for it
  /// in vain.
  bool has_ranks_without_points = false;
};

/// Agrees on the variables, in the same order on all ranks. A rank may leave out a variable if it
/// holds no points of the partition that others use for it.
/// @param partitions  points of this rank's partitions
/// @throws Error on all ranks if two define a variable differently
std::vector<Member> agree(const Component& component, std::span<const Definition> mine,
                          std::span<const std::int64_t> partitions);

}  // namespace tremula::oasis
