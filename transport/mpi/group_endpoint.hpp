// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "transport/mpi/group.hpp"
#include "transport/transport.hpp"

namespace tremula::transport::mpi {

/// Connects the ranks of one communicator: every message is an MPI message, straight from and into
/// the memory of the caller. Unlike an endpoint between two jobs, it cannot abandon a peer that
/// does not respond: MPI cannot take back an operation that it has begun. The endpoint waits for
/// operations that are given up, for half a second in all; after that MPI may still touch their
/// bytes.
class GroupEndpoint final : public transport::Endpoint {
public:
  /// Duplicates `comm` as duplicate(comm, timeout) does.
  GroupEndpoint(MPI_Comm comm, double timeout);
  ~GroupEndpoint() override;

  /// Returns the group, for set-up.
  Group& group() noexcept { return group_; }
  const Group& group() const noexcept { return group_; }

  /// Returns an empty address. connect() does nothing, because the communicator connects the ranks.
  Address address() const override { return {}; }
  void connect(std::span<const Address>, core::Deadline) override {}
  /// @pre tag below 2^15 and less than 2 GiB
  Request send(core::Rank peer, Tag tag, core::BytesView bytes) override;
  Request receive(core::Rank peer, Tag tag, std::span<std::byte> bytes) override;
  void progress() override;
  bool survives_lost_peers() const noexcept override { return false; }
  /// Makes the destructor keep the communicator until MPI_Finalize, so that late messages are
  /// harmless.
  void give_up() noexcept override { has_given_up_ = true; }

private:
  class GroupOperation;
  GroupOperation& idle_operation();

  Group group_;
  bool has_given_up_ = false;
  std::optional<core::Deadline> cancel_deadline_;            // for all operations that are given up
  std::vector<std::unique_ptr<GroupOperation>> operations_;  // grows to the most ever in use
  std::vector<GroupOperation*> idle_;                        // of operations_
};

}  // namespace tremula::transport::mpi
