// SPDX-License-Identifier: Apache-2.0
#include "coupling/oasis/membership.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "coupling/oasis/failure.hpp"

namespace tremula::oasis {

namespace {

/// What has to be the same on all ranks, as a line.
std::string line_of(const Definition& d) {
  return fmt::format("variable {} ({}, {} in a bundle) on a partition with ig_size {}", d.name,
                     d.is_out ? "out" : "in", d.bundle, d.global_size);
}

/// The definitions of the rank that has the most.
struct Reference {
  int rank = 0;
  std::vector<std::string> names, lines;
  std::vector<int> partitions;
};

Reference reference_of(const Component& component, std::span<const Definition> mine) {
  Reference reference;
  reference.rank = component.first_with_most(static_cast<int>(mine.size()));
  std::string text;
  if (component.rank() == reference.rank)
    for (const Definition& d : mine)
      text += fmt::format("{}\n{}\n{}\n", d.name, d.partition, line_of(d));
  component.broadcast(text, reference.rank);
  std::istringstream in(text);
  for (std::string name, partition, line;
       std::getline(in, name) && std::getline(in, partition) && std::getline(in, line);) {
    reference.names.push_back(name);
    reference.partitions.push_back(std::stoi(partition));
    reference.lines.push_back(line);
  }
  return reference;
}

/// Returns how this rank's definitions differ from the reference; nothing if they do not.
std::string difference(const Component& component, const Reference& reference,
                       std::span<const Definition> mine, std::span<const std::int64_t> partitions) {
  const auto text = [&](const std::string& expected, const std::string& found) {
    return fmt::format(
        "expected on all ranks the definitions of rank {}, {}; found {} on rank {}; every rank of "
        "the component that has points of a partition makes the same calls of oasis_def_var for it",
        reference.rank, expected, found, component.rank());
  };
  for (const Definition& d : mine) {
    const auto at = std::ranges::find(reference.names, d.name) - reference.names.begin();
    const bool is_known = at < std::ssize(reference.names);
    const std::string expected =
        is_known ? reference.lines[static_cast<std::size_t>(at)] : std::string("nothing");
    if (expected != line_of(d)) return text(expected, line_of(d));
  }
  for (std::size_t i = 0; i < reference.names.size(); ++i) {
    if (std::ranges::find(mine, reference.names[i], &Definition::name) != mine.end()) continue;
    const auto partition = static_cast<std::size_t>(reference.partitions[i] - 1);
    if (partition < partitions.size() && partitions[partition] > 0)
      return text(reference.lines[i], fmt::format("nothing, and {} points in partition {},",
                                                  partitions[partition], partition + 1));
  }
  return {};
}

/// One to one, so that sums over other ranks differ: the finaliser of SplitMix64 (Steele, Lea, Flood 2014).
std::uint64_t mixed(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace

std::vector<Member> agree(const Component& component, std::span<const Definition> mine,
                          std::span<const std::int64_t> partitions) {
  const Reference reference = reference_of(component, mine);
  component.expect_none(difference(component, reference, mine, partitions));
  const std::uint64_t me = mixed(static_cast<std::uint64_t>(component.rank()) + 1);
  const std::size_t count = reference.names.size();
  std::vector<std::int64_t> ends(count);
  // For each variable: how many ranks define it, which, and how many of them have no points.
  std::vector<std::uint64_t> sums(3 * count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto found = std::ranges::find(mine, reference.names[i], &Definition::name);
    if (found == mine.end()) continue;
    ends[i] = found->end;
    sums[3 * i] = 1, sums[3 * i + 1] = me;
    sums[3 * i + 2] = partitions[static_cast<std::size_t>(found->partition - 1)] == 0 ? 1 : 0;
  }
  const auto all = component.summed(sums);
  const auto greatest = component.greatest(ends);
  std::vector<Member> members;
  for (std::size_t i = 0; i < count; ++i) {
    const bool is_of_all = all[3 * i] == static_cast<std::uint64_t>(component.size());
    members.push_back({.name = reference.names[i],
                       .end = greatest[i],
                       .set = is_of_all ? 0 : all[3 * i + 1],
                       .takes_part = sums[3 * i] > 0,
                       .has_ranks_without_points = all[3 * i + 2] > 0});
  }
  return members;
}

}  // namespace tremula::oasis
