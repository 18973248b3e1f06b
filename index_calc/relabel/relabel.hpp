// SPDX-License-Identifier: Apache-2.0
#pragma once
// Communication-optimal relabeling: chooses which process of the consumer holds which part.
//
// The consumer's layouts assign a part to each *label*, 0 to N - 1 like the group ranks. A relabeling
// is a permutation: process[r] is the group rank that takes label r. The best one has the lowest
//
//     cost(process) = sum_p sum_r w(p, process[r], bytes(p, r))
//
// where bytes(p, r) are the bytes that producer p sends to label r, for all arrays together, and pairs
// without a common element cost nothing. Each label contributes its own part of the cost, so the best
// permutation is a linear assignment of labels to processes with the costs
// C(r, j) = sum_p w(p, j, bytes(p, r)).
//
// Example: four processes hold the rows of a matrix, and need them in reverse order. With
// process = {3, 2, 1, 0} no byte moves.
//
// Source: Kabic, Pintarelli, Kozhevnikov & VandeVondele 2021, "COSTA: Communication-Optimal Shuffle
// and Transpose Algorithm with Process Relabeling", Algorithm 1. There, one job has n processes;
// here, the producer may be another job of a different size.
#include <span>
#include <vector>

#include "index_calc/layout/layout.hpp"

namespace tremula::index_calc {

/// One array that is moved from the producer's layout to the consumer's.
struct Transfer {
  Layout from, to;
  Index element_bytes = 1;
};

/// The places where processes run, as arbitrary numbers >= 0: equal numbers mean the same place,
/// which may be a process or a host.
struct Places {
  std::vector<RankCount> producers;  ///< shape: [group rank]
  std::vector<RankCount> consumers;  ///< shape: [group rank]; idle ranks may also get a label
  bool is_one_job =
      false;  ///< producers and consumers are the same ranks, which keep the elements they have
};

/// Returns the places of one job that is both producer and consumer: each process is a separate place.
Places one_job(RankCount size);

/// The costs w(p, j, bytes) = latency + per_byte * bytes, by the places of p and j: L + B * V of COSTA,
/// section 3.
struct CostTable {
  Places at;
  RankCount places = 0;                   ///< number of places; all places in `at` are below it
  std::vector<double> latency, per_byte;  ///< in any unit; shape: [place of p, place of j]
};

/// The algorithm. `greedy` is the paper's 2-approximation: its saving, compared with the worst place of
/// every label, is at least half the saving of the best relabeling.
enum class Method { exact, greedy };

template <class Cost>
struct Relabeling {
  std::vector<Rank> process;  ///< process that takes each label; shape: [label]
  Cost before{},
      after{};  ///< cost of what plans move, before and after relabeling; after <= before
};

/// Finds the relabeling for which the fewest bytes leave their place. With one_job(n), these bytes
/// are the locally-free volume (COSTA, Eq. 1); with hosts as places, they are the bytes that cross hosts.
/// All processes of a place are interchangeable, and a process that can keep its label keeps it. All
/// labels stay if nothing is saved. If places have several ranks and an array has copies at its source,
/// the bytes that a copy sends to a host depend on all labels. The result then saves bytes, but another
/// relabeling may save more.
/// @throws core::Error as Volumes does; invalid_argument if a rank of a layout has no place, a
/// place is negative or all arrays together, each as often as the consumer has copies of it, have
/// more than 2^61 - 1 bytes
/// Cost: that of Volumes, plus best_assignment or greedy_assignment with an entry for each label
/// and place of the consumer that share elements; memory 12 bytes for each entry (28 with greedy).
Relabeling<Index> relabel(std::span<const Transfer> arrays, const Places& places,
                          Method method = Method::exact);

/// Finds the relabeling with the lowest cost according to a table. It is exact up to the rounding
/// of costs: differences are compared in 60 bits.
/// @throws core::Error as the function above does, and invalid_argument if the table has the
/// wrong shape or an entry is not finite
/// Cost: two multiplications for each combination of a label, a place that sends to it and a place of the
/// table, then an assignment with an entry for each label and place of a consumer. Memory: 20 bytes for
/// each entry.
Relabeling<double> relabel(std::span<const Transfer> arrays, const CostTable& table,
                           Method method = Method::exact);

/// Returns the layout whose labels are taken by the ranks `process`: the same grid with other
/// members. Like any layout, it has a text form, a fingerprint and plans.
/// @param process  ranks of the group; shape: [label]; `layout` may leave some labels idle
/// @throws core::Error invalid_argument if a rank of `layout` is not a label
Layout relabeled(const Layout& layout, std::span<const Rank> process);

/// Returns how many bytes leave their place.
/// @throws core::Error as relabel does
Index remote_bytes(std::span<const Transfer> arrays, const Places& places);

}  // namespace tremula::index_calc
