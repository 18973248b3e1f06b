// SPDX-License-Identifier: Apache-2.0
#pragma once
// The configuration: which fields are coupled, and when. It is read from a namcouple or from YAML.
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "coupling/oasis/schedule.hpp"
#include "coupling/oasis/transformation.hpp"

namespace tremula::oasis {

struct Grid {
  std::string name;
  std::int64_t nx = 0, ny = 0;  ///< 0 if the configuration does not give them
};

/// The change that BLASOLD and BLASNEW make to each value: factor * value + summand.
struct Linear {
  double factor = 1, summand = 0;
  bool is_identity() const { return factor == 1 && summand == 0; }
};

/// One field that one component sends to another.
struct Entry {
  /// Number of the entry in the file, counted from 1; the pairs of a list have the same number.
  int number = 0;
  std::string source, target;
  Seconds period = 0;
  Seconds lag = 0;
  int sequence = 1;
  Transformation transformation = Transformation::instant;
  std::string restart;  ///< restart file; empty if there is none
  Grid source_grid, target_grid;
  std::string mapping;      ///< file of weights; empty if the field is not regridded
  std::string conserve;     ///< option of tremula_weights_open; empty for none
  std::string scripr = {};  ///< line of the SCRIPR that sets `mapping`; empty if none does
  Linear of_source = {};    ///< BLASOLD: applied before the field is regridded
  Linear of_target = {};    ///< BLASNEW: applied after all other changes
};

/// Returns "SOURCE->TARGET", the name of the stream that carries the entry. Error texts use it too.
std::string name_of(const Entry& entry);

struct Configuration {
  std::string file;  ///< name of the file that was read
  Seconds runtime = 0;
  std::vector<Entry> entries;
  std::vector<std::string> outputs = {};  ///< fields that OASIS only writes to a file
  bool may_lack_restart = false;  ///< true if zeros replace a restart file or field that is missing
  std::string session;            ///< additional keys of the session, as YAML
  std::vector<std::string> warnings;
};

inline constexpr const char* namcouple_file = "namcouple";
inline constexpr const char* yaml_file = "tremula_oasis.yaml";

/// Reads the namcouple or the tremula_oasis.yaml of `folder`, whichever exists.
/// @throws Error if neither or both exist; also what the readers and check() throw
Configuration read_configuration(const std::filesystem::path& folder);

/// Reads a configuration in YAML.
/// @param file  name of the file, for error texts
/// @throws Error that names the key
Configuration parse_yaml(const std::string& text, const std::string& file);

/// Checks that the weight files that SCRIPR needs are in the folder.
/// @throws Error that names the missing files
void expect_weights(const Configuration& configuration, const std::filesystem::path& folder);

/// Checks the rules that apply to both formats. Adds warnings.
/// @throws Error that names the field
void check(Configuration& configuration);

}  // namespace tremula::oasis
