// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>
#include <utility>
#include <vector>

#include "index_calc/plan/volumes.hpp"
#include "index_calc/relabel/relabel.hpp"

namespace tremula::index_calc {

/// A rank as an index.
constexpr std::size_t at(Rank rank) noexcept { return static_cast<std::size_t>(rank); }

/// What is sent to each label of the consumer, of all arrays together.
class Traffic {
public:
  /// @param producers, consumers  ranks of the groups
  /// @throws core::Error as relabel
  Traffic(std::span<const Transfer> arrays, Rank producers, Rank consumers);

  Rank labels() const noexcept { return labels_; }

  /// Calls visit(producer, bytes) once for each producer that sends to `label`.
  template <class Visit>
  void for_each_sender(Rank label, Visit&& visit) {
    collect(label);
    for (const Rank p : senders_) visit(p, std::exchange(bytes_from_[at(p)], 0));
  }

private:
  struct Array {
    Volumes volumes;              ///< rows: consumers
    std::vector<Rank> producers;  ///< shape: [position]
    std::vector<Rank> position;   ///< of the label, -1 for one that holds nothing; shape: [label]
    Index element_bytes;
  };
  void collect(Rank label);

  Rank labels_;
  std::vector<Array> arrays_;
  std::vector<Index> bytes_from_;  ///< all 0 between two calls; shape: [producer]
  std::vector<Rank> senders_;
};

}  // namespace tremula::index_calc
