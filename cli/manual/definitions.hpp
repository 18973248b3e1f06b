// SPDX-License-Identifier: Apache-2.0
#pragma once
// The contents of --help for a command line, as values from which man pages and completions are
// made.
#include <CLI/App.hpp>
#include <string>
#include <vector>

namespace tremula::cli::manual {

struct Option {
  std::vector<std::string> names;  // "--port", "-h"; the name of a positional one, without hyphens
  std::string value;               // as --help shows it, e.g. "INT:INT in [1 - 100000]"; "": a flag
  std::string needs, excludes;     // names, sorted
  std::string description;
  std::vector<std::string> choices;  // all values that are allowed, if it has a list of them
  bool is_positional = false;
  bool is_required = false;
  bool may_lack_value = false;
};

struct Command {
  std::string name;  // "serve"; "tremula" for the program itself
  std::string description, footer;
  std::vector<Option> options;
};

struct Program {
  Command itself;
  std::vector<Command> commands;
};

/// Returns the definitions of all commands and options that --help shows.
Program definitions(const CLI::App& app);

}  // namespace tremula::cli::manual
