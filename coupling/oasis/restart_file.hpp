// SPDX-License-Identifier: Apache-2.0
#pragma once
// Restart files are NetCDF files, with the names of variables that OASIS3-MCT reads and writes:
//
//   SOURCE              the lagged field, at time 0 of the run that reads it
//   av1000003_SOURCE    the lagged field of entry 3, if several entries share the source and the
//                       file
//   loc000003_cnt       with LOCTRANS, for each field of entry 3, the number of puts since its last
//                       coupling date; an entry has several fields if it is a list or has bundles
//   loc000003_SOURCE    the values that these puts have accumulated
//
// An entry's number is its place in the namcouple, counted from 1. Field f of a bundle is in the
// variable SOURCE_00f; in a file from OASIS3-MCT 4, it may be in SOURCE.00f.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "coupling/oasis/configuration.hpp"

namespace tremula::oasis {

/// Returns the name of the variable of field `number`, counted from 1, in a bundle of `fields`.
std::string field_name(const std::string& source, int number, int fields);
/// Return the names that the variable of this field may have in a file. A file is written with the
/// first one.
std::vector<std::string> lagged_names(const Configuration& configuration, const Entry& entry,
                                      int number, int fields);
std::vector<std::string> part_names(const Entry& entry, int number, int fields);
std::string count_name(const Entry& entry);

struct RestartVariable {
  std::string name;
  std::int64_t nx = 0, ny = 0;  ///< 0 if the values have one dimension
  std::vector<double> values;
};
struct RestartCount {
  std::string name;
  int value = 0;
  std::size_t begin = 0;   ///< index of the first element that gets the value
  std::size_t fields = 1;  ///< number of elements that get it
  std::size_t size = 1;    ///< number of elements of the variable
};

/// The variables to write to one file at the end of a run.
struct RestartContents {
  std::vector<RestartVariable> variables;
  std::vector<RestartCount> counts;
};

/// Returns the variable in double precision, flattened to one dimension; nullopt if the file or the
/// variable does not exist.
/// @throws Error if the file cannot be read
std::optional<std::vector<double>> read_restart(const std::filesystem::path& file,
                                                const std::string& variable);

/// Adds variables to the file, or replaces existing ones. An existing variable that does not have
/// double precision cannot hold every bit. It is renamed to NAME_before, and a new variable takes
/// its name. The counts of an entry with a different number of fields are renamed, too. A reader
/// sees either the old file or the complete new one.
/// @throws Error if the file cannot be written
void write_restart(const std::filesystem::path& file, const RestartContents& contents);

}  // namespace tremula::oasis
