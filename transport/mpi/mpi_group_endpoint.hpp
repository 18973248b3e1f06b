// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <vector>

#include "transport/mpi/mpi_call.hpp"
#include "transport/transport.hpp"

namespace tremula::transport::mpi {

/// The ranks of one communicator reach each other: messages go as MPI's own, straight from and into
/// the caller's memory. Unlike an endpoint between two jobs it does not outlive a partner that
/// stays away: MPI cannot take back what it has begun. What is given up is waited for for half a
/// second; then MPI may still touch its bytes.
class GroupEndpoint final : public transport::Endpoint {
public:
  /// Duplicates `comm`. Collective.
  /// @throws core::Error invalid_argument, transport
  explicit GroupEndpoint(MPI_Comm comm);
  ~GroupEndpoint() override;

  core::Rank rank() const noexcept { return rank_; }
  core::Rank size() const noexcept { return size_; }
  /// Everybody gets what everybody passed. Collective; for set-up. Shape of the result: [rank].
  /// @pre less than 2 GiB together
  std::vector<core::Bytes> allgather(core::Bytes mine) const;
  /// The duplicate, for other collective calls.
  MPI_Comm comm() const noexcept { return comm_.get(); }

  /// Nothing to be told, nothing to do: the ranks know each other.
  Address address() const override { return {}; }
  void connect(std::span<const Address>, core::Deadline) override {}
  /// @pre tag below 2^15 and less than 2 GiB
  Request send(core::Rank peer, Tag tag, core::BytesView bytes) override;
  Request receive(core::Rank peer, Tag tag, std::span<std::byte> bytes) override;
  void progress() override;

private:
  class Message;
  Message& idle_message();

  Comm comm_;
  core::Rank rank_ = 0, size_ = 0;
  std::vector<std::unique_ptr<Message>> messages_;  // all that were ever needed at once
  std::vector<Message*> idle_;                      // of messages_
};

}  // namespace tremula::transport::mpi
