// SPDX-License-Identifier: Apache-2.0
#include "cli/plan/relabeling.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <span>
#include <string_view>

#include "cli/plan/cost_file.hpp"
#include "cli/plan/hosts_option.hpp"
#include "core/error.hpp"
#include "index_calc/relabel/relabel.hpp"

namespace tremula::cli {

namespace {

using index_calc::Layout, index_calc::Method, index_calc::Places, index_calc::Transfer;

/// Returns the number of ranks that a group needs for a layout.
/// @throws core::Error unsupported if there are more than most_ranks
RankCount group_size(const Layout& layout, std::string_view option) {
  const auto& members = layout.ranks().members;
  core::Index size = members.empty() ? index_calc::rank_count(layout) : 0;
  for (const index_calc::RankRange& r : members)
    size = std::max(size, core::Index{r.first.value} + r.count);
  if (size > most_ranks)
    throw core::Error(core::Errc::unsupported,
                      fmt::format("--relabel: expected groups of at most {} ranks, found {} in {}; "
                                  "relabel a smaller redistribution of the same pattern",
                                  most_ranks, size, option));
  return static_cast<RankCount>(size);
}

/// Returns the places if no hosts are given: the processes of one job, each of which is a producer
/// and a consumer.
Hosts processes(RankCount size) {
  Hosts result{.names = {}, .places = index_calc::one_job(size)};
  for (const Rank r : core::all_ranks(size)) result.names.push_back(fmt::format("{}", r.value));
  return result;
}

std::string words(const Places& places, bool has_hosts) {
  if (!has_hosts) return "processes; producer r and consumer r are one process";
  const std::set<RankCount> from(places.producers.begin(), places.producers.end()),
      to(places.consumers.begin(), places.consumers.end());
  const auto both = std::ranges::count_if(to, [&](RankCount host) { return from.contains(host); });
  return fmt::format("hosts; {} of producers, {} of consumers, {} of both", from.size(), to.size(),
                     both);
}

/// @param costs  the costs for index_calc::relabel
template <class Costs>
void relabel(RelabelingResult& result, const Transfer& transfer, const Places& places,
             const Costs& costs) {
  const auto labels = [&](const std::vector<Rank>& process, auto cost) {
    const Transfer moved{transfer.from, index_calc::relabeled(transfer.to, process),
                         transfer.element_bytes};
    return Labels{
        .remote_bytes = index_calc::remote_bytes({&moved, 1}, places),
        .cost = result.cost == "table" ? std::optional(static_cast<double>(cost)) : std::nullopt,
        .process = process,
        .to = moved.to};
  };
  const auto greedy = index_calc::relabel({&transfer, 1}, costs, Method::greedy),
             optimal = index_calc::relabel({&transfer, 1}, costs, Method::exact);
  const auto same = core::all_ranks(static_cast<RankCount>(places.consumers.size()));
  result.given = labels({same.begin(), same.end()}, optimal.before);
  result.greedy = labels(greedy.process, greedy.after);
  result.optimal = labels(optimal.process, optimal.after);
}

}  // namespace

RelabelingResult relabel(const Redistribution& redistribution, const std::string& cost,
                         const std::vector<std::string>& hosts) {
  const bool has_hosts = !hosts.empty();
  if (cost == "hosts" && !has_hosts)
    throw core::Error(core::Errc::invalid_argument,
                      "--cost hosts: expected --hosts as well, found none; say where the ranks "
                      "run, for instance --hosts a:4,b:4");
  if (cost == "volume" && has_hosts)
    throw core::Error(
        core::Errc::invalid_argument,
        "--cost volume: expected no --hosts, since every process is a place of its own; "
        "leave out one of the two options");
  const Transfer transfer{redistribution.from, redistribution.to, redistribution.element_bytes};
  const RankCount producers = group_size(transfer.from, "--from"),
                  consumers = group_size(transfer.to, "--to");
  const Hosts at = has_hosts ? parse_hosts_option(hosts, producers, consumers)
                             : processes(std::max(producers, consumers));
  const bool is_table = !cost.empty() && cost != "hosts" && cost != "volume";
  RelabelingResult result{.cost = is_table    ? "table"
                                  : has_hosts ? "hosts"
                                              : "volume",
                          .words = words(at.places, has_hosts),
                          .given = {},
                          .greedy = {},
                          .optimal = {}};
  if (is_table)
    relabel(result, transfer, at.places,
            parse_costs(read_cost_file(cost), cost, at.names, at.places));
  else
    relabel(result, transfer, at.places, at.places);
  return result;
}

}  // namespace tremula::cli
