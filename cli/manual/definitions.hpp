// SPDX-License-Identifier: Apache-2.0
#pragma once
// What --help shows of a command line, as values: man pages and completions are made of it.
#include <CLI/App.hpp>
#include <string>
#include <vector>

namespace tremula::cli::manual {

struct Option {
  std::vector<std::string> names;  // "--port", "-h"; of a positional one its name, without hyphens
  std::string value;               // as --help shows it, e.g. "INT:INT in [1 - 100000]"; "": a flag
  std::string needs, excludes;     // names, sorted
  std::string description;
  std::vector<std::string> choices;  // all values that are allowed, if it has a list of them
  bool is_positional = false;
  bool is_required = false;
  bool may_lack_value = false;
};

struct Command {
  std::string name;  // "serve"; of the program itself "tremula"
  std::string description, footer;
  std::vector<Option> options;
};

struct Program {
  Command itself;
  std::vector<Command> commands;
};

/// Of all commands and options that --help shows.
Program definitions(const CLI::App& app);

}  // namespace tremula::cli::manual
