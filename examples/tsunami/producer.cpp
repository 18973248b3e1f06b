// SPDX-License-Identifier: Apache-2.0
// Computes the tsunami of 11 March 2011 on blocks of the Pacific and puts the surface of the sea
// every two model minutes. The program does not know which jobs get the surface, on how many
// processes they run, or how they distribute it.
#include <tremula/tremula_mpi.h>

#include <tremula/tremula.hpp>

#include "agreement.hpp"
#include "earthquake.hpp"
#include "job.hpp"
#include "long_wave.hpp"
#include "relief.hpp"
#include "step_hash.hpp"
#include "summary.hpp"

namespace {

using namespace tsunami;

/// Lifts the sea surface by as much as the sea floor below it rises.
void lift(LongWave& sea, const Grid& grid, const Block& block, const std::vector<float>& depth) {
  for (Index row = 0; row < block.rows; ++row) {
    for (Index column = 0; column < block.columns; ++column) {
      const std::size_t cell = block.at(row, column);
      if (depth[cell] <= 0) continue;
      const GeoPoint place = grid.centre(block.first_row + row, block.first_column + column);
      sea.elevation()[cell] = static_cast<float>(uplift(tohoku_2011, place));
    }
  }
}

std::uint64_t hash_of(const LongWave& sea, const Grid& grid, const Block& block, Index step) {
  StepHash hash(step);
  for (Index row = 0; row < block.rows; ++row) {
    const Index first = (block.first_row + row) * grid.columns + block.first_column;
    hash.add(first, &sea.elevation()[block.at(row, 0)], block.columns);
  }
  return hash.sum();
}

int produce(const CommandLine& options) {
  const double start = MPI_Wtime();
  int ranks = 0, dims[2] = {0, 0};
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Dims_create(ranks, 2, dims);

  const Grid grid = pacific(nodes_per_cell(options));
  const Block block = make_block(grid, MPI_COMM_WORLD, dims[0], dims[1]);
  std::vector<float> depth = read_relief(options["relief"], grid, block.first_row - 1,
                                         block.first_column - 1, block.rows + 2, block.columns + 2);
  for (float& value : depth) value = still_depth(value);
  LongWave sea(grid, block, depth, seconds_per_step);
  lift(sea, grid, block, depth);

  tremula::Session session("producer", MPI_COMM_WORLD);
  tremula::OutStream out = session.out_stream(stream_name);
  const auto elevation = out.field<float>(
      field_name,
      tremula::Layout::block(
          {.shape = {grid.rows, grid.columns}, .grid = {dims[0], dims[1]}, .more = "ghost=1x1"}));
  if (session.rank() == 0) {
    std::printf("producer: %ld x %ld cells, %d ranks as %d x %d blocks, time step %.1f s\n",
                static_cast<long>(grid.rows), static_cast<long>(grid.columns), ranks, dims[0],
                dims[1], seconds_per_step / sea.steps());
    std::fflush(stdout);
  }

  std::vector<std::uint64_t> hashes;
  for (Index step = 0; step < steps; ++step) {
    sea.advance();
    out.put(elevation, sea.elevation());
    hashes.push_back(hash_of(sea, grid, block, step));
  }
  out.close();

  const Summary summary = summarise("producer", out.statistics(), std::move(hashes),
                                    MPI_Wtime() - start, MPI_COMM_WORLD);
  if (session.rank() == 0 && !options["summary"].empty())
    write_summary(summary, options["summary"]);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return run_job(argc, argv, [&] {
    const CommandLine options(argc, argv,
                              {{"relief", default_relief}, {"cell-minutes", "5"}, {"summary", ""}});
    if (options.asks_help()) {
      std::printf("Computes the tsunami. Options and defaults:\n%s", options.text().c_str());
      return 0;
    }
    return produce(options);
  });
}
