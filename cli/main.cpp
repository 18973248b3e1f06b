// SPDX-License-Identifier: Apache-2.0
// Exit code: 0 success, 1 the command failed, 2 the command line cannot be understood.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "cli/command.hpp"

int main(int argc, char** argv) {
  using namespace tremula;
  CLI::App app("Separate parallel jobs share distributed arrays.", "tremula");
  app.require_subcommand(1);
  cli::add_serve(app);
  cli::add_status(app);
  cli::add_version(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "tremula: {}\n", error.what());
    return 1;
  }
  return 0;
}
