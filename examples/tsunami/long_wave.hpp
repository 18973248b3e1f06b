// SPDX-License-Identifier: Apache-2.0
#pragma once
// Linear long waves on the sphere, with one block of the grid per rank.
//
// With elevation e, depth h and fluxes M = h u (east), N = h v (north), latitude p, longitude l,
// radius R:
//
//     de/dt + 1 / (R cos p) (dM/dl + d(N cos p)/dp) = 0
//     dM/dt + g h / (R cos p) de/dl = 0
//     dN/dt + g h / R de/dp = 0
//
// Source: IUGG/IOC TIME Project, "Numerical method of tsunami simulation with the leap-frog
// scheme", IOC Manuals and Guides 35 (1997), part 3 (linear long waves in spherical coordinates).
// The grid is staggered as there: e is in the middle of a cell at whole time steps, M and N are on
// its faces half a step later. There are two differences. The Coriolis force is left out: a
// tsunami's period of well under two hours is short compared with the pendulum day, so arrival
// times hardly depend on it. The fluxes are stored scaled, m = M dt / (R cos p dl) and
// n = N cos p dt / (R dp), which leaves
//
//     m -= cx (e[east] - e)
//     n -= cy (e[north] - e)
//     e -= m - m[west] + (n - n[south]) / cos p
//
// where cx and cy are the squared Courant numbers of a face. They are 0 on a face to land: nothing
// flows through it, and waves are reflected completely. On a face at the edge of the grid, the flux
// is that of a wave that leaves perpendicular to the face, M = e sqrt(g h).
//
// The scheme is stable if dt sqrt(g h) sqrt(1 / dx^2 + 1 / dy^2) <= 1 in every cell.
#include <mpi.h>

#include <array>
#include <vector>

#include "grid.hpp"

namespace tsunami {

inline constexpr double gravity = 9.81;

/// The cells of one rank, and its neighbours (MPI_PROC_NULL beyond the grid).
struct Block {
  MPI_Comm comm = MPI_COMM_NULL;
  Index first_row = 0, first_column = 0, rows = 0, columns = 0;
  int south = MPI_PROC_NULL, north = MPI_PROC_NULL, west = MPI_PROC_NULL, east = MPI_PROC_NULL;

  /// Returns the size of an array with one value per cell and a ring of ghost cells around the
  /// block; shape: [rows + 2][columns + 2].
  std::size_t ghosted_cells() const { return static_cast<std::size_t>((rows + 2) * stride()); }
  Index stride() const { return columns + 2; }
  /// Returns the position of a cell in that shape; the ghosts have row -1 or `rows`, or column -1
  /// or `columns`.
  std::size_t at(Index row, Index column) const {
    return static_cast<std::size_t>((row + 1) * stride() + column + 1);
  }
};

/// Divides the grid among the ranks of `comm`: `process_rows` x `process_columns` plain blocks of
/// ceil(extent / processes) cells, ranks numbered row by row.
/// @throws std::runtime_error if the grid has too few rows or columns to give some to every rank
Block make_block(const Grid& grid, MPI_Comm comm, int process_rows, int process_columns);

/// The waves on one block. All member functions are collective over block.comm unless they say
/// otherwise.
class LongWave {
public:
  /// @param depth still water in metres, 0 on land; shape as Block::ghosted_cells
  /// @param seconds interval that a whole number of time steps must fill; see steps()
  LongWave(const Grid& grid, const Block& block, const std::vector<float>& depth, double seconds);
  ~LongWave();
  LongWave(const LongWave&) = delete;
  LongWave& operator=(const LongWave&) = delete;

  /// Returns the number of time steps in `seconds`: the smallest for which the time step stays 10 %
  /// below the limit of stability.
  int steps() const { return steps_; }
  /// Advances the waves by `seconds`.
  void advance();

  /// Returns the height of the sea surface above still water in metres, 0 on land; shape as
  /// Block::ghosted_cells. Not collective.
  std::vector<float>& elevation() { return elevation_; }
  const std::vector<float>& elevation() const { return elevation_; }

private:
  void find_time_step(const Grid& grid, const std::vector<float>& depth, double seconds);
  void set_faces(const Grid& grid, const std::vector<float>& depth);
  void join_neighbours();
  void radiate();
  void advance_one();
  std::size_t at(Index row, Index column) const { return block_.at(row, column); }

  /// A face at the edge of the grid: the cell inside, the place of its flux, and the scaled Courant
  /// number, positive outwards.
  struct OpenFace {
    std::size_t cell, face;
    float outward;
    bool eastern_or_western;
  };

  Block block_;
  int steps_ = 0;
  double time_step_ = 0;
  std::vector<float> elevation_;
  std::vector<float> east_flux_,
      north_flux_;  ///< scaled, through a cell's eastern and northern face
  std::vector<float> east_courant_, north_courant_;  ///< squared, for the same faces
  std::vector<float> per_cosine_;                    ///< 1 / cos of a row's latitude
  std::vector<OpenFace> open_faces_;
  std::array<MPI_Request, 8>
      halo_{};  ///< persistent: 4 sends and 4 receives of the elevation's edges
  MPI_Datatype column_type_ = MPI_DATATYPE_NULL;
};

}  // namespace tsunami
