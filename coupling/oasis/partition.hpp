// SPDX-License-Identifier: Apache-2.0
#pragma once
// The partitions of OASIS3-MCT, from the array ig_paral of oasis_def_partition:
//
//   serial  0, 0, length
//   apple   1, offset, length
//   box     2, offset, length along x, length along y, length of a row of the global grid
//   orange  3, number of segments, then for each: offset, length
//   points  4, number of points, then their global numbers
//
// Offsets count from 0, and point numbers from 1. The local array holds the points in this order.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tremula::oasis {

struct Partition {
  std::string name;
  /// Segment i has lengths[i] points, beginning with point begins[i], counted from 0. No segment is
  /// empty.
  std::vector<std::int64_t> begins;
  std::vector<std::int64_t> lengths;
  std::int64_t size = 0;         ///< number of points of this rank
  std::int64_t end = 0;          ///< one past the greatest point of this rank
  std::int64_t global_size = 0;  ///< ig_size; 0 if it is not given
};

/// Makes the partition that the array ig_paral describes.
/// @throws Error if ig_paral does not describe a partition
Partition make_partition(std::string name, std::span<const int> ig_paral);

}  // namespace tremula::oasis
