// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>

#include "cli/command.hpp"

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

}  // namespace tremula::cli
