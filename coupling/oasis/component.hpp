// SPDX-License-Identifier: Apache-2.0
#pragma once
// The ranks of one component: the communicator that oasis_get_localcomm gives, and what they do
// together without a stream. What is collective here waits as MPI waits.
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

  /// The greatest on any rank. Collective.
  std::vector<std::int64_t> greatest(std::vector<std::int64_t> values) const;
  /// The sum over all ranks, modulo 2^64. Collective.
  std::vector<std::uint64_t> summed(std::vector<std::uint64_t> values) const;
  /// Returns the first of the ranks that pass the greatest value; nothing if all pass 0. Collective.
  std::optional<int> first_with_most(int value) const;
  /// Makes `text` what it is on rank `root`. Collective.
  void broadcast(std::string& text, int root) const;
  /// Fails on all ranks with the text of the first rank that has one. Collective.
  void expect_none(const std::string& failure) const;
  /// Waits for all ranks.
  void wait_for_all() const { MPI_Barrier(comm_); }
  /// What rank 0 has read, on all ranks; if `read` fails, it does on all.
  std::optional<std::vector<double>> from_rank_0(
      const std::function<std::optional<std::vector<double>>()>& read) const;
  /// Calls it on rank 0; if it fails, it does on all.
  void on_rank_0(const std::function<void()>& write) const;
  /// The whole field on rank 0, empty on the others. Points that no rank has are 0.
  std::vector<double> gathered(const Partition& partition, std::span<const double> values,
                               std::int64_t global_size) const;

private:
  std::string name_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = -1;
  int size_ = 0;
};

/// This rank's part of a whole field.
std::vector<double> part_of(const Partition& partition, std::span<const double> whole);

}  // namespace tremula::oasis
