// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <vector>

#include "core/types.hpp"

namespace tremula::index_calc {

using core::Rank, core::RankCount;

/// The processes of a group, classified by place. Processes at the same place are interchangeable
/// and form a class.
class ProcessClasses {
public:
  /// @param place_of  shape: [group rank]
  explicit ProcessClasses(const std::vector<RankCount>& place_of);

  /// Returns the place of each class, ascending. Shape: [class]
  const std::vector<RankCount>& places() const noexcept { return places_; }
  /// Returns the class of each process. Shape: [group rank]
  const std::vector<RankCount>& class_of() const noexcept { return of_; }
  /// Returns the number of processes in each class. Shape: [class]
  std::vector<RankCount> sizes() const;
  /// Returns the class at a place; nullopt if no process of the group is there.
  std::optional<RankCount> at(RankCount place) const;
  /// Returns a process for each label, taken from the class that is assigned to the label. The process
  /// that has the label now keeps it if it is in that class.
  /// @pre each class is assigned to as many labels as it has processes
  std::vector<Rank> processes_for(const std::vector<RankCount>& class_of_label) const;

private:
  std::vector<RankCount> places_, of_;
  std::vector<std::vector<Rank>> processes_;  ///< ascending; shape: [class]
};

}  // namespace tremula::index_calc
