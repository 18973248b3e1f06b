// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <thread>

#include "cli/bench/bench_jobs.hpp"
#include "cli/bench/bench_result.hpp"
#include "cli/command.hpp"
#include "core/error.hpp"

namespace tremula::cli {

using core::Errc, core::Error, core::RankCount;

namespace {

/// Reads "NAME=ADDRESS,NAME=ADDRESS", the site of the producers first.
void read_sites(const std::string& text, BenchOptions& options) {
  if (text.empty()) return;
  const auto comma = text.find(',');
  const auto site = [&](const std::string& part) {
    const auto sign = part.find('=');
    if (comma == std::string::npos || sign == std::string::npos)
      throw Error(
          Errc::invalid_argument,
          fmt::format("--namespaces: expected NAME=ADDRESS,NAME=ADDRESS, found '{}'", text));
    return BenchOptions::Site{part.substr(0, sign), part.substr(sign + 1)};
  };
  options.producer_site = site(text.substr(0, comma));
  options.consumer_site = site(comma == std::string::npos ? "" : text.substr(comma + 1));
}

struct Texts {
  std::string from, to, type = "f64", allocate = "none", sites;
  std::string folder, side;  // only for a rank started by mpirun
  bool is_json = false;
};

void run(BenchOptions options, const Texts& texts, const RunRank& run_rank) {
  options.from = index_calc::Layout::parse(texts.from);
  options.to = index_calc::Layout::parse(texts.to);
  const auto type = core::parse_element_type(texts.type);
  if (!type)
    throw Error(Errc::invalid_argument, fmt::format("--type: expected {}, found '{}'",
                                                    core::all_element_types, texts.type));
  if (core::is_opaque(*type))
    throw Error(
        Errc::unsupported,
        fmt::format("--type: expected numbers, found '{}': numbers of the same size move just as "
                    "fast",
                    texts.type));
  options.type = *type;
  options.allocates_producers = texts.allocate == "producers" || texts.allocate == "both";
  options.allocates_consumers = texts.allocate == "consumers" || texts.allocate == "both";
  read_sites(texts.sites, options);
  if (options.producers == 0) options.producers = rank_count(options.from);
  if (options.consumers == 0) options.consumers = rank_count(options.to);
  validate_for_group(options.from, options.producers);
  validate_for_group(options.to, options.consumers);
  if (bytes_of(options.from, core::element_bytes(options.type)) == 0)
    throw Error(Errc::invalid_argument, "--from: expected at least one element, found none");
  options.is_serial =
      bytes_of(options.from, core::element_bytes(options.type)) <= most_serial_bytes &&
      options.producers + options.consumers <=
          static_cast<RankCount>(std::thread::hardware_concurrency());
  if (run_rank) return run_rank(options, BenchFiles{texts.folder}, texts.side == "producer");
  const BenchResult result = run_bench(options);
  fmt::print("{}", texts.is_json ? bench_json(options, result) : bench_text(options, result));
}

}  // namespace

void add_bench(CLI::App& app) { add_bench(app, {}); }

void add_bench(CLI::App& app, const RunRank& run_rank) {
  CLI::App& command = *app.add_subcommand(
      "bench", "Measure a stream between two jobs on this host, and the limits of the machine");
  const auto options = std::make_shared<BenchOptions>();  // CLI11 copies the callback that uses it
  const auto texts = std::make_shared<Texts>();
  options->producers = options->consumers = 0;
  command.add_option("--from", texts->from, "Layout of the producer")->required();
  command.add_option("--to", texts->to, "Layout of the consumer")->required();
  command.add_option("--producers", options->producers,
                     "Ranks of the producer (default: as many as its layout has)");
  command.add_option("--consumers", options->consumers,
                     "Ranks of the consumer (default: as many as its layout has)");
  command.add_option("--type", texts->type, "Element type (default f64)");
  command.add_option("--steps", options->steps, "Steps to measure (default 10)")
      ->check(CLI::Range(1, 100'000));
  command
      .add_option("--queue-depth", options->queue_depth, "Queue depth of the stream (default 2)")
      ->check(CLI::Range(0, 1000));
  command.add_option("--transport", options->transport,
                     "auto, local, tcp, ofi or mpi (default auto)");
  command.add_option("--ofi-provider", options->ofi_provider,
                     "libfabric provider, e.g. \"tcp;ofi_rxm\" (default: the best one)");
  command.add_option(
      "--namespaces", texts->sites,
      "NAME=ADDRESS,NAME=ADDRESS: network namespaces in which producers and consumers run, and the "
      "addresses they listen on (default: the namespace of this command)");
  command
      .add_option("--allocate", texts->allocate,
                  "Jobs whose arrays come from tremula_allocate: none, producers, consumers or "
                  "both (default none)")
      ->check(CLI::IsMember({"none", "producers", "consumers", "both"}));
  command.add_flag("--async", options->is_async, "Use put_async instead of put");
  command.add_flag("--compute", options->computes,
                   "Also measure how much time the stream costs a producer that computes as long "
                   "as a step takes");
  command.add_option("--timeout", options->timeout, "Seconds that any wait may take (default 60)")
      ->check(CLI::Range(1.0, 86400.0));
  command.add_flag("--json", texts->is_json, "Print JSON");
  if (run_rank) {
    command.add_option("--folder", texts->folder)->required();
    command.add_option("--side", texts->side)->required();
  }
  command.footer(
      "Each step is measured separately, from the first rank's begin_step to the last consumer's "
      "end_step.\n"
      "Ranks are bound to cores in turn. memcpy: as many processes as the larger side has ranks\n"
      "copy the bytes of a step at the same time. Raw transport: pairs of ranks send them as one\n"
      "message each.\n"
      "mpi: mpirun starts each job, and an ompi-server connects them (Open MPI).");
  command.callback([options, texts, run_rank] { run(*options, *texts, run_rank); });
}

}  // namespace tremula::cli
