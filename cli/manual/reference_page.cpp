// SPDX-License-Identifier: Apache-2.0
#include "cli/manual/reference_page.hpp"

#include <fmt/format.h>

namespace tremula::cli::manual {

namespace {

/// Escapes a text so that a cell of a table shows it unchanged.
std::string text(const std::string& plain) {
  std::string out;
  for (const char c : plain) {
    if (c == '|' || c == '*' || c == '_' || c == '<' || c == '[' || c == ']') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

std::string row_of(const Option& option) {
  std::string names;
  for (const std::string& name : option.names)
    names += fmt::format("{}`{}`", names.empty() ? "" : ", ", name);
  std::string description = text(option.description);
  if (option.is_required) description += " (required)";
  if (!option.needs.empty()) description += fmt::format(". Needs `{}`", option.needs);
  if (!option.excludes.empty()) description += fmt::format(". Not with `{}`", option.excludes);
  return fmt::format("| {} | {} | {} |\n", names, text(option.value), description);
}

std::string options_of(const Command& command) {
  std::string out = "| Option | Value | |\n|---|---|---|\n";
  for (const Option& option : command.options) out += row_of(option);
  return out;
}

}  // namespace

std::string reference_page(const Program& program) {
  const std::string& name = program.itself.name;
  std::string out = fmt::format(
      "# Commands\n"
      "\nThis page is generated from the definitions of the command line, as are `--help` and the "
      "man pages.\n"
      "Exit code 0: success; 1: the command failed, and a line on standard error states what was "
      "expected, what was found and\n"
      "what to do; 2: the command line is not valid.\n"
      "\n## {}\n\n{}\n\n{}",
      name, text(program.itself.description), options_of(program.itself));
  for (const Command& command : program.commands) {
    out += fmt::format("\n## {} {}\n\n{}.\n\n{}", name, command.name, text(command.description),
                       options_of(command));
    if (!command.footer.empty()) out += fmt::format("\n```text\n{}\n```\n", command.footer);
  }
  return out;
}

}  // namespace tremula::cli::manual
