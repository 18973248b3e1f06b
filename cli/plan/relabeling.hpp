// SPDX-License-Identifier: Apache-2.0
#pragma once
// The output of `tremula plan --relabel`: how many fewer bytes move if other processes take the parts.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/plan/redistribution.hpp"

namespace tremula::cli {

/// An assignment of labels to processes.
struct Labels {
  Index remote_bytes = 0;       ///< bytes that leave their place
  std::optional<double> cost;   ///< cost according to a table; nullopt without one
  std::vector<Rank> process{};  ///< the process that takes each label; shape: [label]
  index_calc::Layout to;        ///< layout of the consumer
};

struct RelabelingResult {
  std::string_view cost;  ///< "volume", "hosts" or "table"
  std::string words;  ///< "processes; ...", "hosts; ...": the places between which bytes are remote
  Labels given, greedy, optimal;
};

/// Compares the given assignment of labels with a greedy assignment and with one of the lowest cost.
/// @param cost   "volume": producer r and consumer r are one process; "hosts"; or a file with a
/// table; empty: "hosts" if hosts are given, else "volume"
/// @param hosts  see parse_hosts_option; empty: each process is its own place
/// @throws core::Error as index_calc::relabel, parse_hosts_option and parse_costs do;
/// invalid_argument if `cost` and `hosts` contradict each other, unsupported if a group has more
/// than most_ranks ranks
RelabelingResult relabel(const Redistribution& redistribution, const std::string& cost,
                         const std::vector<std::string>& hosts);

/// Returns the table, the layouts (with long lists of members shortened), and an explanation of the
/// words. Ends with a newline.
std::string relabeling_text(const RelabelingResult& result);

/// Returns everything as JSON. The format is an interface, documented in README.md.
std::string relabeling_json(const Redistribution& redistribution, const RelabelingResult& result);

}  // namespace tremula::cli
