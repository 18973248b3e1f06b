// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

#include "cli/command.hpp"
#include "cli/find_server.hpp"
#include "cli/status_client.hpp"
#include "cli/status_text.hpp"
#include "cli/watch.hpp"
#include "proto/convert.hpp"

namespace tremula::cli {

namespace {

struct Options {
  std::optional<std::string> server, port_file;
  bool json = false, ranks = false;
  double timeout_seconds = 5;
  double watch_seconds = 0;  ///< 0: not given
};

void show_status(const Options& options, bool is_watching) {
  if (is_watching) block_watch_signals();
  StatusClient client(find_server(options.server, options.port_file, std::getenv("TREMULA_SERVER")),
                      core::Deadline::after(options.timeout_seconds));
  if (is_watching)
    return watch(client, options.watch_seconds > 0 ? options.watch_seconds : 1,
                 options.timeout_seconds);
  const wire::Status status =
      client.ask(core::Deadline::after(options.timeout_seconds), options.json || options.ranks);
  fmt::print("{}", options.json ? proto::to_json(status) : status_text(status));
}

}  // namespace

void add_status(CLI::App& app) {
  CLI::App& command = *app.add_subcommand(
      "status", "Show groups, streams, layouts, counters and which group waits for which");
  const auto options = std::make_shared<Options>();  // CLI11 copies the callback that uses it
  CLI::Option* server =
      command.add_option("--server", options->server, "host:port, or file:PATH of a port file");
  command
      .add_option("--port-file", options->port_file, "File that the server wrote its address into")
      ->excludes(server);
  CLI::Option* json = command.add_flag("--json", options->json,
                                       "Print JSON, with the counters of every rank; the fields "
                                       "are those of Status in proto/control.proto");
  CLI::Option* ranks =
      command.add_flag("--ranks", options->ranks, "Show the counters of every rank");
  CLI::Option* watch =
      command
          .add_option("--watch", options->watch_seconds,
                      "One live line a stream, every so many seconds, until no stream is left")
          ->expected(0, 1)
          ->check(CLI::Range(0.05, 3600.0))
          ->type_name("[SECONDS=1]")
          ->excludes(json)
          ->excludes(ranks);
  command
      .add_option("--timeout", options->timeout_seconds,
                  "Seconds to wait for the server (default 5)")
      ->check(CLI::Range(0.001, 86400.0));
  command.footer(
      "Without --server and --port-file the server is that of TREMULA_SERVER, else "
      "localhost:7423.");
  command.callback([options, watch] { show_status(*options, watch->count() > 0); });
}

}  // namespace tremula::cli
