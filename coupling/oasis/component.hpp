// SPDX-License-Identifier: Apache-2.0
#pragma once
// The ranks of one component: their communicator, and collective operations that need no stream.
// Collective functions wait without a time limit, as MPI does.
#include <mpi.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "coupling/oasis/partition.hpp"

namespace tremula::oasis {

class Component {
public:
  Component() = default;
  /// @param comm  not owned; MPI_COMM_NULL on a rank that is not coupled
  Component(std::string name, MPI_Comm comm);

  const std::string& name() const { return name_; }
  MPI_Comm comm() const { return comm_; }
  bool is_coupled() const { return comm_ != MPI_COMM_NULL; }
  int rank() const { return rank_; }
  int size() const { return size_; }

  /// Returns the maximum of each value over all ranks. Collective.
  std::vector<std::int64_t> greatest(std::vector<std::int64_t> values) const;
  /// Returns the sum of each value over all ranks, modulo 2^64. Collective.
  std::vector<std::uint64_t> summed(std::vector<std::uint64_t> values) const;
  /// Returns the first rank that passes the greatest value; nullopt if all pass 0. Collective.
  std::optional<int> first_with_most(int value) const;
  /// Sets `text` on all ranks to the text of rank `root`. Collective.
  void broadcast(std::string& text, int root) const;
  /// Throws on all ranks if `failure` is not empty on some rank, with the text of the lowest such
  /// rank. Collective.
  void expect_none(const std::string& failure) const;
  /// Waits for all ranks.
  void wait_for_all() const { MPI_Barrier(comm_); }
  /// Returns on all ranks what `read` returns on rank 0. If `read` throws, all ranks throw.
  /// Collective.
  std::optional<std::vector<double>> from_rank_0(
      const std::function<std::optional<std::vector<double>>()>& read) const;
  /// Calls `write` on rank 0. If `write` throws, all ranks throw. Collective.
  void on_rank_0(const std::function<void()>& write) const;
  /// Returns the whole field on rank 0, and an empty vector on the other ranks. Points that no rank
  /// has are 0. Collective.
  std::vector<double> gathered(const Partition& partition, std::span<const double> values,
                               std::int64_t global_size) const;

private:
  std::string name_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = -1;
  int size_ = 0;
};

/// Returns this rank's part of a whole field.
std::vector<double> part_of(const Partition& partition, std::span<const double> whole);

}  // namespace tremula::oasis
