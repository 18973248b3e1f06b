// SPDX-License-Identifier: Apache-2.0
#include "coupling/oasis/membership.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "coupling/oasis/failure.hpp"

namespace tremula::oasis {

namespace {

/// Returns, as one line of text, the part of a definition that must be the same on all ranks.
std::string line_of(const Definition& d) {
  return fmt::format(
      "variable {} ({}, {} in a bundle) on a partition {}", d.name, d.is_out ? "out" : "in",
      d.bundle,
      d.global_size > 0 ? fmt::format("with ig_size {}", d.global_size) : "without ig_size");
}

/// A definition, as made by the rank that broadcast it.
struct KnownDefinition {
  std::string name, line;
  int partition = 0;
  int rank = 0;
};

/// Returns the definitions of all ranks, in the same order on every rank. In each round, the rank
/// with the most definitions that no rank has broadcast yet broadcasts them. Few ranks define
/// something that others do not, so a few rounds are enough.
std::vector<KnownDefinition> all_definitions(const Component& component,
                                             std::span<const Definition> mine) {
  std::vector<KnownDefinition> all;
  while (true) {
    std::vector<const Definition*> unknown;
    for (const Definition& d : mine)
      if (std::ranges::find(all, d.name, &KnownDefinition::name) == all.end())
        unknown.push_back(&d);
    const auto rank = component.first_with_most(static_cast<int>(unknown.size()));
    if (!rank) return all;
    std::string text;
    if (component.rank() == *rank)
      for (const Definition* d : unknown)
        text += fmt::format("{}\n{}\n{}\n", d->name, line_of(*d), d->partition);
    component.broadcast(text, *rank);
    std::istringstream in(text);
    for (std::string name, line, partition;
         std::getline(in, name) && std::getline(in, line) && std::getline(in, partition);)
      all.push_back({name, line, std::stoi(partition), *rank});
  }
}

/// Returns how this rank's definitions differ from those of other ranks; empty if they agree.
std::string difference(const Component& component, std::span<const KnownDefinition> all,
                       std::span<const Definition> mine, std::span<const std::int64_t> partitions) {
  const auto text = [&](const KnownDefinition& expected, const std::string& found) {
    return fmt::format(
        "expected the same definitions on all ranks; rank {} has {}; found {}; every rank of the "
        "component that has points of a partition must make the same calls of oasis_def_var for it",
        expected.rank, expected.line, found);
  };
  for (const KnownDefinition& known : all) {
    const auto own = std::ranges::find(mine, known.name, &Definition::name);
    if (own != mine.end()) {
      if (line_of(*own) != known.line)
        return text(known, fmt::format("{} on rank {}", line_of(*own), component.rank()));
      continue;
    }
    const auto partition = static_cast<std::size_t>(known.partition - 1);
    if (partition < partitions.size() && partitions[partition] > 0)
      return text(known, fmt::format("no such definition on rank {}, which has {} points in "
                                     "partition {}",
                                     component.rank(), partitions[partition], partition + 1));
  }
  return {};
}

/// Maps 64-bit numbers one to one, so that sums over different sets of ranks differ. It is the
/// finaliser of SplitMix64 (Steele, Lea, Flood 2014).
std::uint64_t mixed(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace

std::vector<Member> agree(const Component& component, std::span<const Definition> mine,
                          std::span<const std::int64_t> partitions) {
  const std::vector<KnownDefinition> known = all_definitions(component, mine);
  component.expect_none(difference(component, known, mine, partitions));
  const std::uint64_t me = mixed(static_cast<std::uint64_t>(component.rank()) + 1);
  const std::size_t count = known.size();
  std::vector<std::int64_t> ends(count), bundles(count);
  // For each variable: how many ranks define it, a sum that identifies these ranks, and how many of
  // them have no points.
  std::vector<std::uint64_t> sums(3 * count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto found = std::ranges::find(mine, known[i].name, &Definition::name);
    if (found == mine.end()) continue;
    ends[i] = found->end, bundles[i] = found->bundle;
    sums[3 * i] = 1, sums[3 * i + 1] = me;
    sums[3 * i + 2] = partitions[static_cast<std::size_t>(found->partition - 1)] == 0 ? 1 : 0;
  }
  const auto all = component.summed(sums);
  ends = component.greatest(ends);
  bundles = component.greatest(bundles);
  std::vector<Member> members;
  for (std::size_t i = 0; i < count; ++i) {
    const bool is_of_all = all[3 * i] == static_cast<std::uint64_t>(component.size());
    members.push_back({.name = known[i].name,
                       .bundle = static_cast<int>(bundles[i]),
                       .end = ends[i],
                       .set = is_of_all ? 0 : all[3 * i + 1],
                       .takes_part = sums[3 * i] > 0,
                       .has_ranks_without_points = all[3 * i + 2] > 0});
  }
  return members;
}

}  // namespace tremula::oasis
