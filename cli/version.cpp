// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/command.hpp"
#include "proto/convert.hpp"

namespace tremula::cli {

std::string version_text() {
  return fmt::format("tremula {} (protocol {})", TREMULA_VERSION, proto::protocol_version);
}

void add_version(CLI::App& app) {
  CLI::App& command =
      *app.add_subcommand("version", "Print the version of Tremula and of its protocol");
  const auto json = std::make_shared<bool>(false);  // CLI11 copies the callback that uses it
  command.add_flag("--json", *json, "Print JSON");
  command.callback([json] {
    if (*json)
      fmt::print("{{\"version\": \"{}\", \"protocol\": {}}}\n", TREMULA_VERSION,
                 proto::protocol_version);
    else
      fmt::print("{}\n", version_text());
  });
}

}  // namespace tremula::cli
