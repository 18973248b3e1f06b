// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "index_calc/plan/volumes.hpp"
#include "index_calc/relabel/relabel.hpp"

namespace tremula::index_calc {

/// Returns a count, or the number of a place, class or position, as an index.
constexpr std::size_t at(RankCount number) noexcept { return static_cast<std::size_t>(number); }

/// The bytes that are sent to each label of the consumer, for all arrays together.
class Traffic {
public:
  /// @throws core::Error as relabel does
  Traffic(std::span<const Transfer> arrays, const Places& places);
  Traffic(const Traffic&) = delete;  // volumes refer to the hosts

  RankCount labels() const noexcept { return labels_; }

  /// Calls visit(producer, bytes) once for each producer that sends to `label`.
  template <class Visit>
  void for_each_sender(Rank label, Visit&& visit) {
    collect(label);
    for (const Rank p : senders_) visit(p, std::exchange(bytes_from_[at(p)], 0));
  }

  /// Returns whether the place of a label decides which copies send to it, and how much. The cost
  /// of a label at another place is then an estimate, which for_each_near_sender() provides.
  bool depends_on_labels() const noexcept { return depends_on_labels_; }
  /// Calls visit(producer, bytes) for producers whose place has bytes for `label`; one place may
  /// have several such producers. If a process there took the label, all other bytes would leave
  /// their places; fewer would if the copies at this place had to send less to other labels.
  template <class Visit>
  void for_each_near_sender(Rank label, Visit&& visit) {
    if (!depends_on_labels_) return for_each_sender(label, visit);
    collect_near(label);
    for (const Rank p : senders_) visit(p, std::exchange(bytes_from_[at(p)], 0));
  }

private:
  struct Array {
    Volumes volumes;                  ///< rows: consumers
    std::vector<Rank> producers;      ///< shape: [position]
    std::vector<RankCount> position;  ///< -1 for a label that takes no part; shape: [label]
    Index element_bytes;
    Index sinks = 1;  ///< copies of each label's part
  };
  void collect(Rank label);
  void collect_near(Rank label);
  void add(Rank producer, Index bytes);

  RankCount labels_;
  std::vector<RankCount> place_of_;  ///< shape: [producer]
  std::vector<std::uint32_t> of_producers_, of_consumers_;
  Hosts hosts_;
  bool depends_on_labels_ = false;
  std::vector<Array> arrays_;
  std::vector<Index> bytes_from_;  ///< all 0 between two calls; shape: [producer]
  std::vector<Rank> senders_;
};

}  // namespace tremula::index_calc
