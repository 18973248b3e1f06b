// SPDX-License-Identifier: Apache-2.0
// Exit code: 0 success, 1 the command failed, 2 the command line is not valid.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "cli/command.hpp"

namespace {

int run(int argc, char** argv) {
  CLI::App app("Separate parallel jobs share distributed arrays.", "tremula");
  app.require_subcommand(1);
  app.set_version_flag("--version", tremula::cli::version_text(), "Print the version and exit");
  tremula::cli::add_bench(app);
  tremula::cli::add_plan(app);
  tremula::cli::add_serve(app);
  tremula::cli::add_status(app);
  tremula::cli::add_version(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tremula: %s\n", error.what());
    return 1;
  }
}
