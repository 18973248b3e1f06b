// SPDX-License-Identifier: Apache-2.0
#pragma once
// Communication-optimal relabeling: which process of the consumer shall hold which part.
//
// The consumer's layouts say what each *label* holds, 0 to N - 1 like the group ranks. A relabeling
// is a permutation: process[r] is the group rank that takes label r. Wanted is the one with the
// least
//
//     cost(process) = sum_p sum_r w(p, process[r], bytes(p, r))
//
// where bytes(p, r) is all that producer p sends to label r, of all arrays together, and pairs
// without a common element cost nothing. Each label adds its own part of the cost, so the best
// permutation is a linear assignment of labels to processes with the costs
// C(r, j) = sum_p w(p, j, bytes(p, r)).
//
// Example: four processes hold the rows of a matrix, and want them in the reverse order. With
// process = {3, 2, 1, 0} no byte moves.
//
// Source: Kabic, Pintarelli, Kozhevnikov & VandeVondele 2021, "COSTA: Communication-Optimal Shuffle
// and Transpose Algorithm with Process Relabeling", Algorithm 1. There one job has n processes;
// here the producer may be another job, of another size.
#include <span>
#include <vector>

#include "index_calc/layout/layout.hpp"

namespace tremula::index_calc {

/// One array that goes from the producer's layout to the consumer's.
struct Transfer {
  Layout from, to;
  Index element_bytes = 1;
};

/// Where processes run, by any numbers from 0 on: equal numbers are the same place, be it a process
/// or a host.
struct Places {
  std::vector<Rank> producers;  ///< shape: [group rank]
  std::vector<Rank> consumers;  ///< shape: [group rank]; idle ranks may be given a label
  bool is_one_job =
      false;  ///< producers and consumers are the same ranks, which keep what they have
};

/// Producer and consumer are one job: each process is a place of its own.
Places one_job(Rank size);

/// w(p, j, bytes) = latency + per_byte * bytes, by the places of p and j: L + B * V of COSTA,
/// section 3.
struct CostTable {
  Places at;
  Rank places = 0;                        ///< at.producers and at.consumers are below
  std::vector<double> latency, per_byte;  ///< in any unit; shape: [place of p, place of j]
};

/// `greedy`: the paper's 2-approximation: what is saved, against the worst place of every label, is
/// at least half of what the best relabeling saves.
enum class Method { exact, greedy };

template <class Cost>
struct Relabeling {
  std::vector<Rank> process;  ///< takes the label; shape: [label]
  Cost before{},
      after{};  ///< as plans move it, with the labels as they are and relabeled; after <= before
};

/// The least bytes that leave their place. With one_job(n) that is the locally-free volume (COSTA,
/// Eq. 1), with hosts as places the bytes that cross hosts. All processes of a place are alike, and
/// one that can keep its label does. Where nothing is won all labels stay. Where places have several ranks and an
/// array has copies at its source, what a copy sends to a host depends on all labels: the result saves, but another
/// one may save more.
/// @throws core::Error as Volumes; invalid_argument if a rank of a layout has no place, a place is
/// negative or all arrays together have more than 2^61 - 1 bytes
/// Cost: that of Volumes, and of best_assignment or greedy_assignment with an entry for each label
/// and place of the consumer that share elements; memory 12 bytes for each (28 with greedy).
Relabeling<Index> relabel(std::span<const Transfer> arrays, const Places& places,
                          Method method = Method::exact);

/// The least cost by a table. Exact to the rounding of `cost`: differences are compared in 60 bits.
/// @throws core::Error as above, and invalid_argument if the table has another shape or an entry is
/// not finite
/// Cost: two multiplications for each label, place that sends to it and place of the table; then an
/// assignment with an entry for each label and place of a consumer; memory 20 bytes for each.
Relabeling<double> relabel(std::span<const Transfer> arrays, const CostTable& table,
                           Method method = Method::exact);

/// The layout whose labels have been taken by `process`: the same grid, other members. Its text
/// form, fingerprint and plans are those of any layout.
/// @param process  of the group; shape: [label], some of which `layout` may leave idle
/// @throws core::Error invalid_argument if a rank of `layout` is no label
Layout relabeled(const Layout& layout, std::span<const Rank> process);

/// Bytes that leave their place.
/// @throws core::Error as relabel
Index remote_bytes(std::span<const Transfer> arrays, const Places& places);

}  // namespace tremula::index_calc
