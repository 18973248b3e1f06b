// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <span>

#include "transport/group.hpp"
#include "transport/transport.hpp"

namespace tremula::client {

/// The ranks of a group that has no MPI, once each can reach the others over a transport: what they
/// tell each other needs no server. Rank 0 gathers and tells.
/// Cost: of a broadcast one message to each rank, of an allgather one more from each.
class EndpointGroup final : public transport::Group {
public:
  /// @param endpoint  of rank 0: the producer's end of a link to all other ranks, its peer i being
  ///                  rank i + 1; of another rank: the consumer's end, its peer 0 being rank 0
  EndpointGroup(std::unique_ptr<transport::Endpoint> endpoint, core::Rank rank, core::Rank size);
  core::Rank rank() const noexcept override { return rank_; }
  core::Rank size() const noexcept override { return size_; }
  core::Bytes broadcast(core::Bytes bytes, core::Deadline deadline) override;
  std::vector<core::Bytes> allgather(core::Bytes bytes, core::Deadline deadline) override;

private:
  /// @throws core::Error peer_lost or timed_out if the group is of no use any more
  void begin();
  void wait(std::span<transport::Request> requests, std::string_view what, core::Deadline deadline);
  /// All messages at once: lengths first, since the receiving rank does not know them.
  void send(std::span<const core::Rank> to, core::BytesView bytes, core::Deadline deadline);
  std::vector<core::Bytes> receive(std::span<const core::Rank> from, core::Deadline deadline);

  std::unique_ptr<transport::Endpoint> endpoint_;
  core::Rank rank_, size_;
  std::vector<core::Rank> peers_;  // all of the link's
  bool is_out_of_step_ = false;  // an agreement has not ended: a later one could take its messages
};

}  // namespace tremula::client
