// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <mpi.h>

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "core/deadline.hpp"
#include "transport/transport.hpp"

namespace tremula::transport::mpi {

/// Header of a message from one rank of a link to another. Envelopes between two ranks arrive in
/// the order in which they were sent.
struct Envelope {
  enum class Kind : std::uint32_t {
    message,   ///< a complete short message; its bytes follow
    announce,  ///< a long message of `length` bytes waits for `ready`
    ready,     ///< answer to announce: the receives for its chunks are posted
    refuse,    ///< answer to announce: the receive has room for `length` bytes only
    end,       ///< all chunks of an announced message have been sent from memory that was valid
    goodbye,   ///< the sender closes its end; nothing follows
  };
  Kind kind = Kind::message;
  std::uint32_t number = 0;  ///< number of an announced message, counted by its sender per peer
  Tag tag = 0;
  std::uint64_t length = 0;
};
static_assert(sizeof(Envelope) == 24);

/// Sends and receives envelopes. MPI touches only memory of the postbox, which leaves that memory
/// to MPI when an operation does not end.
class Postbox {
public:
  /// Bytes of the longest message that fits in an envelope.
  static constexpr std::size_t short_bytes = 4096 - sizeof(Envelope);
  /// MPI tag of envelopes; all other tags are free.
  static constexpr int mpi_tag = 0;

  explicit Postbox(MPI_Comm link);
  ~Postbox();
  Postbox(const Postbox&) = delete;
  Postbox& operator=(const Postbox&) = delete;

  /// Identifies an envelope, for test_sent.
  using Ticket = std::uint64_t;
  /// Sends an envelope and a copy of `payload`; never blocks.
  /// @throws core::Error transport
  Ticket send(core::Rank peer, const Envelope& envelope, core::BytesView payload = {});
  /// Makes progress. Returns whether the envelope has left this process.
  bool test_sent(Ticket ticket);
  /// Makes progress. Returns whether all envelopes have left this process.
  bool test_all_sent();

  struct Mail {
    core::Rank peer;
    Envelope envelope;
    core::BytesView payload;  ///< valid until the next call to take()
  };
  /// Makes progress. Takes the next envelope; nullopt if none has arrived.
  /// @throws core::Error transport, protocol
  std::optional<Mail> take();

private:
  struct EnvelopeBuffer {
    MPI_Request request = MPI_REQUEST_NULL;
    std::array<std::byte, sizeof(Envelope) + short_bytes> bytes;
  };
  void receive(EnvelopeBuffer& buffer);

  MPI_Comm link_;
  std::vector<std::unique_ptr<EnvelopeBuffer>>
      incoming_;            // all posted, except the one that was taken last
  std::size_t oldest_ = 0;  // index into incoming_; MPI fills them in turn
  bool is_taken_ = false;   // the caller reads incoming_[oldest_]
  std::deque<std::unique_ptr<EnvelopeBuffer>> outgoing_;  // in the order of sending
  Ticket oldest_sent_ = 0;                                // ticket of outgoing_.front()
};

}  // namespace tremula::transport::mpi
