// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "cli/command.hpp"
#include "cli/find_server.hpp"
#include "cli/status_client.hpp"
#include "cli/status_json.hpp"
#include "cli/status_text.hpp"
#include "cli/watch.hpp"
#include "core/error.hpp"

namespace tremula::cli {

namespace {

struct StatusOptions {
  std::optional<std::string> server, port_file, key_file, tls_ca, tls_name, timeout;
  std::string stream;  ///< empty: all
  bool json = false, ranks = false;
  double watch_seconds = 0;  ///< 0: not given
  double stuck_seconds = 0;
};

constexpr double usual_seconds = 5;  // default time limit for an answer

double timeout_of(const StatusOptions& options) {
  if (options.timeout == "none") return std::numeric_limits<double>::infinity();
  return options.timeout ? std::stod(*options.timeout) : usual_seconds;
}

std::string timeout_complaint(const std::string& text) {
  static const CLI::Range seconds(0.001, 1e8);
  return text == "none" || seconds(text).empty()
             ? ""
             : fmt::format("expected seconds from 0.001 to 1e8, or none, found {}", text);
}

core::KeySource key_of(const StatusOptions& options) {
  const char* const file = std::getenv("TREMULA_KEY_FILE");
  return core::key_source(options.key_file.value_or(file != nullptr ? file : ""),
                          std::getenv("TREMULA_KEY"), std::getenv("XDG_RUNTIME_DIR"));
}

transport::TlsTrust tls_of(const StatusOptions& options) {
  const auto given = [](const std::optional<std::string>& option, const char* variable) {
    const char* const text = std::getenv(variable);
    return option.value_or(text != nullptr ? text : "");
  };
  return {given(options.tls_ca, "TREMULA_TLS_CA"), given(options.tls_name, "TREMULA_TLS_NAME")};
}

/// Returns the status reduced to one stream and the groups that write it, read it or wait for it.
wire::Status only(const wire::Status& status, const std::string& name) {
  wire::Status out = status;
  out.clear_streams();
  out.clear_groups();
  std::set<std::string> others, groups;
  for (const wire::StreamStatus& stream : status.streams()) {
    if (stream.name() != name) {
      others.insert(stream.name());
      continue;
    }
    *out.add_streams() = stream;
    groups.insert(stream.producer());
    for (const wire::LinkStatus& link : stream.consumers()) groups.insert(link.consumer());
    groups.insert(stream.waiting_consumers().begin(), stream.waiting_consumers().end());
  }
  for (const wire::GroupStatus& group : status.groups())
    if (groups.contains(group.name())) *out.add_groups() = group;
  if (!out.streams().empty()) return out;
  throw core::Error(
      core::Errc::mismatch,
      fmt::format("stream '{}': expected a stream of this server, found {}; check the "
                  "name, or start its producer",
                  name,
                  others.empty() ? "no streams" : fmt::format("'{}'", fmt::join(others, "', '"))));
}

/// Prints the ranks that have waited for at least `options.stuck_seconds`.
/// @throws core::Error timed_out if there are any
void show_stuck(StatusClient& client, const StatusOptions& options, double seconds) {
  wire::Status stuck;
  for (wire::WaitStatus& wait : client.ask_waits(core::Deadline::after(seconds)))
    if (wait.wait().seconds() >= options.stuck_seconds) *stuck.add_waits() = std::move(wait);
  fmt::print("{}", options.json ? status_json(stuck) : waits_text(stuck));
  if (stuck.waits().empty()) return;
  std::fflush(stdout);
  throw core::Error(core::Errc::timed_out,
                    fmt::format("expected no rank to wait for {:g} s or longer, found {}; the line "
                                "of each says what it waits for, and from which rank",
                                options.stuck_seconds, stuck.waits_size()));
}

void show_status(const StatusOptions& options, bool is_watching) {
  if (is_watching) block_watch_signals();
  const double seconds = timeout_of(options);
  StatusClient client(find_server(options.server, options.port_file, std::getenv("TREMULA_SERVER"),
                                  key_of(options), tls_of(options)),
                      core::Deadline::after(seconds), options.timeout.has_value());
  if (is_watching)
    return watch(client, options.watch_seconds > 0 ? options.watch_seconds : 1, seconds);
  if (options.stuck_seconds > 0) return show_stuck(client, options, seconds);
  wire::Status status = client.ask(core::Deadline::after(seconds), options.json || options.ranks);
  if (!options.stream.empty()) status = only(status, options.stream);
  fmt::print("{}", options.json ? status_json(status) : status_text(status));
}

}  // namespace

void add_status(CLI::App& app) {
  CLI::App& command = *app.add_subcommand(
      "status", "Show groups, streams, layouts, counters and which group waits for which");
  const auto options = std::make_shared<StatusOptions>();  // CLI11 copies the callback that uses it
  CLI::Option* stream = command.add_option(
      "stream", options->stream, "Show only this stream: its fields, types, shapes and layouts");
  stream->type_name("STREAM");
  CLI::Option* server =
      command.add_option("--server", options->server, "host:port, or file:PATH of a port file");
  command
      .add_option("--port-file", options->port_file, "File that the server wrote its address into")
      ->excludes(server);
  command.add_option("--key-file", options->key_file,
                     "File with the key of the server; none = no key (default: TREMULA_KEY_FILE, "
                     "else PORT_FILE.key if a port file names the server, else the file that a "
                     "server of this user on this host has left for that port)");
  command.add_option("--tls-ca", options->tls_ca,
                     "PEM file with the certificate of the server, or of the authority that issued "
                     "it (default: TREMULA_TLS_CA)");
  command.add_option("--tls-name", options->tls_name,
                     "Name or address in the server's certificate (default: TREMULA_TLS_NAME, else "
                     "the one used to reach the server)");
  CLI::Option* json =
      command.add_flag("--json", options->json, "Print JSON, with the counters of every rank");
  CLI::Option* ranks =
      command.add_flag("--ranks", options->ranks, "Show the counters of every rank");
  CLI::Option* stuck = command
                           .add_option("--stuck", options->stuck_seconds,
                                       "Show the ranks that have waited at least this many "
                                       "seconds, and what they wait for; exit code 0 if there are "
                                       "none")
                           ->expected(0, 1)
                           ->check(CLI::Range(0.05, 1e8))
                           ->type_name("[SECONDS=10]")
                           ->excludes(stream)
                           ->excludes(ranks);
  CLI::Option* watch =
      command
          .add_option(
              "--watch", options->watch_seconds,
              "Show one live line per stream, updated every SECONDS, until no stream is left")
          ->expected(0, 1)
          ->check(CLI::Range(0.05, 3600.0))
          ->type_name("[SECONDS=1]")
          ->excludes(stream)
          ->excludes(json)
          ->excludes(ranks)
          ->excludes(stuck);
  command
      .add_option(
          "--timeout", options->timeout,
          "Seconds to wait for a server that is not running yet and for its answer; none = without "
          "limit (default: 5 for the answer; fails immediately if no server is running)")
      ->check(timeout_complaint)
      ->type_name("SECONDS|none");
  command.footer(
      "Without --server and --port-file the server is the one that TREMULA_SERVER names, else "
      "localhost:7423.");
  command.callback([options, watch, stuck] {
    if (stuck->count() > 0 && options->stuck_seconds == 0) options->stuck_seconds = 10;
    show_status(*options, watch->count() > 0);
  });
}

}  // namespace tremula::cli
