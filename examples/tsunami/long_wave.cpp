// SPDX-License-Identifier: Apache-2.0
#include "long_wave.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace tsunami {
namespace {

/// Makes this thread treat denormal numbers as 0. Ahead of the first wave, the scheme produces
/// elevations of 1e-40 m, on which arithmetic is a hundred times slower.
void flush_denormals() {
#if defined(__SSE__)
  _mm_setcsr(_mm_getcsr() | 0x8040);  // flush to zero, denormals are zero
#endif
}

}  // namespace

Block make_block(const Grid& grid, MPI_Comm comm, int process_rows, int process_columns) {
  Block block{.comm = comm};
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  const int process_row = rank / process_columns, process_column = rank % process_columns;

  const auto share = [](Index extent, int processes, int process, Index& first, Index& count) {
    const Index size = (extent + processes - 1) / processes;
    first = size * process;
    count = std::min(extent - first, size);
    if (count < 1) {
      throw std::runtime_error("expected at least one row and column for each process, found " +
                               std::to_string(extent) + " cells for " + std::to_string(processes) +
                               " processes; start fewer ranks");
    }
  };
  share(grid.rows, process_rows, process_row, block.first_row, block.rows);
  share(grid.columns, process_columns, process_column, block.first_column, block.columns);

  if (process_row > 0) block.south = rank - process_columns;
  if (process_row + 1 < process_rows) block.north = rank + process_columns;
  if (process_column > 0) block.west = rank - 1;
  if (process_column + 1 < process_columns) block.east = rank + 1;
  return block;
}

LongWave::LongWave(const Grid& grid, const Block& block, const std::vector<float>& depth,
                   double seconds)
    : block_(block),
      elevation_(block.ghosted_cells()),
      east_flux_(block.ghosted_cells()),
      north_flux_(block.ghosted_cells()),
      east_courant_(block.ghosted_cells()),
      north_courant_(block.ghosted_cells()) {
  flush_denormals();
  find_time_step(grid, depth, seconds);
  set_faces(grid, depth);
  join_neighbours();
}

LongWave::~LongWave() {
  for (MPI_Request& request : halo_) MPI_Request_free(&request);
  MPI_Type_free(&column_type_);
}

void LongWave::find_time_step(const Grid& grid, const std::vector<float>& depth, double seconds) {
  const double height = earth_radius_metres * grid.cell_degrees() * radians_per_degree;
  double fastest = 0;  // cells crossed per second
  for (Index row = 0; row < block_.rows; ++row) {
    const double latitude = grid.latitude(static_cast<double>(block_.first_row + row));
    const double width = height * std::cos(latitude * radians_per_degree);
    for (Index column = 0; column < block_.columns; ++column) {
      const double speed = std::sqrt(gravity * depth[at(row, column)]);
      fastest = std::max(fastest, speed * std::sqrt(1 / (width * width) + 1 / (height * height)));
    }
  }
  MPI_Allreduce(MPI_IN_PLACE, &fastest, 1, MPI_DOUBLE, MPI_MAX, block_.comm);
  steps_ = std::max(1, static_cast<int>(std::ceil(seconds * fastest / 0.9)));
  time_step_ = seconds / steps_;
}

void LongWave::set_faces(const Grid& grid, const std::vector<float>& depth) {
  const double height = earth_radius_metres * grid.cell_degrees() * radians_per_degree;
  const auto face_depth = [](float a, float b) { return a > 0 && b > 0 ? (a + b) / 2 : 0.0F; };
  for (Index row = -1; row < block_.rows; ++row) {
    const double global_row = static_cast<double>(block_.first_row + row);
    const double cosine = std::cos(grid.latitude(global_row) * radians_per_degree);
    const double face_cosine = std::cos(grid.latitude(global_row + 0.5) * radians_per_degree);
    const double across = time_step_ / (height * cosine), up = time_step_ / height;
    if (row >= 0) per_cosine_.push_back(static_cast<float>(1 / cosine));

    for (Index column = -1; column < block_.columns; ++column) {
      const std::size_t cell = at(row, column), east = at(row, column + 1),
                        north = at(row + 1, column);
      const double east_depth = face_depth(depth[cell], depth[east]);
      const double north_depth = face_depth(depth[cell], depth[north]);
      const bool western = column < 0 && block_.west == MPI_PROC_NULL;
      const bool eastern = column + 1 == block_.columns && block_.east == MPI_PROC_NULL;
      const bool southern = row < 0 && block_.south == MPI_PROC_NULL;
      const bool northern = row + 1 == block_.rows && block_.north == MPI_PROC_NULL;

      if (row >= 0 && (western || eastern)) {
        const std::size_t inner = western ? east : cell;
        const double outward = std::sqrt(gravity * depth[inner]) * across;
        open_faces_.push_back(
            {inner, cell, static_cast<float>(western ? -outward : outward), true});
      } else if (row >= 0) {
        east_courant_[cell] = static_cast<float>(gravity * east_depth * across * across);
      }
      if (column >= 0 && (southern || northern)) {
        const std::size_t inner = southern ? north : cell;
        const double outward = std::sqrt(gravity * depth[inner]) * up * face_cosine;
        open_faces_.push_back(
            {inner, cell, static_cast<float>(southern ? -outward : outward), false});
      } else if (column >= 0) {
        north_courant_[cell] = static_cast<float>(gravity * north_depth * up * up * face_cosine);
      }
    }
  }
}

void LongWave::join_neighbours() {
  const int rows = static_cast<int>(block_.rows), columns = static_cast<int>(block_.columns);
  MPI_Type_vector(rows, 1, static_cast<int>(block_.stride()), MPI_FLOAT, &column_type_);
  MPI_Type_commit(&column_type_);
  // Data that leaves over one edge arrives over the opposite one, so both use the same tag.
  enum { northward, southward, eastward, westward };
  float* const cells = elevation_.data();
  const auto row = [&](Index index) { return cells + at(index, 0); };
  const auto column = [&](Index index) { return cells + at(0, index); };
  const MPI_Comm comm = block_.comm;
  MPI_Recv_init(row(-1), columns, MPI_FLOAT, block_.south, northward, comm, &halo_[0]);
  MPI_Recv_init(row(rows), columns, MPI_FLOAT, block_.north, southward, comm, &halo_[1]);
  MPI_Recv_init(column(-1), 1, column_type_, block_.west, eastward, comm, &halo_[2]);
  MPI_Recv_init(column(columns), 1, column_type_, block_.east, westward, comm, &halo_[3]);
  MPI_Send_init(row(rows - 1), columns, MPI_FLOAT, block_.north, northward, comm, &halo_[4]);
  MPI_Send_init(row(0), columns, MPI_FLOAT, block_.south, southward, comm, &halo_[5]);
  MPI_Send_init(column(columns - 1), 1, column_type_, block_.east, eastward, comm, &halo_[6]);
  MPI_Send_init(column(0), 1, column_type_, block_.west, westward, comm, &halo_[7]);
}

void LongWave::advance() {
  for (int step = 0; step < steps_; ++step) {
    MPI_Startall(static_cast<int>(halo_.size()), halo_.data());
    MPI_Waitall(static_cast<int>(halo_.size()), halo_.data(), MPI_STATUSES_IGNORE);
    radiate();
    advance_one();
  }
}

void LongWave::radiate() {
  for (const OpenFace& open : open_faces_) {
    auto& flux = open.eastern_or_western ? east_flux_ : north_flux_;
    flux[open.face] = open.outward * elevation_[open.cell];
  }
}

// Makes one sweep from south to north. A row's elevation changes only after the fluxes through all
// its faces have changed. Its northern face is the southern face of the next row.
void LongWave::advance_one() {
  const Index columns = block_.columns, stride = block_.stride();
  for (Index row = -1; row < block_.rows; ++row) {
    float* const __restrict e = elevation_.data() + at(row, 0);
    float* const __restrict m = east_flux_.data() + at(row, 0);
    float* const __restrict n = north_flux_.data() + at(row, 0);
    const float* const __restrict cx = east_courant_.data() + at(row, 0);
    const float* const __restrict cy = north_courant_.data() + at(row, 0);
    for (Index i = 0; i < columns; ++i) n[i] -= cy[i] * (e[i + stride] - e[i]);
    if (row < 0) continue;
    for (Index i = -1; i < columns; ++i) m[i] -= cx[i] * (e[i + 1] - e[i]);
    const float per_cosine = per_cosine_[static_cast<std::size_t>(row)];
    for (Index i = 0; i < columns; ++i) {
      e[i] -= m[i] - m[i - 1] + (n[i] - n[i - stride]) * per_cosine;
    }
  }
}

}  // namespace tsunami
