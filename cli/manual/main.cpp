// SPDX-License-Identifier: Apache-2.0
// tremula_manual FOLDER: writes the man pages, the completions and the reference page of `tremula` into FOLDER, as the
// build does.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "cli/command.hpp"
#include "cli/manual/completion.hpp"
#include "cli/manual/man_page.hpp"
#include "cli/manual/reference_page.hpp"

namespace {

namespace fs = std::filesystem;
namespace manual = tremula::cli::manual;

void write(const fs::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) throw std::runtime_error(path.string() + ": expected a file that can be written");
}

void write_all(const fs::path& folder) {
  CLI::App app;
  tremula::cli::add_commands(app);
  const manual::Program program = manual::definitions(app);
  fs::create_directories(folder);
  write(folder / "tremula.1", manual::program_page(program, TREMULA_VERSION));
  for (const manual::Command& command : program.commands)
    write(folder / ("tremula-" + command.name + ".1"),
          manual::command_page(program, command, TREMULA_VERSION));
  write(folder / "commands", manual::reference_page(program));
  write(folder / "tremula.bash", manual::bash_completion(program));
  write(folder / "tremula.zsh", manual::zsh_completion(program));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "tremula_manual: expected a folder, found %d arguments\n", argc - 1);
    return 2;
  }
  try {
    write_all(argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tremula_manual: %s\n", error.what());
    return 1;
  }
  return 0;
}
