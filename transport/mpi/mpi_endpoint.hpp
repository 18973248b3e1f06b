// SPDX-License-Identifier: Apache-2.0
#pragma once
// Messages between two groups that share an MPI intercommunicator.
//
// MPI counts in `int`, so a message travels as chunks of C bytes, all full but the last: a chunk of
// less than C bytes (perhaps none) ends the message. The first chunk has the message's tag, the
// others tag + tag_limit: so a receive never takes the rest of an earlier message for the beginning
// of its own. Chunks after the first are posted when the one before has finished and every earlier
// long message of the same (peer, tag) is complete.
#include <mpi.h>

#include <memory>
#include <string>
#include <vector>

#include "core/log.hpp"
#include "transport/transport.hpp"

namespace tremula::transport::mpi {

class Endpoint final : public transport::Endpoint {
public:
  /// @param local  this group's ranks; borrowed, outlives the endpoint
  /// @param chunk_bytes  C; equal on both sides
  /// @param log  where the destructor tells what it had to leave behind; may be null
  Endpoint(MPI_Comm local, Side side, std::size_t chunk_bytes, const core::Log* log);
  /// Separates the groups again if both sides are well. An operation that the peer will never
  /// finish stays with MPI, and so does the intercommunicator.
  ~Endpoint() override;
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  /// The port's name on rank 0 of the producer, empty elsewhere.
  Address address() const override;
  /// Collective over both groups. Uses the first address only.
  void connect(std::span<const Address> peers, core::Deadline deadline) override;
  Request send(core::Rank peer, Tag tag, core::BytesView bytes) override;
  Request receive(core::Rank peer, Tag tag, std::span<std::byte> bytes) override;
  void progress() override;

private:
  class Transfer;
  enum class Direction { send, receive };
  Request start(Direction direction, core::Rank peer, Tag tag, std::byte* bytes, std::size_t count);

  MPI_Comm local_;
  Side side_;
  std::size_t chunk_bytes_;
  const core::Log* log_;
  std::string port_;  // open on rank 0 of the producer, empty elsewhere
  MPI_Comm link_ = MPI_COMM_NULL;
  core::Rank peers_ = 0;
  std::vector<std::unique_ptr<Transfer>> transfers_;  // all that were ever needed at once
  std::vector<Transfer*> idle_;                       // of transfers_
  std::vector<Transfer*>
      long_ones_;  // of transfers_, in flight and of C bytes or more, in the order of their start
  std::string spoilt_;     // why no message of C bytes or more can follow; empty: they can
  double patience_ = 0.5;  // seconds that all cancelled operations together may take to end
  int abandoned_ = 0;      // operations that did not end
};

}  // namespace tremula::transport::mpi
