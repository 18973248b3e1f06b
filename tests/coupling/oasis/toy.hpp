// SPDX-License-Identifier: Apache-2.0
#pragma once
// Coupled runs of two components that oasis_toy.f90 implements, and an oracle. The oracle knows
// which points a rank holds, because it has distributed them. It works from the definition in the
// manual of OASIS3-MCT: at time t, the target gets the transformation of all values that the source
// has put in the coupling period that ends with date t - lag.
#include <cstdint>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/coupled/jobs.hpp"

namespace tremula::oasis_toy {

using Random = std::mt19937_64;

enum class Kind { serial, apple, box, orange, points };
inline constexpr Kind all_kinds[] = {Kind::serial, Kind::apple, Kind::box, Kind::orange,
                                     Kind::points};
std::string word_of(Kind kind);

/// The decomposition of a grid of nx x ny points.
struct Decomposition {
  Kind kind = Kind::serial;
  int ig_size = 0;                         ///< number of points of the grid; 0 if not given
  std::vector<std::vector<int>> points;    ///< global numbers from 0, by rank, in local order
  std::vector<std::vector<int>> ig_paral;  ///< the array that describes these points, by rank
};
Decomposition deal(Random& random, Kind kind, int nx, int ny, int ranks);

struct Case {
  int slot = 0;
  int nx = 1, ny = 1;
  bool is_forth = true;  ///< from component 0 to component 1
  Decomposition source, target;
  int period = 0, lag = 0;
  std::string transformation = "INSTANT";
  int bundle = 1;
  int source_bytes = 8, source_dimensions = 1;
  int target_bytes = 8, target_dimensions = 1;

  std::string source_name() const { return "SRC" + std::to_string(slot); }
  std::string target_name() const { return "DST" + std::to_string(slot); }
  std::string text() const;
};

struct Component {
  std::string name;
  int ranks = 1;
  int step = 0;
  bool gets_first = false;
};

struct Scene {
  Component components[2];
  int runtime = 0;
  int first_date = 0;  ///< date at which the run begins, on the clock that determines the values
  bool is_yaml = false;
  std::vector<Case> cases;
};

/// The record of one call of a rank.
struct Note {
  int slot = 0, date = 0, kinfo = 0;
  std::vector<double> values;
};

/// Returns TREMULA_TEST_SEED, or 1 if it is not set.
std::uint64_t first_seed();
/// Returns a scene with all 25 pairs of partitions in each direction.
Scene random_scene(std::uint64_t seed);

/// Writes configuration, plans and restart files into `folder`; keeps existing restart files.
void prepare(const Scene& scene, const std::filesystem::path& folder);
/// Starts one of the two jobs in a prepared folder.
coupled::Job& start(const Scene& scene, int component, coupled::Stage& stage,
                    const std::filesystem::path& folder);
/// Prepares the folder and runs both jobs.
/// @return whether both have ended with status 0; if not, the test has failed
bool play(const Scene& scene, coupled::Stage& stage, const std::filesystem::path& folder);
/// Returns the notes of a rank.
/// @param component  0 or 1
std::vector<Note> notes_of(const Scene& scene, const std::filesystem::path& folder, int component,
                           int rank);
/// Returns the values that the target got, by slot and date on the clock that determines the
/// values. The values are ordered by field of the bundle, then by point. They are 0 at points that
/// no rank of the target has.
std::map<std::pair<int, int>, std::vector<double>> got_fields(const Scene& scene,
                                                              const std::filesystem::path& folder);
/// Compares all notes with the oracle.
void expect_right(const Scene& scene, const std::filesystem::path& folder);

}  // namespace tremula::oasis_toy
