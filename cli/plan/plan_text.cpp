// SPDX-License-Identifier: Apache-2.0
#include "cli/plan/plan_text.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cli/table.hpp"
#include "cli/units.hpp"
#include "index_calc/layout/blocks.hpp"

namespace tremula::cli {

namespace {

using index_calc::saturating_sum;

constexpr std::size_t most_rows = 32;

/// Returns e.g. "7.2 us" or "0.31 ms": a plan takes less time than seconds_text can show.
std::string plan_seconds_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.3g} us", seconds * 1e6);
  return seconds < 1 ? fmt::format("{:.3g} ms", seconds * 1e3) : seconds_text(seconds);
}

std::string amount_text(Index elements, const Redistribution& redistribution) {
  return fmt::format("{}, {}", counted(elements, "element"),
                     bytes_text(static_cast<double>(elements) *
                                static_cast<double>(redistribution.element_bytes)));
}

Row row_of(const PackageFacts& package) {
  return {fmt::format("{}", package.peer.value),
          fmt::format("{}", package.elements),
          bytes_text(static_cast<double>(package.bytes)),
          fmt::format("{}", package.runs.count),
          fmt::format("{}", package.runs.longest),
          fmt::format("{}", package.runs.shortest),
          std::string(package.packing()),
          std::string(package.path)};
}

/// Returns e.g. "on one host, with queue_depth 2 and ordinary arrays".
std::string stream_text(const client::Prospect& stream) {
  return fmt::format("{}, with queue_depth {} and {} arrays{}",
                     stream.is_near ? "on one host" : "between hosts", stream.queue_depth,
                     stream.is_allocated ? "allocated" : "ordinary",
                     stream.is_lent ? " that are put by put_async" : "");
}

/// Returns the number of elements that all ranks of a side own together, e.g. "576 elements".
std::string listed_text(const RanksOfSide& ranks) {
  Index elements = 0;
  for (const index_calc::IndexList& list : ranks.lists)
    elements = saturating_sum(elements, list.elements());
  return counted(elements, "element");
}

}  // namespace

std::string plan_head_text(const Redistribution& redistribution) {
  const auto ranks = [](const index_calc::Layout& layout, const char* side) {
    const RankCount copies = copy_count(layout);
    return counted(rank_count(layout), side) +
           (copies == 1 ? "" : fmt::format(" (which hold {} copies)", copies));
  };
  std::string out = fmt::format(
      "array {}, {}: {} to {}\n  from  {}\n  to    {}\n", shape_text(redistribution.from),
      amount_text(elements(redistribution.from), redistribution),
      ranks(redistribution.from, "producer"), ranks(redistribution.to, "consumer"),
      to_string(redistribution.from), to_string(redistribution.to));
  if (const auto& lists = redistribution.lists)
    out += fmt::format("  lists {} on producers and {} on consumers; matching all ranks took {}\n",
                       listed_text(lists->producers), listed_text(lists->consumers),
                       plan_seconds_text(lists->seconds));
  return out;
}

std::string plan_rank_text(const Redistribution& redistribution, const RankPlan& of,
                           bool validated) {
  const auto me = fmt::format("{} {}", to_string(redistribution.side), of.rank.value);
  const auto packages = static_cast<Index>(of.plan.size());
  std::string out = fmt::format(
      "\n{} {} {} in {}\n", me, redistribution.side == Side::producer ? "sends" : "receives",
      amount_text(of.plan.elements(), redistribution), counted(packages, "package"));
  Index kept_bytes = 0;
  if (of.plan.size() > 0) {
    const std::size_t shown = std::min(of.plan.size(), most_rows);
    std::vector<Row> rows{{std::string(to_string(other(redistribution.side))), "elements", "bytes",
                           "runs", "longest", "shortest", "packing", "path"}};
    PackageFacts total{.runs = {.shortest = std::numeric_limits<Index>::max()}};
    Index direct = 0;
    of.plan.for_each_package([&](const index_calc::Package& visited) {
      const PackageFacts package = facts(redistribution, of, visited);
      if (rows.size() <= shown) rows.push_back(row_of(package));
      total.elements = saturating_sum(total.elements, package.elements);
      total.bytes = saturating_sum(total.bytes, package.bytes);
      total.runs.count = saturating_sum(total.runs.count, package.runs.count);
      total.runs.longest = std::max(total.runs.longest, package.runs.longest);
      total.runs.shortest = std::min(total.runs.shortest, package.runs.shortest);
      direct += package.is_direct() ? 1 : 0;
      kept_bytes = saturating_sum(kept_bytes, package.kept_bytes);
    });
    Row last = row_of(total);
    last.front() = "total";
    last.end()[-2] = fmt::format("{} direct", direct);
    last.back() = "";
    rows.push_back(std::move(last));
    append_table(out, rows, Align::right);
    if (shown < of.plan.size())
      out += fmt::format("  and {} more, which the total includes; --json lists all\n",
                         counted(packages - static_cast<Index>(shown), "package"));
  }
  out += fmt::format("  plan by {} in {}, {} of memory\n", planned_by(redistribution),
                     plan_seconds_text(of.seconds),
                     bytes_text(static_cast<double>(of.plan.memory_bytes())));
  out += fmt::format("  queue_depth {}: {} of memory for steps in flight{}\n",
                     redistribution.stream.queue_depth,
                     bytes_text(static_cast<double>(queue_bytes(redistribution, kept_bytes))),
                     redistribution.side == Side::producer ? ", for each consumer group" : "");
  if (validated)
    out +=
        fmt::format("  validated: aspen, falls and classical agree on every segment of {}\n", me);
  return out;
}

std::string plan_words_text(const Redistribution& redistribution) {
  const Side side = redistribution.side;
  const client::Prospect& stream = redistribution.stream;
  return fmt::format(
      "\nA run is a sequence of elements of a package that are contiguous in the memory of the "
      "{};\n"
      "longest and shortest are in elements. A direct package is one run; a packed one must be\n"
      "{} run by run. The path is that of a stream {}.\n",
      to_string(side), side == Side::producer ? "gathered" : "scattered", stream_text(stream));
}

}  // namespace tremula::cli
