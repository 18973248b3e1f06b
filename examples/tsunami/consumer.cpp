// SPDX-License-Identifier: Apache-2.0
// Takes the surface of the sea in blocks of rows that are distributed in turn to its ranks. Records
// the maximum height and the first arrival, draws both, and compares the arrivals with tide gauges.
// The program does not know how the producer distributes the field.
#include <tremula/tremula_mpi.h>

#include <algorithm>
#include <filesystem>
#include <tremula/tremula.hpp>

#include "agreement.hpp"
#include "earthquake.hpp"
#include "job.hpp"
#include "pictures.hpp"
#include "relief.hpp"
#include "step_hash.hpp"
#include "summary.hpp"
#include "wave_record.hpp"

namespace {

using namespace tsunami;

constexpr Index rows_per_block = 20;

/// Returns the rows of all ranks in their global order on rank 0, shape [rows][columns]; an empty
/// vector on other ranks. Collective.
std::vector<float> gather(const std::vector<float>& own, const tremula::Layout& layout, int rank,
                          int ranks) {
  const Index columns = layout.shape()[1];
  std::vector<int> counts, starts;
  int total = 0;
  for (int other = 0; other < ranks; ++other) {
    starts.push_back(total);
    counts.push_back(static_cast<int>(layout.local(other).extents[0] * columns));
    total += counts.back();
  }
  std::vector<float> dealt(rank == 0 ? static_cast<std::size_t>(total) : 0), whole(dealt.size());
  MPI_Gatherv(own.data(), static_cast<int>(own.size()), MPI_FLOAT, dealt.data(), counts.data(),
              starts.data(), MPI_FLOAT, 0, MPI_COMM_WORLD);
  if (rank != 0) return whole;

  auto row = dealt.begin();
  for (int other = 0; other < ranks; ++other) {
    for (Index local = 0; local < layout.local(other).extents[0]; ++local, row += columns) {
      std::copy_n(row, columns, whole.begin() + layout.global_index(other, 0, local) * columns);
    }
  }
  return whole;
}

void print_arrivals(const Grid& grid, const std::vector<float>& relief,
                    const std::vector<float>& arrival_hours) {
  std::printf("\nFirst wave, hours after the earthquake\n%-16s%10s%12s%14s\n", "gauge", "model",
              "observed", "difference");
  for (const Gauge& gauge : gauges) {
    const double model =
        arrival_hours[static_cast<std::size_t>(nearest_sea(grid, relief, gauge.place))];
    std::printf("%-16s%10.2f%12.1f%+12.1f %%\n", gauge.name, model, gauge.observed_hours,
                100 * (model / gauge.observed_hours - 1));
  }
}

/// @return whether both jobs have the same hash for every step
bool print_summary(const Summary& consumer, const Summary& producer) {
  std::printf("\nsteps        %lu\n", static_cast<unsigned long>(consumer.steps));
  std::printf("bytes        %.2f GB\n", static_cast<double>(consumer.bytes) / 1e9);
  std::printf("packages     %lu\n", static_cast<unsigned long>(consumer.packages));
  std::printf("plan time    %.2f ms in the producer, %.2f ms in the consumer\n",
              producer.plan_seconds * 1e3, consumer.plan_seconds * 1e3);
  std::printf("waiting      producer %.1f s for the consumer, consumer %.1f s for the producer\n",
              producer.wait_seconds, consumer.wait_seconds);
  std::printf("transport    %s\n", consumer.transport.c_str());
  const auto differ = std::mismatch(consumer.hashes.begin(), consumer.hashes.end(),
                                    producer.hashes.begin(), producer.hashes.end());
  if (consumer.hashes.size() != static_cast<std::size_t>(steps) ||
      producer.hashes.size() != consumer.hashes.size() || differ.first != consumer.hashes.end()) {
    std::printf(
        "NOT VERIFIED expected equal hashes of %ld steps, found %zu in the producer, %zu in the "
        "consumer, the "
        "first %td equal\n",
        static_cast<long>(steps), producer.hashes.size(), consumer.hashes.size(),
        differ.first - consumer.hashes.begin());
    return false;
  }
  std::printf("verified     %ld of %ld steps have the same hash in both jobs\n",
              static_cast<long>(steps), static_cast<long>(steps));
  return true;
}

int consume(const CommandLine& options) {
  const double start = MPI_Wtime();
  tremula::Session session("consumer", MPI_COMM_WORLD);
  const int rank = session.rank(), ranks = session.size();
  const Grid grid = pacific(nodes_per_cell(options));
  const auto layout = tremula::Layout::block_cyclic({.shape = {grid.rows, grid.columns},
                                                     .grid = {ranks, 1},
                                                     .block = {rows_per_block, grid.columns}});
  const tremula::Layout::Local part = layout.local(rank);
  const Index rows = part.extents[0];

  tremula::InStream in = session.in_stream(stream_name);
  const auto field = in.field<float>(field_name, layout);
  std::vector<float> elevation(static_cast<std::size_t>(part.allocated));
  WaveRecord record(elevation.size());
  std::vector<std::uint64_t> hashes;
  while (in.begin_step() == tremula::StepStatus::ok) {
    const auto step = static_cast<Index>(in.step());
    in.get(field, elevation);
    in.end_step();
    record.add((centroid_delay_seconds + seconds_at(step)) / 3600, elevation);
    StepHash hash(step);
    for (Index row = 0; row < rows; ++row) {
      hash.add(layout.global_index(rank, 0, row) * grid.columns,
               &elevation[static_cast<std::size_t>(row * grid.columns)], grid.columns);
    }
    hashes.push_back(hash.sum());
  }
  in.close();

  const std::vector<float> highest = gather(record.highest_metres(), layout, rank, ranks);
  const std::vector<float> arrival = gather(record.arrival_hours(), layout, rank, ranks);
  const Summary summary = summarise("consumer", in.statistics(), std::move(hashes),
                                    MPI_Wtime() - start, MPI_COMM_WORLD);
  if (rank != 0) return 0;

  const std::vector<float> relief =
      read_relief(options["relief"], grid, 0, 0, grid.rows, grid.columns);
  const std::filesystem::path folder = options["output"];
  std::filesystem::create_directories(folder);
  draw_highest(grid, relief, highest, folder / "maximum_height.png");
  draw_arrival(grid, relief, arrival, folder / "arrival.png");
  print_arrivals(grid, relief, arrival);
  if (!options["summary"].empty()) write_summary(summary, options["summary"]);
  std::printf("\npictures     %s\n             %s\n", (folder / "maximum_height.png").c_str(),
              (folder / "arrival.png").c_str());
  return print_summary(summary, read_summary(options["producer-summary"], 60)) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  return run_job(argc, argv, [&] {
    const CommandLine options(argc, argv,
                              {{"relief", default_relief},
                               {"cell-minutes", "5"},
                               {"output", "."},
                               {"summary", ""},
                               {"producer-summary", "producer.json"}});
    if (options.asks_help()) {
      std::printf("Maps and arrival times of the tsunami. Options and defaults:\n%s",
                  options.text().c_str());
      return 0;
    }
    return consume(options);
  });
}
