// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.hpp"
#include "core/nearest.hpp"

namespace tremula::cli {

void add_commands(CLI::App& app) {
  app.name("tremula");
  app.description("Separate parallel jobs share distributed arrays.");
  app.require_subcommand(1);
  app.set_version_flag("--version", version_text(), "Print the version and exit");
  add_bench(app);
  add_plan(app);
  add_serve(app);
  add_status(app);
  add_version(app);
}

namespace {

std::vector<std::string> names_of_commands(const CLI::App& app) {
  std::vector<std::string> out;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    out.push_back(command->get_name());
  return out;
}

std::vector<std::string> names_of_options(const CLI::App& command) {
  std::vector<std::string> out;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) out.push_back("--" + name);
  return out;
}

/// Returns a text that names the word of the command line that no command accepts and the command
/// or option that was probably meant; empty if there is no such word.
/// @param app  the app that has parsed the command line
std::string complaint(const CLI::App& app) {
  const std::vector<std::string> left = app.remaining(true);
  if (left.empty()) return "";
  const auto chosen = app.get_subcommands();
  const CLI::App& command = chosen.empty() ? app : *chosen.front();
  const std::string name = chosen.empty() ? "tremula" : "tremula " + command.get_name();
  const auto option =
      std::ranges::find_if(left, [](const std::string& word) { return word.starts_with('-'); });
  const std::string word = (option != left.end() ? *option : left.front());
  const std::string found = word.substr(0, word.find('='));
  const bool is_option = option != left.end(), is_command = !is_option && chosen.empty();
  const auto known = is_command ? names_of_commands(app) : names_of_options(command);
  std::string text = fmt::format("{}: ", name);
  if (is_option)
    text += fmt::format("unknown option '{}'", found);
  else if (is_command)
    text += fmt::format("expected a command, one of {}; found '{}'", fmt::join(known, ", "), found);
  else
    text += fmt::format("expected no further argument, found '{}'", found);
  if (is_command && found == "doctor")
    text += "; the Python package has it: python3 -m tremula doctor";
  const std::string_view meant =
      is_option || is_command ? core::likely_meant(found, known) : std::string_view();
  if (!meant.empty()) text += fmt::format("; did you mean {}?", meant);
  return text + fmt::format("\nRun '{} --help' for a list.\n", name);
}

}  // namespace

int run(int argc, char** argv) {
  CLI::App app;
  add_commands(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = error.get_exit_code();
    const bool has_words_left = code == static_cast<int>(CLI::ExitCodes::ExtrasError) ||
                                code == static_cast<int>(CLI::ExitCodes::RequiredError);
    const std::string text = has_words_left ? complaint(app) : "";
    if (text.empty()) return app.exit(error) == 0 ? 0 : 2;
    std::fprintf(stderr, "%s", text.c_str());
    return 2;
  }
  return 0;
}

}  // namespace tremula::cli
