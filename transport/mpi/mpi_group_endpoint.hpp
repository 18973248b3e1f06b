// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "transport/mpi/mpi_group.hpp"
#include "transport/transport.hpp"

namespace tremula::transport::mpi {

/// The ranks of one communicator reach each other: messages go as MPI's own, straight from and into
/// the caller's memory. Unlike an endpoint between two jobs it does not outlive a partner that
/// stays away: MPI cannot take back what it has begun. What is given up is waited for, half a
/// second for all together; then MPI may still touch its bytes.
class GroupEndpoint final : public transport::Endpoint {
public:
  /// As duplicate(comm, timeout).
  GroupEndpoint(MPI_Comm comm, double timeout);
  ~GroupEndpoint() override;

  /// For set-up.
  Group& group() noexcept { return group_; }
  const Group& group() const noexcept { return group_; }

  /// Nothing to be told, nothing to do: the ranks know each other.
  Address address() const override { return {}; }
  void connect(std::span<const Address>, core::Deadline) override {}
  /// @pre tag below 2^15 and less than 2 GiB
  Request send(core::Rank peer, Tag tag, core::BytesView bytes) override;
  Request receive(core::Rank peer, Tag tag, std::span<std::byte> bytes) override;
  void progress() override;
  /// Its communicator stays until MPI_Finalize, so that what comes late harms no other.
  void give_up() noexcept override { has_given_up_ = true; }

private:
  class Message;
  Message& idle_message();

  Group group_;
  bool has_given_up_ = false;
  std::optional<core::Deadline> patience_;          // with all that is given up
  std::vector<std::unique_ptr<Message>> messages_;  // all that were ever needed at once
  std::vector<Message*> idle_;                      // of messages_
};

}  // namespace tremula::transport::mpi
