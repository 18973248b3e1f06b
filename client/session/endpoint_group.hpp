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

/// A group without MPI whose ranks can reach each other over a transport. The ranks exchange messages
/// without the server; rank 0 gathers the parts and sends the result to the other ranks.
/// Cost: a broadcast takes one message to each rank, and an allgather takes one more from each rank.
class EndpointGroup final : public transport::Group {
public:
  /// @param endpoint  on rank 0: the producer's end of a link to all other ranks, its peer i being
  ///                  rank i + 1; on any other rank: the consumer's end, its peer 0 being rank 0
  EndpointGroup(std::unique_ptr<transport::Endpoint> endpoint, core::Rank rank,
                core::RankCount size);
  ~EndpointGroup() override;
  core::Rank rank() const noexcept override { return rank_; }
  core::RankCount size() const noexcept override { return size_; }
  core::Bytes broadcast(core::Bytes bytes, core::Deadline deadline) override;
  std::vector<core::Bytes> allgather(core::Bytes bytes, core::Deadline deadline) override;
  std::vector<core::Bytes> finish(core::Deadline deadline) override;
  void send_note(core::Rank to, core::BytesView bytes) override;
  std::optional<Note> take_note() override;

private:
  struct Round;
  /// Runs one collective call.
  /// @throws core::Error peer_lost or timed_out if an earlier call has not ended
  std::vector<core::Bytes> run(Round round, core::Deadline deadline);
  void begin(Round& round);
  void wait(Round& round, core::Deadline deadline);
  core::Rank rank_of(core::Rank peer) const {
    return core::Rank{rank_ == core::Rank{0} ? peer.value + 1 : 0};
  }

  std::unique_ptr<transport::Endpoint> endpoint_;
  core::Rank rank_;
  core::RankCount size_;
  std::vector<core::Rank> peers_;  // all peers of the link
  std::unique_ptr<Round> round_;   // the call that has not ended; uses the endpoint
  struct NoteOnItsWay {
    core::Bytes bytes;
    transport::Request request{};
    bool is_over = false;  // the peer is gone
  };
  /// Drops notes whose sending has ended from the front of sent_.
  void forget_sent();
  std::deque<NoteOnItsWay> sent_;        // notes being sent; may include some that have been sent
  std::vector<NoteOnItsWay> receiving_;  // next note of each peer; empty before take_note()
};

}  // namespace tremula::client
