// SPDX-License-Identifier: Apache-2.0
#pragma once
// Finds the ranks of a component that take part in each variable. They are the ranks that define it; the other ranks
// hold no points of the variable and make no calls for it.
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
  int bundle = 1;
  std::int64_t end = 0;  ///< one past the greatest point of any rank
  /// Key of the set of ranks that take part. Variables with the same ranks have the same key; 0 stands for all ranks.
  std::uint64_t set = 0;
  bool takes_part = false;  ///< true if this rank takes part
  /// True if some rank takes part without points. If that rank omits calls, the others wait for it
  /// in vain.
  bool has_ranks_without_points = false;
};

/// Returns the variables that the ranks agree on, in the same order on all ranks. A rank may omit a
/// variable if it holds no points of the partition that other ranks use for that variable.
/// Collective.
/// @param partitions  number of points of this rank in each partition
/// @throws Error on all ranks if two ranks define a variable differently
std::vector<Member> agree(const Component& component, std::span<const Definition> mine,
                          std::span<const std::int64_t> partitions);

}  // namespace tremula::oasis
