// SPDX-License-Identifier: Apache-2.0
#include "server/serve.hpp"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "cli/command.hpp"

namespace tremula::cli {

namespace {
struct ServeOptions {
  std::map<std::string, std::optional<std::string>> texts;  // by key of the configuration
  std::optional<std::string> config_file;
};
}  // namespace

void add_serve(CLI::App& app) {
  CLI::App& command =
      *app.add_subcommand("serve", "Run the rendezvous server until SIGINT, SIGTERM or SIGHUP");
  const auto options = std::make_shared<ServeOptions>();  // CLI11 copies the callbacks that use it
  const auto add = [&](const std::string& option, const std::string& key, const std::string& help) {
    command.add_option(option, options->texts[key], help);
  };
  add("--bind", "bind",
      "Numeric address to listen on; 0.0.0.0 = all, so that jobs on other hosts can connect "
      "(default 127.0.0.1)");
  add("--port", "port", "Port; 0 = any free one (default 7423)");
  add("--port-file", "port_file", "Write host:port into this file while the server listens");
  add("--key-file", "key_file",
      "File with the key that jobs must prove they know, made if it is missing; needed with --bind "
      "beyond this host; none = no key (default: PORT_FILE.key if there is a port file, else a "
      "file that jobs of this user on this host find by the port)");
  add("--tls-certificate", "tls_certificate",
      "PEM file with the certificate of the server; every connection then uses TLS");
  add("--tls-key", "tls_key", "PEM file with the private key of the certificate");
  add("--log", "log", "off, error, warn, info or debug, on standard error (default info)");
  add("--heartbeat", "heartbeat",
      "Seconds between heartbeats; a rank is lost after 4 missed heartbeats and 10 s of silence, "
      "unless the key 'silence' of its session says otherwise (default 1)");
  add("--hello", "hello",
      "Seconds after which a new connection is closed if it has not sent its first message "
      "(default 10)");
  add("--connections-per-host", "connections_per_host",
      "Highest number of sessions from one host (default: three quarters of what the limit of open "
      "files allows)");
  add("--memory", "memory",
      "MiB for messages in transit and for data held for groups (default 2048)");
  command.add_option(
      "--config", options->config_file,
      "YAML file with the same keys: bind, port, port_file, key_file, tls_certificate, "
      "tls_key, log, heartbeat, hello, connections_per_host, memory");
  command.footer(
      "Each option may also be given as TREMULA_BIND, TREMULA_PORT, TREMULA_PORT_FILE,\n"
      "TREMULA_KEY_FILE, TREMULA_TLS_CERTIFICATE, TREMULA_TLS_KEY, TREMULA_LOG,\n"
      "TREMULA_HEARTBEAT, TREMULA_HELLO, TREMULA_CONNECTIONS_PER_HOST, TREMULA_MEMORY;\n"
      "TREMULA_KEY holds the key itself.\n"
      "Precedence: option, environment, file, default.");
  command.callback([options] {
    const auto environment = [](const char* name) { return std::getenv(name); };
    server::ConfigTexts given;
    for (const auto& [key, text] : options->texts)
      if (text) given[key] = *text;
    const server::Config config = server::load_config(given, environment, options->config_file);
    server::serve(config, TREMULA_VERSION,
                  core::Log("server", config.log, core::LogOverflow::drop));
  });
}

}  // namespace tremula::cli
