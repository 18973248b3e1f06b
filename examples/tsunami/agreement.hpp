// SPDX-License-Identifier: Apache-2.0
#pragma once
// The agreement between producer and consumer. Process counts and distributions are not part of it.
#include "grid.hpp"

namespace tsunami {

inline constexpr const char* stream_name = "tsunami";
/// Height of the sea surface above still water in metres, float, shape [rows][columns], south to
/// north; 0 on land.
inline constexpr const char* field_name = "elevation";

inline constexpr Index steps = 300;
inline constexpr double seconds_per_step = 120;
/// Returns the model time of a step. Step 0 shows the sea one interval after its floor was lifted.
inline constexpr double seconds_at(Index step) {
  return static_cast<double>(step + 1) * seconds_per_step;
}

/// Returns the grid of the Pacific from 120 E to 70 W and from 50 S to 62 N, in cells of `nodes` x
/// 5 arc-minutes.
inline Grid pacific(Index nodes) {
  constexpr Index nodes_per_degree = 12;
  return {.west = 120,
          .south = -50,
          .nodes = nodes,
          .rows = 112 * nodes_per_degree / nodes,
          .columns = 170 * nodes_per_degree / nodes};
}

}  // namespace tsunami
