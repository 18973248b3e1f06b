// SPDX-License-Identifier: Apache-2.0
#include "cli/manual/definitions.hpp"

#include <CLI/CLI.hpp>
#include <set>

namespace tremula::cli::manual {

namespace {

/// Returns names of options, sorted because CLI11 orders the options by address, which varies from
/// run to run.
std::string names_of(const std::set<CLI::Option*>& options) {
  std::set<std::string> names;
  for (const CLI::Option* option : options) names.insert(option->get_name());
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : " ") + name;
  return text;
}

/// Returns the values that a type such as "TEXT:{producer,consumer}" allows.
std::vector<std::string> choices_of(const std::string& type) {
  const std::size_t begin = type.find(":{"), end = type.find('}');
  if (begin == std::string::npos || end == std::string::npos) return {};
  return CLI::detail::split(type.substr(begin + 2, end - begin - 2), ',');
}

Option option_of(const CLI::Option& from) {
  Option option;
  for (const std::string& name : from.get_snames()) option.names.push_back("-" + name);
  for (const std::string& name : from.get_lnames()) option.names.push_back("--" + name);
  option.is_positional = from.get_positional() && option.names.empty();
  if (option.is_positional) option.names.push_back(from.get_name(true));
  if (from.get_items_expected_max() != 0) {
    option.value = from.get_option_text().empty() ? from.get_type_name() : from.get_option_text();
    option.choices = choices_of(from.get_type_name());
    option.may_lack_value = from.get_items_expected_min() == 0;
  }
  option.needs = names_of(from.get_needs());
  option.excludes = names_of(from.get_excludes());
  option.description = from.get_description();
  option.is_required = from.get_required();
  return option;
}

Command command_of(const CLI::App& from) {
  Command command{from.get_name(), from.get_description(), from.get_footer(), {}};
  for (const CLI::Option* option : from.get_options())
    if (!option->get_group().empty()) command.options.push_back(option_of(*option));
  return command;
}

}  // namespace

Program definitions(const CLI::App& app) {
  Program program{command_of(app), {}};
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    if (!command->get_group().empty()) program.commands.push_back(command_of(*command));
  return program;
}

}  // namespace tremula::cli::manual
