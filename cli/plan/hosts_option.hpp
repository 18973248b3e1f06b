// SPDX-License-Identifier: Apache-2.0
#pragma once
// The hosts of the ranks, from the command line.
#include <string>
#include <vector>

#include "index_calc/relabel/relabel.hpp"

namespace tremula::cli {

/// The largest group that is relabeled.
inline constexpr core::RankCount most_ranks = 10'000'000;

/// Places and their names. A name means the same host in both jobs.
struct Hosts {
  std::vector<std::string> names;  ///< shape: [place]
  index_calc::Places places;
};

/// Parses the values of --hosts.
/// @param values  one for both jobs, or the producer's and the consumer's: "a:4,b:2", in the order
/// of ranks as for mpirun --host, or "4", the number of ranks on each of the hosts 0, 1, ...
/// @param producers, consumers  how many ranks need a host; a list may name hosts for more
/// @throws core::Error invalid_argument naming what is wrong in --hosts
Hosts parse_hosts_option(const std::vector<std::string>& values, core::RankCount producers,
                         core::RankCount consumers);

}  // namespace tremula::cli
