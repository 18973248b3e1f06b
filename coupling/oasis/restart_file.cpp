// SPDX-License-Identifier: Apache-2.0
#include "coupling/oasis/restart_file.hpp"

#include <fmt/format.h>
#include <netcdf.h>

#include <algorithm>
#include <tremula/tremula_weights.hpp>

#include "coupling/oasis/failure.hpp"

namespace tremula::oasis {

namespace fs = std::filesystem;

std::string field_name(const std::string& source, int number, int fields) {
  return fields == 1 ? source : fmt::format("{}_{:03}", source, number);
}

namespace {

/// Returns the names of a field in Tremula and in OASIS3-MCT 4.
std::vector<std::string> field_names(const std::string& source, int number, int fields) {
  if (fields == 1) return {source};
  return {field_name(source, number, fields), fmt::format("{}.{:03}", source, number)};
}

}  // namespace

std::vector<std::string> lagged_names(const Configuration& configuration, const Entry& entry,
                                      int number, int fields) {
  std::vector<std::string> names;
  const auto plain = field_names(entry.source, number, fields);
  const auto has_the_same = [&](const Entry& other) {
    return other.source == entry.source && other.restart == entry.restart && other.lag > 0;
  };
  if (std::ranges::count_if(configuration.entries, has_the_same) > 1)
    for (const std::string& name : plain)
      names.push_back(fmt::format("av1{:06}_{}", entry.number, name));
  names.insert(names.end(), plain.begin(), plain.end());
  return names;
}
std::vector<std::string> part_names(const Entry& entry, int number, int fields) {
  std::vector<std::string> names = field_names(entry.source, number, fields);
  for (std::string& name : names) name = fmt::format("loc{:06}_{}", entry.number, name);
  return names;
}
std::string count_name(const Entry& entry) { return fmt::format("loc{:06}_cnt", entry.number); }

namespace {

void check(int status, const fs::path& file, const std::string& what) {
  if (status != NC_NOERR)
    fail(fmt::format("restart file {}: expected to {}; NetCDF says: {}", file.string(), what,
                     nc_strerror(status)));
}

/// The purpose for which a file is opened. NetCDF has no constants that distinguish all three.
enum class Use { read, change, make };

/// An open NetCDF file.
class NetcdfFile {
public:
  NetcdfFile(const fs::path& path, Use use) : path_(path) {
    check(use == Use::make ? nc_create(path.c_str(), NC_CLOBBER | NC_64BIT_OFFSET, &id_)
                           : nc_open(path.c_str(), use == Use::read ? NC_NOWRITE : NC_WRITE, &id_),
          path, use == Use::read ? "read it" : "write it");
  }
  NetcdfFile(const NetcdfFile&) = delete;
  NetcdfFile& operator=(const NetcdfFile&) = delete;
  ~NetcdfFile() {
    if (is_open_) nc_close(id_);
  }
  int id() const { return id_; }
  void close() {
    is_open_ = false;
    check(nc_close(id_), path_, "close it");
  }
  void check_that(int status, const std::string& what) const { check(status, path_, what); }
  std::optional<int> variable(const std::string& name) const {
    int id = 0;
    const int status = nc_inq_varid(id_, name.c_str(), &id);
    if (status == NC_ENOTVAR) return std::nullopt;
    check_that(status, "look for the variable " + name);
    return id;
  }
  std::size_t elements(int variable) const {
    int dimensions = 0;
    check_that(nc_inq_varndims(id_, variable, &dimensions), "read a variable");
    std::vector<int> ids(static_cast<std::size_t>(dimensions));
    check_that(nc_inq_vardimid(id_, variable, ids.data()), "read a variable");
    std::size_t count = 1;
    for (const int dimension : ids) {
      std::size_t length = 0;
      check_that(nc_inq_dimlen(id_, dimension, &length), "read a dimension");
      count *= length;
    }
    return count;
  }
  int dimension(const std::string& name, std::size_t length) const {
    int id = 0;
    if (nc_inq_dimid(id_, name.c_str(), &id) == NC_NOERR) {
      std::size_t found = 0;
      check_that(nc_inq_dimlen(id_, id, &found), "read the dimension " + name);
      return found == length ? id : dimension(name + "_", length);  // the name is taken
    }
    check_that(nc_def_dim(id_, name.c_str(), length, &id), "add the dimension " + name);
    return id;
  }

private:
  const NetcdfLock lock_;  // held during all calls, because NetCDF is not thread-safe
  fs::path path_;
  int id_ = 0;
  bool is_open_ = true;
};

/// Renames the variable, because one with another type or size is to have its name.
void set_aside(const NetcdfFile& file, int variable, const std::string& name) {
  std::string before = name + "_before";
  while (file.variable(before)) before += "_";
  file.check_that(nc_rename_var(file.id(), variable, before.c_str()),
                  "rename the variable " + name);
}

/// Returns the variable called `name` if it has double precision; else nullopt. Renames a variable
/// that has the name but another type.
std::optional<int> in_double_precision(const NetcdfFile& file, const std::string& name) {
  const auto known = file.variable(name);
  if (!known) return std::nullopt;
  nc_type type = NC_NAT;
  file.check_that(nc_inq_vartype(file.id(), *known, &type), "read the variable " + name);
  if (type == NC_DOUBLE) return known;
  set_aside(file, *known, name);
  return std::nullopt;
}

int defined(const NetcdfFile& file, const RestartVariable& variable) {
  if (const auto known = in_double_precision(file, variable.name)) {
    if (file.elements(*known) != variable.values.size())
      file.check_that(NC_EDIMSIZE,
                      fmt::format("replace {} of {} elements with one of {}", variable.name,
                                  file.elements(*known), variable.values.size()));
    return *known;
  }
  std::vector<int> dimensions;
  if (variable.nx > 0) {
    dimensions.push_back(
        file.dimension(fmt::format("ny_{}", variable.ny), static_cast<std::size_t>(variable.ny)));
    dimensions.push_back(
        file.dimension(fmt::format("nx_{}", variable.nx), static_cast<std::size_t>(variable.nx)));
  } else {
    dimensions.push_back(
        file.dimension(fmt::format("n_{}", variable.values.size()), variable.values.size()));
  }
  int id = 0;
  file.check_that(nc_def_var(file.id(), variable.name.c_str(), NC_DOUBLE,
                             static_cast<int>(dimensions.size()), dimensions.data(), &id),
                  "add the variable " + variable.name);
  return id;
}

int defined(const NetcdfFile& file, const RestartCount& count) {
  if (const auto known = file.variable(count.name)) {
    if (file.elements(*known) == count.size) return *known;
    set_aside(file, *known, count.name);
  }
  const int dimension =
      file.dimension(count.size == 1 ? "one" : fmt::format("n_{}", count.size), count.size);
  int id = 0;
  file.check_that(nc_def_var(file.id(), count.name.c_str(), NC_INT, 1, &dimension, &id),
                  "add the variable " + count.name);
  return id;
}

}  // namespace

std::optional<std::vector<double>> read_restart(const fs::path& path, const std::string& name) {
  if (!fs::exists(path)) return std::nullopt;
  const NetcdfFile file(path, Use::read);
  const auto variable = file.variable(name);
  if (!variable) return std::nullopt;
  std::vector<double> values(file.elements(*variable));
  file.check_that(nc_get_var_double(file.id(), *variable, values.data()),
                  "read the variable " + name);
  return values;
}

void write_restart(const fs::path& path, const RestartContents& contents) {
  // A run that ends here must not leave half a restart file, so the old file stays until the new
  // one is complete.
  fs::path draft = path;
  draft += ".new";
  const bool is_there = fs::exists(path);
  if (is_there) fs::copy_file(path, draft, fs::copy_options::overwrite_existing);
  NetcdfFile file(draft, is_there ? Use::change : Use::make);
  if (is_there) file.check_that(nc_redef(file.id()), "add variables");
  std::vector<int> variables, counts;
  for (const auto& variable : contents.variables) variables.push_back(defined(file, variable));
  for (const auto& count : contents.counts) counts.push_back(defined(file, count));
  file.check_that(nc_enddef(file.id()), "add variables");
  for (std::size_t i = 0; i < variables.size(); ++i)
    file.check_that(nc_put_var_double(file.id(), variables[i], contents.variables[i].values.data()),
                    "write " + contents.variables[i].name);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const RestartCount& count = contents.counts[i];
    const std::vector<int> values(count.fields, count.value);
    file.check_that(
        nc_put_vara_int(file.id(), counts[i], &count.begin, &count.fields, values.data()),
        "write " + count.name);
  }
  file.close();
  fs::rename(draft, path);
}

}  // namespace tremula::oasis
