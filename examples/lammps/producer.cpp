// SPDX-License-Identifier: Apache-2.0
// Runs a LAMMPS script through the LAMMPS library. Every `every` timesteps, each rank puts the
// atoms that it owns at that time. LAMMPS is Debian's unmodified package, which contains no code
// for Tremula.
#include <mpi.h>
#define LAMMPS_LIB_MPI
#include <lammps/library.h>
#include <tremula/tremula_mpi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <tremula/tremula.hpp>
#include <vector>

#include "agreement.hpp"

namespace {

using namespace melt;
using Lammps = std::unique_ptr<void, decltype(&lammps_close)>;

/// Throws the error of LAMMPS, if any. A LAMMPS built with exceptions continues after an error; one
/// built without them ends the job.
void check(const Lammps& lammps) {
  char text[500];
  if (!lammps_has_error(lammps.get())) return;
  lammps_get_last_error_message(lammps.get(), text, sizeof text);
  throw std::runtime_error(text);
}

Lammps open_lammps(const std::string& folder) {
  std::vector<std::string> words{"lammps", "-log", "none"};
  const auto set = [&](const char* name, const std::string& value) {
    words.insert(words.end(), {"-var", name, value});
  };
  set("cutoff", std::to_string(cutoff));
  set("bins", std::to_string(bins));
  set("every", std::to_string(every));
  set("digits", std::to_string(digits));
  set("folder", folder);
  std::vector<char*> arguments;
  arguments.reserve(words.size());
  for (std::string& word : words) arguments.push_back(word.data());
  Lammps lammps(
      lammps_open(static_cast<int>(arguments.size()), arguments.data(), MPI_COMM_WORLD, nullptr),
      lammps_close);
  if (!lammps || lammps_extract_setting(lammps.get(), "tagint") != sizeof(std::int32_t))
    throw std::runtime_error(
        "expected a LAMMPS with ids of 32 bits, found none; install Debian's liblammps-dev");
  return lammps;
}

template <class T>
T global(const Lammps& lammps, const char* name) {
  return *static_cast<T*>(lammps_extract_global(lammps.get(), name));
}

/// The atoms of this rank, in the memory of LAMMPS; valid until LAMMPS continues.
struct Atoms {
  std::span<const std::int32_t> id, image;
  std::span<const double> x;  ///< shape: [atom][3]

  explicit Atoms(const Lammps& lammps) {
    const auto count = static_cast<std::size_t>(global<int>(lammps, "nlocal"));
    const auto array = [&](const char* name) { return lammps_extract_atom(lammps.get(), name); };
    id = {static_cast<std::int32_t*>(array("id")), count};
    image = {static_cast<std::int32_t*>(array("image")), count};
    if (count > 0) x = {*static_cast<double**>(array("x")), 3 * count};
  }
  /// Returns the positions that the atoms would have if the box were not periodic. Shape: [atom][3]
  std::vector<double> unwrapped(std::span<const double, 3> box) const {
    std::vector<double> places(x.begin(), x.end());
    for (std::size_t atom = 0; atom < id.size(); ++atom) {
      int boxes[3];
      lammps_decode_image_flags(image[atom], boxes);
      for (std::size_t k = 0; k < 3; ++k) places[3 * atom + k] += boxes[k] * box[k];
    }
    return places;
  }
};

/// Changes in the number of atoms of a rank.
struct Counts {
  int changes = 0, fewest = 0, most = 0, last = -1;
  void add(int count) {
    if (last < 0) fewest = most = last = count;
    changes += count != last;
    fewest = std::min(fewest, count);
    most = std::max(most, count);
    last = count;
  }
  void print(int rank, int ranks, int steps) const {
    int all_changes = 0, all_fewest = 0, all_most = 0;
    MPI_Reduce(&changes, &all_changes, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(&fewest, &all_fewest, 1, MPI_INT, MPI_MIN, 0, MPI_COMM_WORLD);
    MPI_Reduce(&most, &all_most, 1, MPI_INT, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank != 0) return;
    std::printf("producer     %d steps, %d ranks with %d to %d atoms each\n", steps, ranks,
                all_fewest, all_most);
    std::printf("migration    the number of atoms of a rank changed in %d of %d cases\n",
                all_changes, (steps - 1) * ranks);
  }
};

int produce(const char* script, const char* folder, int timesteps) {
  Lammps lammps = open_lammps(folder);
  lammps_file(lammps.get(), script);
  check(lammps);
  double low[3], high[3];
  lammps_extract_box(lammps.get(), low, high, nullptr, nullptr, nullptr, nullptr, nullptr);
  const double box[] = {high[0] - low[0], high[1] - low[1], high[2] - low[2]};

  tremula::Session session("simulation", MPI_COMM_WORLD);
  tremula::OutStream out = session.out_stream(stream_name);
  const std::string ranks = std::to_string(session.size());
  const auto rows = tremula::Layout::parse("shape=* grid=" + ranks);
  const auto rows_of_three = tremula::Layout::parse("shape=*x3 grid=" + ranks + "x1");
  const auto id = out.field<std::int64_t>("id", rows);
  const auto x = out.field<double>("x", rows_of_three);
  const auto unwrapped = out.field<double>("unwrapped", rows_of_three);
  out.attribute("time_unit", "timestep");
  out.attribute(x, "box", box);

  const std::string next = "run " + std::to_string(every) + " pre no post no";
  const int steps = 1 + timesteps / every;
  Counts counts;
  for (int step = 0; step < steps; ++step) {
    lammps_command(lammps.get(), step == 0 ? "run 0 post no" : next.c_str());
    check(lammps);
    const Atoms atoms(lammps);
    counts.add(static_cast<int>(atoms.id.size()));
    out.begin_step();
    out.time(global<std::int64_t>(lammps, "ntimestep"));
    out.put(id, std::vector<std::int64_t>(atoms.id.begin(), atoms.id.end()));
    out.put(x, atoms.x);
    out.put(unwrapped, atoms.unwrapped(box));
    out.end_step();
  }
  lammps.reset();  // its files are complete before the stream ends
  out.close();
  counts.print(session.rank(), session.size(), steps);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const int timesteps = argc == 4 ? std::atoi(argv[3]) : 0;
  if (timesteps < every) {
    std::fprintf(stderr, "usage: %s SCRIPT FOLDER TIMESTEPS (%d or more)\n", argv[0], every);
    return 2;
  }
  return run_job(argc, argv, [&] { return produce(argv[1], argv[2], timesteps); });
}
