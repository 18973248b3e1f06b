// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "cli/plan/fields_file.hpp"
#include "cli/plan/layout_option.hpp"
#include "cli/plan/lists_file.hpp"
#include "cli/plan/picture/plan_picture.hpp"
#include "cli/plan/plan_json.hpp"
#include "cli/plan/plan_text.hpp"
#include "cli/plan/redistribution.hpp"
#include "cli/plan/relabeling.hpp"
#include "core/element_type.hpp"
#include "core/error.hpp"
#include "index_calc/plan/skewed_plan.hpp"

namespace tremula::cli {

namespace {

using index_calc::Layout, index_calc::RankRange;

struct Options {
  std::string from, to, from_lists, to_lists;
  std::optional<Index> rank, peer;
  bool all = false, validate = false, json = false;
  std::string side = "producer", type = "f64", algorithm = "aspen", picture;
  client::Prospect stream;
  bool is_far = false, relabel = false;
  std::string cost, fields;
  std::vector<std::string> hosts;
  std::vector<Index> counts;
};

/// Matches the ranks of both sides if one of them lists what they own.
void match_lists(Redistribution& redistribution, const Options& options) {
  auto producers = lists_beside("--from", options.from_lists, redistribution.from),
       consumers = lists_beside("--to", options.to_lists, redistribution.to);
  if (!producers && !consumers) return;
  if (redistribution.algorithm != index_calc::Algorithm::aspen)
    throw core::Error(core::Errc::unsupported,
                      fmt::format("--algorithm: expected none if ranks list what they own, found "
                                  "{}: lists are matched without one, so leave it out",
                                  to_string(redistribution.algorithm)));
  redistribution.lists =
      match_all(redistribution.from, redistribution.to, std::move(producers), std::move(consumers));
}

/// Throws if a side lists what its ranks own: lists cannot be relabeled, so none is read.
void refuse_lists_beside_relabel(const Redistribution& redistribution) {
  for (const Side side : {Side::producer, Side::consumer})
    if (const Layout& layout = redistribution.layout_of(side); layout.listed())
      throw core::Error(
          core::Errc::unsupported,
          fmt::format("--relabel: expected layouts whose owners are computed, found \"{}\" in {}, "
                      "whose ranks list what they own: give grid= or mesh= instead of lists=",
                      to_string(layout), side == Side::producer ? "--from" : "--to"));
}

Redistribution redistribution_of(const Options& options) {
  const core::ElementType type = *core::parse_element_type(options.type);
  Redistribution result{.from = parse_layout_option("--from", options.from),
                        .to = parse_layout_option("--to", options.to),
                        .side = options.side == "producer" ? Side::producer : Side::consumer,
                        .algorithm = index_calc::parse_algorithm(options.algorithm),
                        .element_bytes = static_cast<Index>(core::element_bytes(type)),
                        .stream = options.stream};
  size_by_counts(result.from, result.to, options.counts);
  result.stream.is_near = !options.is_far;
  validate(result);
  expect_dense(result.from, result.to);
  if (options.relabel) refuse_lists_beside_relabel(result);
  match_lists(result, options);
  return result;
}

/// Returns the ranks to show: the requested rank, all ranks, or the first rank that takes part.
std::vector<RankRange> chosen_ranks(const Redistribution& redistribution, const Options& options) {
  const Layout& mine = redistribution.mine();
  if (options.rank)
    return {{expect_rank(redistribution, redistribution.side, *options.rank, "--rank"), 1}};
  std::vector<RankRange> all = mine.ranks().members;
  if (all.empty()) all = {{Rank{0}, index_calc::rank_count(mine)}};
  return options.all ? all : std::vector{RankRange{all.front().first, 1}};
}

RankPlan planned(const Redistribution& redistribution, Rank rank, bool is_validating) {
  const Side side = redistribution.side;
  if (is_validating)
    index_calc::make_validated_plan(
        redistribution.mine(), redistribution.theirs(), rank,
        side == Side::producer ? index_calc::Role::source : index_calc::Role::sink);
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  RankPlan result{.rank = rank,
                  .plan = make_plan(redistribution, side, rank),
                  .part = planned_part(redistribution, side, rank),
                  .seconds = 0};
  result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return result;
}

void print(std::string_view text) { fmt::print("{}", text); }

void finish() {
  if (std::fflush(stdout) != 0)
    throw core::Error(
        core::Errc::unsupported,
        "expected to write to standard output, but the write failed; is the disk full?");
}

void show_relabeling(const Options& options) {
  const Redistribution redistribution = redistribution_of(options);
  const RelabelingResult result = relabel(redistribution, options.cost, options.hosts);
  if (options.json)
    print(relabeling_json(redistribution, result));
  else
    print(plan_head_text(redistribution) + relabeling_text(result));
  finish();
}

void show_plan(const Options& options) {
  const Redistribution redistribution = redistribution_of(options);
  const std::vector<RankRange> ranks = chosen_ranks(redistribution, options);
  std::optional<Rank> peer;
  if (options.peer)
    peer = expect_rank(redistribution, other(redistribution.side), *options.peer, "--peer");
  if (!options.picture.empty())
    draw_plan(options.picture, redistribution,
              planned(redistribution, ranks.front().first, options.validate), peer);
  bool is_first = true;
  for (const RankRange& range : ranks)
    for (RankCount k = 0; k < range.count; ++k, is_first = false) {
      const RankPlan plan = planned(redistribution, Rank{range.first.value + k}, options.validate);
      if (is_first)
        print(options.json ? plan_json_begin(redistribution) : plan_head_text(redistribution));
      if (options.json)
        plan_json_rank(redistribution, plan, is_first, print);
      else
        print(plan_rank_text(redistribution, plan, options.validate));
    }
  print(options.json ? plan_json_end() : plan_words_text(redistribution));
  finish();
}

std::string picture_complaint(const std::string& file) {
  return file.ends_with(".svg") || file.ends_with(".png")
             ? std::string()
             : fmt::format("expected a file that ends in .svg or .png, found {}", file);
}

std::string type_complaint(const std::string& type) {
  return core::parse_element_type(type)
             ? std::string()
             : fmt::format("expected {}, found {}", core::all_element_types, type);
}

CLI::Option* add_choice(CLI::App& command, const std::string& name, std::string& value,
                        const std::string& text, const std::vector<std::string>& choices) {
  return command.add_option(name, value, fmt::format("{} (default {})", text, value))
      ->check(CLI::IsMember(choices));
}

/// @param others  options that apply only to the plan of a rank
void add_relabeling(CLI::App& command, Options& options, const std::vector<CLI::Option*>& others) {
  CLI::Option* relabel = command.add_flag(
      "--relabel", options.relabel,
      "Instead of plans, show which ranks of --to should take which part so that less is moved");
  for (CLI::Option* other : others) relabel->excludes(other);
  command
      .add_option("--cost", options.cost,
                  "What to minimise: volume = bytes between the processes of one job; hosts = "
                  "bytes between hosts; or a file with lines FROM TO LATENCY PER_BYTE, one for "
                  "each pair of hosts of --hosts, or of process numbers; * stands for any "
                  "(default: hosts with --hosts, else volume)")
      ->needs(relabel)
      ->type_name("volume|hosts|FILE");
  command
      .add_option(
          "--hosts", options.hosts,
          "Hosts of the ranks, as one list for both jobs, or one for the producers and one for "
          "the consumers: a:4,b:2 as for mpirun --host, or how many ranks each host has")
      ->needs(relabel)
      ->expected(1, 2)
      ->type_name("HOSTS [HOSTS]");
}

/// Throws if an option is given that --fields does not use, so that no option is silently ignored.
void refuse_beside_fields(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options())
    if (option->count() > 0 && option->get_name() != "--fields")
      throw core::Error(core::Errc::invalid_argument,
                        fmt::format("expected --fields without other options, found {} as well: it "
                                    "belongs to --from and --to, so leave one of the two out",
                                    option->get_name()));
}

}  // namespace

void add_plan(CLI::App& app) {
  CLI::App& command =
      *app.add_subcommand("plan", "Show what a redistribution between two layouts will do");
  const auto options = std::make_shared<Options>();  // CLI11 copies the callback that uses it
  CLI::Option* from = command.add_option("--from", options->from, "The producer's layout");
  CLI::Option* to = command.add_option("--to", options->to, "The consumer's layout");
  from->type_name("LAYOUT")->needs(to);
  to->type_name("LAYOUT")->needs(from);
  CLI::Option* from_lists =
      command.add_option("--from-lists", options->from_lists,
                         "For --from \"shape=... lists=RANKS\": a file that lists what each rank "
                         "owns: boxes, segments or points");
  from_lists->needs(from)->type_name("FILE.yaml");
  CLI::Option* to_lists =
      command.add_option("--to-lists", options->to_lists, "Like --from-lists, for --to");
  to_lists->needs(to)->type_name("FILE.yaml");
  command
      .add_option(
          "--fields", options->fields,
          "A file with a list of arrays, each {name: N, type: f32, from: LAYOUT, to: LAYOUT}, "
          "instead of one array; shows what each pair of ranks exchanges in a step")
      ->excludes(from)
      ->type_name("FILE.yaml");
  CLI::Option* counts =
      command.add_option("--counts", options->counts,
                         "For layouts with * in their shapes: how many elements each coordinate of "
                         "--from has along that dimension in a step");
  counts->delimiter('/')->needs(from)->type_name("N/N/...");
  CLI::Option* rank =
      command
          .add_option("--rank", options->rank,
                      "Rank whose plan to show (default: the first that takes part)")
          ->type_name("RANK");
  CLI::Option* all = command.add_flag("--all", options->all, "Show the plans of all ranks");
  all->excludes(rank);
  CLI::Option* side = add_choice(command, "--side", options->side, "Side whose ranks to show",
                                 {"producer", "consumer"});
  command.add_option("--type", options->type, "Element type (default f64)")
      ->check(type_complaint)
      ->type_name("TYPE");
  CLI::Option* algorithm = add_choice(command, "--algorithm", options->algorithm, "Index algorithm",
                                      {"aspen", "falls", "classical"});
  CLI::Option* validate = command.add_flag(
      "--validate", options->validate,
      "Compute with all three algorithms and compare the results; not for large arrays");
  CLI::Option* far = command.add_flag(
      "--far", options->is_far,
      "The two sides are on different hosts, joined by TCP (default: on one host)");
  CLI::Option* queue_depth = command.add_option("--queue-depth", options->stream.queue_depth,
                                                "Queue depth of the stream (default 2)");
  queue_depth->check(CLI::Range(0, 1024))->type_name("STEPS");
  CLI::Option* allocated =
      command.add_flag("--allocated", options->stream.is_allocated,
                       "The arrays come from tremula_allocate (default: ordinary arrays)");
  CLI::Option* async =
      command.add_flag("--async", options->stream.is_lent, "The arrays are put by put_async");
  command.add_flag("--json", options->json,
                   "Print JSON; its form is documented in share/doc/tremula/cli/plan/README.md");
  CLI::Option* draw = command
                          .add_option("--draw", options->picture,
                                      "Also draw blocks, common elements and volumes into a file")
                          ->check(picture_complaint)
                          ->type_name("FILE.svg|FILE.png");
  command
      .add_option("--peer", options->peer,
                  "Rank on the other side: draw the elements that it and the rank have in common "
                  "(default: the one with the largest package)")
      ->needs(draw)
      ->type_name("RANK");
  add_relabeling(command, *options,
                 {rank, all, side, algorithm, validate, draw, far, queue_depth, allocated, async,
                  from_lists, to_lists});
  command.footer(
      "A layout: \"shape=10000x10000 grid=4x4 block=30x50\". Its keys:\n"
      "  shape=100x90     global extents, 1 to 8 dimensions; * for an extent that changes "
      "every step\n"
      "  grid=3x2         process grid, as many cells as the group has ranks\n"
      "  lists=4          instead of grid: each rank lists what it owns, in --from-lists, "
      "--to-lists\n"
      "  partial=yes      with lists: elements may be on no rank; copies=yes: on several\n"
      "  mesh=2x4         instead of grid: axes of ranks that need not match dimensions\n"
      "  axes0=1          axes of the mesh that split dimension 0, outermost first; others make "
      "copies\n"
      "  block=30x50      blocks, round-robin; block0=30 along one dimension (default: one block "
      "each)\n"
      "  owner0=b0-b1     skewed: coordinate on axis 0 of the mesh that owns block b0, b1\n"
      "  owner0=2x1:0/1   or from a table of such coordinates, repeated over the blocks\n"
      "  equal0=12        with owner: number of equal blocks along dimension 0, instead of block\n"
      "  source=0x1       grid coordinate of the first block\n"
      "  cut=3x0          elements missing at the beginning of the first block\n"
      "  splits0=0/10/55  bounds of the intervals of dimension 0 (with owner: of its blocks)\n"
      "  owners0=0/2/1    grid coordinate of each interval\n"
      "  ranks=row        how ranks number the grid: row (default) or column\n"
      "  store=row        how a rank stores its part: row (default) or column\n"
      "  ghost=1x1        ghost cells on every side of the part\n"
      "  leading=64       allocated cells along the fastest dimension\n"
      "  members=0-3/7    ranks that take part, in grid order (default: all)\n"
      "  sum, key, ranges, sorted: keys for streams and redistributions only; a plan refuses them\n"
      "Lists: an entry for each rank, ends are exclusive, numbers in row-major order:\n"
      "  - boxes: [[[0, 0], [4, 6]], [[8, 0], [9, 6]]]\n"
      "  - segments: [[24, 30], [36, 60]]\n"
      "  - points: [70, 71, [9, 3]]");
  command.callback([options, &command] {
    if (!options->fields.empty()) {
      refuse_beside_fields(command);
      print(fields_text(read_fields(options->fields)));
      return finish();
    }
    if (options->from.empty())
      throw core::Error(core::Errc::invalid_argument,
                        "expected --from and --to, or --fields, found none of them");
    options->relabel ? show_relabeling(*options) : show_plan(*options);
  });
}

}  // namespace tremula::cli
