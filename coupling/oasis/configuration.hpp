// SPDX-License-Identifier: Apache-2.0
#pragma once
// What is coupled with what, and when: from a namcouple or from YAML.
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "coupling/oasis/schedule.hpp"
#include "coupling/oasis/transformation.hpp"

namespace tremula::oasis {

struct Grid {
  std::string name;
  std::int64_t nx = 0, ny = 0;  ///< 0: the configuration does not tell
};

/// What BLASOLD and BLASNEW do to each value: factor * value + summand.
struct Linear {
  double factor = 1, summand = 0;
  bool is_identity() const { return factor == 1 && summand == 0; }
};

/// One field that goes from one component to another.
struct Entry {
  int number = 0;  ///< from 1 on, in the order of the file
  std::string source, target;
  Seconds period = 0;
  Seconds lag = 0;
  int sequence = 1;
  Transformation transformation = Transformation::instant;
  std::string restart;  ///< file; empty: there is none
  Grid source_grid, target_grid;
  std::string mapping;      ///< file of weights; empty: the field is not regridded
  std::string conserve;     ///< of tremula_weights_open; empty: none
  std::string scripr = {};  ///< where SCRIPR asks for the weights of `mapping`; empty: nowhere
  Linear of_source = {};    ///< BLASOLD: before the field is regridded
  Linear of_target = {};    ///< BLASNEW: at the end
};

/// The stream that carries it, and how texts call it: "SOURCE->TARGET".
std::string name_of(const Entry& entry);

struct Configuration {
  std::string file;  ///< where it was read from
  Seconds runtime = 0;
  std::vector<Entry> entries;
  std::vector<std::string> outputs = {};  ///< fields that OASIS writes to a file alone
  bool may_lack_restart = false;  ///< a restart file or field that is missing counts as zeros
  std::string session;            ///< further keys of the session, as YAML
  std::vector<std::string> warnings;
};

inline constexpr const char* namcouple_file = "namcouple";
inline constexpr const char* yaml_file = "tremula_oasis.yaml";

/// From the namcouple or the tremula_oasis.yaml of `folder`, whichever is there.
/// @throws Error if there is none, if there are both, or what the readers and check() throw
Configuration read_configuration(const std::filesystem::path& folder);

/// @param file  for texts
/// @throws Error that names the key
Configuration parse_yaml(const std::string& text, const std::string& file);

/// Checks that the files of weights that SCRIPR names are in the folder.
/// @throws Error that names those that are missing
void expect_weights(const Configuration& configuration, const std::filesystem::path& folder);

/// The laws that hold however it was written. Adds warnings.
/// @throws Error that names the field
void check(Configuration& configuration);

}  // namespace tremula::oasis
