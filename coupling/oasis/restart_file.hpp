// SPDX-License-Identifier: Apache-2.0
#pragma once
// Restart files are NetCDF, with the names of variables that OASIS3-MCT reads and writes:
//
//   SOURCE              the lagged field, at time 0 of the run that reads it
//   av1000003_SOURCE    the same of entry 3, where several entries have the source and the file in
//   common loc000003_cnt       puts that entry 3 has taken in since its last coupling date, with
//   LOCTRANS loc000003_SOURCE    what it has made of them
//
// Field f of a bundle is SOURCE_00f.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "coupling/oasis/configuration.hpp"

namespace tremula::oasis {

/// Of field `number` of a bundle of `fields`, from 1 on.
std::string field_name(const std::string& source, int number, int fields);
/// Of a lagged field. @param is_shared  another lagged entry has the source and the file
std::string lagged_name(const Entry& entry, const std::string& field, bool is_shared);
std::string part_name(const Entry& entry, const std::string& field);
std::string count_name(const Entry& entry);

struct RestartVariable {
  std::string name;
  std::int64_t nx = 0, ny = 0;  ///< 0: the values have one dimension
  std::vector<double> values;
};
struct RestartCount {
  std::string name;
  int value = 0;
};

/// What one file gets at the end of a run.
struct RestartContents {
  std::vector<RestartVariable> variables;
  std::vector<RestartCount> counts;
};

/// Returns the variable in double precision, with all its dimensions as one; empty if there is no file or no variable.
/// @throws Error if the file cannot be read
std::optional<std::vector<double>> read_restart(const std::filesystem::path& file,
                                                const std::string& variable);

/// Adds them to the file, or replaces those that are there. A variable that is not of double precision, which could not
/// hold every bit, is renamed to NAME_before, and one of its name added. A reader sees the file as it was or
/// with all of them.
/// @throws Error if it cannot be written
void write_restart(const std::filesystem::path& file, const RestartContents& contents);

}  // namespace tremula::oasis
