// SPDX-License-Identifier: Apache-2.0
#include "server/serve.hpp"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "cli/command.hpp"

namespace tremula::cli {

namespace {
struct Options {
  server::ConfigTexts texts;
  std::optional<std::string> config_file;
};
}  // namespace

void add_serve(CLI::App& app) {
  CLI::App& command =
      *app.add_subcommand("serve", "Run the rendezvous server until SIGINT or SIGTERM");
  const auto options = std::make_shared<Options>();  // CLI11 copies the callbacks that use it
  const auto add = [&](const std::string& option, const std::string& key, const std::string& help) {
    command.add_option_function<std::string>(
        option, [options, key](const std::string& text) { options->texts[key] = text; }, help);
  };
  add("--bind", "bind", "Numeric address to listen on; 0.0.0.0 = all (default 127.0.0.1)");
  add("--port", "port", "Port; 0 = any free one (default 7423)");
  add("--port-file", "port_file", "Write host:port into this file while the server listens");
  add("--log", "log", "off, error, warn, info or debug, on standard error (default info)");
  add("--heartbeat", "heartbeat",
      "Seconds between two signs of life of a rank, lost after 4 silent ones (default 1)");
  command.add_option("--config", options->config_file,
                     "YAML file with the same keys: bind, port, port_file, log, heartbeat");
  command.footer(
      "Each option may also be given as TREMULA_BIND, TREMULA_PORT, TREMULA_PORT_FILE, "
      "TREMULA_LOG,\n"
      "TREMULA_HEARTBEAT. Precedence: option, environment, file, default.");
  command.callback([options] {
    const auto environment = [](const char* name) { return std::getenv(name); };
    const server::Config config =
        server::load_config(options->texts, environment, options->config_file);
    server::serve(config, TREMULA_VERSION, core::Log("server", config.log));
  });
}

}  // namespace tremula::cli
