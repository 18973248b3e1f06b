// SPDX-License-Identifier: Apache-2.0
// Starts a server and the ranks of two jobs on this host, and reads what they measure. The ranks
// are forked, not started by mpirun: they are groups without MPI.
#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <ranges>
#include <thread>
#include <utility>

#include "cli/bench/bench_rank.hpp"
#include "cli/command.hpp"
#include "cli/units.hpp"
#include "core/error.hpp"

namespace tremula::cli {

using core::Deadline, core::Errc, core::Error, core::Index, core::Rank;

namespace {

/// Children that end with this process, or with this object.
class Children {
public:
  Children() = default;
  Children(const Children&) = delete;
  ~Children() {
    for (const int signal : {SIGTERM, SIGKILL}) {
      for (const pid_t pid : pids_) kill(pid, signal);
      have_ended(2);
    }
  }
  /// @param work  runs in the child, which then ends
  template <class Work>
  void start(Work&& work) {
    std::fflush(nullptr);
    const pid_t pid = fork();
    if (pid < 0) throw Error(Errc::internal, "bench: expected a further process, found none");
    if (pid > 0) {
      pids_.push_back(pid);
      return;
    }
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    work();
    std::fflush(nullptr);
    _exit(0);
  }

  /// Whether all end by themselves with status 0 in that time.
  bool have_ended(double seconds) {
    const auto deadline = Deadline::after(seconds);
    bool is_well = true;
    while (!pids_.empty()) {
      int status = 0;
      if (waitpid(pids_.back(), &status, WNOHANG) == pids_.back()) {
        is_well = is_well && status == 0;
        pids_.pop_back();
      } else if (deadline.expired()) {
        return false;
      } else {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
    return is_well;
  }

private:
  std::vector<pid_t> pids_;
};

/// A directory of this run's own.
class Folder {
public:
  Folder() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "tremula-bench-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr)
      throw Error(Errc::internal, fmt::format("bench: cannot make {}", pattern));
    path_ = pattern;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  const std::filesystem::path& path() const { return path_; }

private:
  std::filesystem::path path_;
};

/// @throws core::Error invalid_argument if there is no such namespace or it may not be entered
void enter(const BenchOptions::Place& place) {
  if (place.network_namespace.empty()) return;
  const auto file = "/run/netns/" + place.network_namespace;
  const int handle = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (handle < 0 || setns(handle, CLONE_NEWNET) != 0)
    throw Error(Errc::invalid_argument,
                fmt::format("--namespaces: expected to enter {} (as root), found: {}", file,
                            std::strerror(errno)));
  close(handle);
}

void start_server(Children& children, const std::filesystem::path& port_file,
                  const BenchOptions::Place& place) {
  children.start([&] {
    enter(place);
    const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
    const std::string address = place.address.empty() ? "127.0.0.1" : place.address;
    execl(program.c_str(), program.c_str(), "serve", "--bind", address.c_str(), "--port", "0",
          "--port-file", port_file.c_str(), "--log", "warn", static_cast<char*>(nullptr));
  });
  const auto deadline = Deadline::after(10);
  while (!std::filesystem::exists(port_file)) {
    if (deadline.expired())
      throw Error(Errc::no_server, "bench: expected the server to come up within 10 s");
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

/// Spinning processes would otherwise share a core by chance.
void bind_to_core(std::size_t number) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  sched_getaffinity(0, sizeof allowed, &allowed);
  std::vector<unsigned> cores;
  for (unsigned core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &allowed)) cores.push_back(core);
  if (cores.empty()) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cores[number % cores.size()], &one);
  sched_setaffinity(0, sizeof one, &one);
}

struct Result {
  std::string transport;
  Index step_bytes = 0;
  double step_seconds = 0, memcpy_seconds = 0, raw_seconds = 0, latency = 0;  ///< medians
  double copies_per_byte = 0;
  double serial_seconds = 0;  ///< median; 0 where steps are too large
  double lost_share = 0;      ///< of a computing producer's time, the largest of all ranks
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// From the first rank's begin to the last one's end, for each of `rounds` measurements.
/// @param pace  seconds so far become the pace of the area before the last round ends
std::vector<double> read(BenchArea& area, int rounds, double timeout, bool sets_pace = false) {
  std::vector<double> seconds;
  for (int round = 0; round < rounds; ++round) {
    area.meet(Deadline::after(timeout), true);
    area.meet(Deadline::after(timeout), true);
    if (sets_pace && !seconds.empty()) area.set_pace(median(seconds));
    const auto slots = area.slots();
    const double began = std::ranges::min_element(slots, {}, &BenchSlot::began)->began;
    const double ended = std::ranges::max_element(slots, {}, &BenchSlot::ended)->ended;
    area.meet(Deadline::after(timeout), true);
    seconds.push_back(ended - began);
  }
  return seconds;
}

Result measure(BenchOptions options) {
  const auto ranks = static_cast<std::size_t>(options.producers + options.consumers);
  Folder folder;
  BenchArea area(ranks);
  Children server, children;
  const auto port_file = folder.path() / "port";
  start_server(server, port_file, options.producer_place);
  options.server = "file:" + port_file.string();
  for (std::size_t i = 0; i < ranks; ++i)
    children.start([&] {
      bind_to_core(i);
      const auto rank = static_cast<Rank>(i);
      const bool is_producer = rank < options.producers;
      try {
        enter(is_producer ? options.producer_place : options.consumer_place);
        run_bench_rank(options, area, is_producer, is_producer ? rank : rank - options.producers);
      } catch (const std::exception& error) {
        area.fail(i, error.what());
        _exit(1);
      }
    });

  Result result;
  result.step_bytes = bytes_of(options.from, core::element_bytes(options.type));
  try {
    auto steps = read(area, warm_up_steps + options.steps, patience_of(options), true);
    steps.erase(steps.begin(), steps.begin() + warm_up_steps);
    result.step_seconds = median(std::move(steps));
    result.memcpy_seconds = median(read(area, limit_rounds, patience_of(options)));
    area.meet(Deadline::after(patience_of(options)), true);  // addresses are there
    result.raw_seconds = median(read(area, limit_rounds, patience_of(options)));
    read(area, 1, patience_of(options));
  } catch (const Error& error) {
    const std::string why = area.error();
    throw Error(error.code(), "bench: " + (why.empty() ? error.what() : why));
  }
  if (!children.have_ended(patience_of(options)) || !area.error().empty())
    throw Error(Errc::internal, "bench: expected every rank to end in order, found: " +
                                    (area.error().empty() ? "one that did not" : area.error()));
  if (options.is_serial) {
    const auto all = area.slots();
    const auto producers = all.first(static_cast<std::size_t>(options.producers)),
               consumers = all.subspan(producers.size());
    std::vector<double> seconds;
    for (std::size_t i = 0; i < serial_steps; ++i) {
      const auto moment = [i](const BenchSlot& slot) { return slot.moments[i]; };
      seconds.push_back(std::ranges::max(consumers | std::views::transform(moment)) -
                        std::ranges::min(producers | std::views::transform(moment)));
    }
    result.serial_seconds = median(std::move(seconds));
  }
  std::uint64_t bytes = 0, copied = 0;
  for (const BenchSlot& slot : area.slots()) {
    bytes += slot.bytes;
    copied += slot.copied_bytes;
    result.lost_share = std::max(result.lost_share, slot.lost_share);
  }
  result.copies_per_byte = 2 * static_cast<double>(copied) / static_cast<double>(bytes);
  result.transport = area.slots()[0].transport;
  result.latency = area.slots()[0].latency;
  return result;
}

std::string json(const BenchOptions& options, const Result& r) {
  const auto bytes = static_cast<double>(r.step_bytes);
  std::string out = fmt::format(
      R"({{
  "verified": true,
  "transport": "{}",
  "producers": {},
  "consumers": {},
  "from": "{}",
  "to": "{}",
  "steps": {},
  "queue_depth": {},
  "step_bytes": {},
  "median_step_seconds": {:.9f},
  "bytes_per_second": {:.0f},
  "memcpy_bytes_per_second": {:.0f},
  "raw_transport_bytes_per_second": {:.0f},
  "raw_transport_latency_seconds": {:.9f},
  "ratio_to_memcpy": {:.4f},
  "ratio_to_raw": {:.4f},
  "copies_per_byte": {:.4f})",
      r.transport, options.producers, options.consumers, to_string(options.from),
      to_string(options.to), options.steps, options.queue_depth, r.step_bytes, r.step_seconds,
      bytes / r.step_seconds, bytes / r.memcpy_seconds, bytes / r.raw_seconds, r.latency,
      r.memcpy_seconds / r.step_seconds, r.raw_seconds / r.step_seconds, r.copies_per_byte);
  if (r.serial_seconds > 0)
    out += fmt::format(",\n  \"serial_step_seconds\": {:.9f},\n  \"serial_step_latencies\": {:.2f}",
                       r.serial_seconds, r.serial_seconds / r.latency);
  if (options.computes) out += fmt::format(",\n  \"producer_lost_share\": {:.4f}", r.lost_share);
  return out + "\n}\n";
}

std::string text(const BenchOptions& options, const Result& r) {
  const auto bytes = static_cast<double>(r.step_bytes);
  const auto rate = [&](double seconds) { return bytes_text(bytes / seconds) + "/s"; };
  std::string out = fmt::format(
      "{} producers to {} consumers over {}, {} a step, {} steps, every element of each verified\n"
      "step            {:>10}   {:>12}\n"
      "memcpy          {:>10}   {:>12}   {:.2f} of it reached\n"
      "raw transport   {:>10}   {:>12}   {:.2f} of it reached\n"
      "copies made of each byte {:.2f}\n",
      options.producers, options.consumers, r.transport, bytes_text(bytes), options.steps,
      fmt::format("{:.3f} ms", r.step_seconds * 1e3), rate(r.step_seconds),
      fmt::format("{:.3f} ms", r.memcpy_seconds * 1e3), rate(r.memcpy_seconds),
      r.memcpy_seconds / r.step_seconds, fmt::format("{:.3f} ms", r.raw_seconds * 1e3),
      rate(r.raw_seconds), r.raw_seconds / r.step_seconds, r.copies_per_byte);
  if (r.serial_seconds > 0)
    out += fmt::format(
        "one step after the other: {:.2f} microseconds from the first begin_step to the last "
        "end_step of a consumer,\n  {:.1f} times the {:.2f} microseconds that 8 bytes take one "
        "way\n",
        r.serial_seconds * 1e6, r.serial_seconds / r.latency, r.latency * 1e6);
  if (options.computes)
    out += fmt::format("a producer that computes as long as a step takes loses {:.1f} %\n",
                       r.lost_share * 100);
  return out;
}

/// "NAME=ADDRESS,NAME=ADDRESS", the producers' first.
void read_places(const std::string& text, BenchOptions& options) {
  if (text.empty()) return;
  const auto comma = text.find(',');
  const auto place = [&](const std::string& part) {
    const auto sign = part.find('=');
    if (comma == std::string::npos || sign == std::string::npos)
      throw Error(
          Errc::invalid_argument,
          fmt::format("--namespaces: expected NAME=ADDRESS,NAME=ADDRESS, found '{}'", text));
    return BenchOptions::Place{part.substr(0, sign), part.substr(sign + 1)};
  };
  options.producer_place = place(text.substr(0, comma));
  options.consumer_place = place(comma == std::string::npos ? "" : text.substr(comma + 1));
}

struct Texts {
  std::string from, to, type = "f64", allocate = "nobody", places;
  bool is_json = false;
};

void run(BenchOptions options, const Texts& texts) {
  options.from = index_calc::Layout::parse(texts.from);
  options.to = index_calc::Layout::parse(texts.to);
  const auto type = core::parse_element_type(texts.type);
  if (!type)
    throw Error(Errc::invalid_argument,
                fmt::format("--type: expected i8 to i64, u8 to u64, f32, f64, c64 or c128, found "
                            "'{}'",
                            texts.type));
  options.type = *type;
  options.allocates_producers = texts.allocate == "producers" || texts.allocate == "both";
  options.allocates_consumers = texts.allocate == "consumers" || texts.allocate == "both";
  if (options.transport == "mpi")
    throw Error(
        Errc::unsupported,
        "--transport: expected auto, local or ofi, found mpi: its ranks are started by mpirun, "
        "which this command does not do yet");
  read_places(texts.places, options);
  if (options.producers == 0) options.producers = rank_count(options.from);
  if (options.consumers == 0) options.consumers = rank_count(options.to);
  validate_for_group(options.from, options.producers);
  validate_for_group(options.to, options.consumers);
  if (bytes_of(options.from, core::element_bytes(options.type)) == 0)
    throw Error(Errc::invalid_argument, "--from: expected at least one element, found none");
  options.is_serial =
      bytes_of(options.from, core::element_bytes(options.type)) <= most_serial_bytes &&
      options.producers + options.consumers <=
          static_cast<Rank>(std::thread::hardware_concurrency());
  const Result result = measure(options);
  fmt::print("{}", texts.is_json ? json(options, result) : text(options, result));
}

}  // namespace

void add_bench(CLI::App& app) {
  CLI::App& command = *app.add_subcommand(
      "bench", "Measure a stream between two jobs on this host, beside the limits of the machine");
  const auto options = std::make_shared<BenchOptions>();  // CLI11 copies the callback that uses it
  const auto texts = std::make_shared<Texts>();
  options->producers = options->consumers = 0;
  command.add_option("--from", texts->from, "Layout of the producer")->required();
  command.add_option("--to", texts->to, "Layout of the consumer")->required();
  command.add_option("--producers", options->producers, "Ranks; as many as the layout has");
  command.add_option("--consumers", options->consumers, "Ranks; as many as the layout has");
  command.add_option("--type", texts->type, "Element type (default f64)");
  command.add_option("--steps", options->steps, "Steps that are measured (default 10)")
      ->check(CLI::Range(1, 100'000));
  command.add_option("--queue-depth", options->queue_depth, "Of the stream (default 2)")
      ->check(CLI::Range(0, 1000));
  command.add_option("--transport", options->transport, "auto, local or ofi (default auto)");
  command.add_option("--ofi-provider", options->ofi_provider,
                     "libfabric provider, e.g. \"tcp;ofi_rxm\" (default: the best)");
  command.add_option(
      "--namespaces", texts->places,
      "NAME=ADDRESS,NAME=ADDRESS: network namespaces in which producers and consumers "
      "live, and what they listen on (default: here)");
  command
      .add_option("--allocate", texts->allocate,
                  "Who takes its arrays from tremula_allocate: nobody, producers, consumers, both "
                  "(default nobody)")
      ->check(CLI::IsMember({"nobody", "producers", "consumers", "both"}));
  command.add_flag("--async", options->is_async, "put_async instead of put");
  command.add_flag("--compute", options->computes,
                   "Measure also what a producer loses that computes as long as a step takes");
  command.add_option("--timeout", options->timeout, "Seconds for every wait (default 60)")
      ->check(CLI::Range(1.0, 86400.0));
  command.add_flag("--json", texts->is_json, "Print JSON");
  command.footer(
      "Each step is measured alone: from the first rank's begin_step to the last consumer's "
      "end_step.\nRanks are bound to cores in turn. memcpy: as many processes as the larger side "
      "has copy the\nbytes of a step at once. Raw transport: pairs of ranks send them as one "
      "message each.");
  command.callback([options, texts] { run(*options, *texts); });
}

}  // namespace tremula::cli
