// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

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
  ~EndpointGroup() override;
  core::Rank rank() const noexcept override { return rank_; }
  core::Rank size() const noexcept override { return size_; }
  core::Bytes broadcast(core::Bytes bytes, core::Deadline deadline) override;
  std::vector<core::Bytes> allgather(core::Bytes bytes, core::Deadline deadline) override;
  std::vector<core::Bytes> finish(core::Deadline deadline) override;
  void send_note(core::Rank to, core::BytesView bytes) override;
  std::optional<Note> take_note() override;

private:
  struct Round;
  /// @throws core::Error peer_lost or timed_out if an earlier call has not ended
  std::vector<core::Bytes> run(Round round, core::Deadline deadline);
  void begin(Round& round);
  void wait(Round& round, core::Deadline deadline);

  std::unique_ptr<transport::Endpoint> endpoint_;
  core::Rank rank_, size_;
  std::vector<core::Rank> peers_;  // all of the link's
  std::unique_ptr<Round> round_;   // the call that has not ended; uses the endpoint
  struct NoteOnItsWay {
    core::Bytes bytes;
    transport::Request request{};
    bool is_over = false;  // the peer is gone
  };
  /// Those that have gone.
  void forget_sent();
  std::deque<NoteOnItsWay> sent_;        // that have not gone, and perhaps some that have
  std::vector<NoteOnItsWay> receiving_;  // the next one of each peer, once notes are taken
};

}  // namespace tremula::client
