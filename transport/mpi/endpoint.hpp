// SPDX-License-Identifier: Apache-2.0
#pragma once
// Messages between two groups that share an MPI intercommunicator.
//
// MPI cannot take back an operation that its peer has begun to answer, so it gets the memory of the
// caller only when both sides are ready:
//
//     sender                               receiver
//     short: copied, sent ---------------> copied into the receive that matches
//     long:  announce -------------------> finds the receive that matches, posts it
//            sends chunks <--------------- ready
//            chunks =====================> straight into the caller's memory
//            end ------------------------> complete
//
// Envelopes (postbox.hpp) carry tags and keep the order of messages between two ranks. The chunks
// of a long message have their own MPI tag and are at most 1 GiB each, because MPI counts in `int`.
#include <mpi.h>

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/log.hpp"
#include "transport/mpi/postbox.hpp"
#include "transport/transport.hpp"

namespace tremula::transport::mpi {

class Endpoint final : public transport::Endpoint {
public:
  /// @param local  this group's ranks; borrowed, outlives the endpoint
  /// @param log  receives a line from the destructor if the link has to be left to MPI; may be null
  Endpoint(MPI_Comm local, Side side, const core::Log* log);
  /// Sends a goodbye to every peer with which it has exchanged messages, and waits up to half a
  /// second for their goodbyes. If one is missing, MPI keeps the intercommunicator until
  /// MPI_Finalize, so that messages that still arrive do no harm.
  ~Endpoint() override;
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  /// Returns the name of the port on rank 0 of the producer; empty elsewhere.
  Address address() const override;
  /// Connects the two groups. Collective over both. Uses the first address only.
  void connect(std::span<const Address> peers, core::Deadline deadline) override;
  Request send(core::Rank peer, Tag tag, core::BytesView bytes) override;
  /// Gives MPI the bytes only while a long message arrives in them. If the sender stops for more
  /// than half a second at that time, and cancel() is called, MPI may write to the bytes later.
  Request receive(core::Rank peer, Tag tag, std::span<std::byte> bytes) override;
  void progress() override;
  bool survives_lost_peers() const noexcept override { return false; }

private:
  class Transfer;
  struct Peer {
    std::uint32_t announced = 0;  // long messages sent to it
    bool is_partner = false;      // messages with it were, or are to be, exchanged
    bool was_sent_goodbye = false;
    bool has_left = false;
  };
  /// Receives with one tag that wait for the other rank, or messages that wait for their receives.
  struct Lane {
    std::deque<Transfer*> receives;  // in the order they began; empty if there are arrivals
    struct Arrival {
      Envelope envelope;
      core::Bytes payload;
    };
    std::deque<Arrival> arrivals;  // in the order of sending
  };

  Transfer& idle_transfer();
  Peer& partner(core::Rank peer);
  void handle_mail();
  void handle(const Postbox::Mail& mail);
  void match(Transfer& receive, const Envelope& envelope, core::BytesView payload);
  Transfer* find(bool is_send, core::Rank peer, std::uint32_t number) const;
  /// Finds a send that the peer has not answered yet: only its first answer counts.
  Transfer* find_waiting_send(core::Rank peer, std::uint32_t number) const;
  bool exchange_goodbyes();

  MPI_Comm local_;
  Side side_;
  const core::Log* log_;
  std::string port_;  // open on rank 0 of the producer, empty elsewhere
  MPI_Comm link_ = MPI_COMM_NULL;
  std::unique_ptr<Postbox> post_;
  std::vector<Peer> peers_;  // shape: [rank of the other group]
  std::map<std::pair<core::Rank, Tag>, Lane> lanes_;
  std::vector<std::unique_ptr<Transfer>> transfers_;  // grows to the most ever in use
  std::vector<Transfer*> idle_;                       // of transfers_
  std::vector<Transfer*> long_ones_;                  // of transfers_: announced and not yet ended
  int abandoned_ = 0;  // transfers whose chunks MPI has not given back
  /// Seconds that may still be spent on waiting for MPI to give chunks back.
  double take_back_seconds_ = 0.5;
};

}  // namespace tremula::transport::mpi
