// SPDX-License-Identifier: Apache-2.0
#include "coupling/oasis/configuration.hpp"

#include <fmt/format.h>

#include <fstream>
#include <map>
#include <sstream>

#include "coupling/oasis/failure.hpp"
#include "coupling/oasis/namcouple.hpp"

namespace tremula::oasis {

namespace fs = std::filesystem;

std::string name_of(const Entry& entry) { return entry.source + "->" + entry.target; }

namespace {

std::string contents(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file)
    fail(fmt::format("{}: expected a file that can be read; found none; check its permissions",
                     path.string()));
  return text.str();
}

void check_entry(const Entry& entry, const Configuration& configuration,
                 std::vector<std::string>& warnings) {
  const std::string where = fmt::format("{}, field {}", configuration.file, name_of(entry));
  if (entry.mapping.empty() && !entry.conserve.empty())
    fail(
        fmt::format("{}: expected CONSERV (YAML: conserve) only for a field that is regridded; "
                    "found no MAPPING (YAML: mapping), without which the field does not change",
                    where));
  if (entry.period <= 0)
    fail(fmt::format("{}: expected a coupling period above 0 s; found {}", where, entry.period));
  if (entry.lag > entry.period || entry.lag <= -entry.period)
    fail(fmt::format("{}: expected a lag above -{} and at most {}, the coupling period; found {}",
                     where, entry.period, entry.period, entry.lag));
  if (entry.lag > 0 && entry.restart.empty())
    fail(
        fmt::format("{}: expected a restart file, because the lag is {} s; found none; name one "
                    "(YAML: restart)",
                    where, entry.lag));
  if (entry.period > configuration.runtime)
    warnings.push_back(
        fmt::format("{}: the coupling period of {} s is longer than the runtime of {} s: the field "
                    "is exchanged only at date 0",
                    where, entry.period, configuration.runtime));
  if (entry.lag > 0 && configuration.runtime % entry.period != 0)
    warnings.push_back(
        fmt::format("{}: the runtime of {} s is not a multiple of the coupling period of {} s: "
                    "this run writes no restart field, and no run can follow it",
                    where, configuration.runtime, entry.period));
}

}  // namespace

void check(Configuration& configuration) {
  if (configuration.runtime <= 0)
    fail(fmt::format("{}: expected a runtime above 0 s; found {}; set $RUNTIME (YAML: runtime)",
                     configuration.file, configuration.runtime));
  std::map<std::string, std::string> source_of;
  for (const Entry& entry : configuration.entries) {
    if (entry.source.empty() || entry.target.empty())
      fail(fmt::format("{}: expected the names of two fields; found '{}' and '{}'",
                       configuration.file, entry.source, entry.target));
    const auto [known, is_new] = source_of.emplace(entry.target, entry.source);
    if (!is_new)
      fail(
          fmt::format("{}: expected one source of the field {}; found {} and {}; give the second "
                      "target a different name",
                      configuration.file, entry.target, known->second, entry.source));
    check_entry(entry, configuration, configuration.warnings);
  }
}

void expect_weights(const Configuration& configuration, const fs::path& folder) {
  const Entry* first = nullptr;
  std::map<std::string, std::string> missing;  // file -> line of the first field that needs it
  for (const Entry& entry : configuration.entries) {
    if (entry.scripr.empty() || fs::exists(folder / entry.mapping)) continue;
    if (first == nullptr) first = &entry;
    missing.emplace(entry.mapping, entry.scripr);
  }
  if (first == nullptr) return;
  std::string others;
  for (const auto& [file, where] : missing)
    if (file != first->mapping) others += fmt::format("; {}: {} is also missing", where, file);
  refuse(
      fmt::format("{}: the transformation SCRIPR", first->scripr),
      fmt::format(
          "it reads existing weights: expected the file {} in the working folder; found none: make "
          "it with SCRIP, ESMF or CDO, copy it from a run of OASIS, or name a file with MAPPING{}",
          first->mapping, others));
}

Configuration read_configuration(const fs::path& folder) {
  const fs::path namcouple = folder / namcouple_file, yaml = folder / yaml_file;
  const bool has_namcouple = fs::exists(namcouple), has_yaml = fs::exists(yaml);
  if (has_namcouple && has_yaml)
    fail(fmt::format("{}: expected a {} or a {}; found both; remove one", folder.string(),
                     namcouple_file, yaml_file));
  if (!has_namcouple && !has_yaml)
    fail(fmt::format(
        "{}: expected a {} or a {}; found neither; write one, or start the program in its folder",
        folder.string(), namcouple_file, yaml_file));
  Configuration configuration = has_yaml ? parse_yaml(contents(yaml), yaml_file)
                                         : parse_namcouple(contents(namcouple), namcouple_file);
  check(configuration);
  expect_weights(configuration, folder);
  return configuration;
}

}  // namespace tremula::oasis
