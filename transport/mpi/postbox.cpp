// SPDX-License-Identifier: Apache-2.0
#include "transport/mpi/postbox.hpp"

#include <cstring>
#include <string>

#include "core/error.hpp"
#include "transport/mpi/call.hpp"

namespace tremula::transport::mpi {

namespace {

constexpr std::size_t posted_receives = 16;

}  // namespace

Postbox::Postbox(MPI_Comm link) : link_(link), incoming_(posted_receives) {
  for (auto& buffer : incoming_) {
    buffer = std::make_unique<EnvelopeBuffer>();
    receive(*buffer);
  }
}

Postbox::~Postbox() {
  for (auto& buffer : incoming_) {
    if (buffer->request == MPI_REQUEST_NULL) continue;
    int done = 0;
    MPI_Cancel(&buffer->request);
    if (MPI_Test(&buffer->request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done == 0)
      static_cast<void>(buffer.release());  // MPI still writes to it
  }
  for (auto& buffer : outgoing_) {
    int done = 0;
    if (MPI_Test(&buffer->request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done == 0)
      static_cast<void>(buffer.release());  // MPI still reads from it
  }
}

void Postbox::receive(EnvelopeBuffer& buffer) {
  check(MPI_Irecv(buffer.bytes.data(), static_cast<int>(buffer.bytes.size()), MPI_BYTE,
                  MPI_ANY_SOURCE, mpi_tag, link_, &buffer.request),
        "MPI_Irecv of an envelope");
}

Postbox::Ticket Postbox::send(core::Rank peer, const Envelope& envelope, core::BytesView payload) {
  TREMULA_ASSERT(payload.size() <= short_bytes);
  if (!outgoing_.empty() && test_sent(oldest_sent_)) {
    outgoing_.push_back(std::move(outgoing_.front()));
    outgoing_.pop_front();
    ++oldest_sent_;
  } else {
    outgoing_.push_back(std::make_unique<EnvelopeBuffer>());
  }
  EnvelopeBuffer& buffer = *outgoing_.back();
  std::memcpy(buffer.bytes.data(), &envelope, sizeof envelope);
  if (!payload.empty())
    std::memcpy(buffer.bytes.data() + sizeof envelope, payload.data(), payload.size());
  check(MPI_Isend(buffer.bytes.data(), static_cast<int>(sizeof envelope + payload.size()), MPI_BYTE,
                  peer.value, mpi_tag, link_, &buffer.request),
        "MPI_Isend of an envelope to rank " + std::to_string(peer.value));
  return oldest_sent_ + outgoing_.size() - 1;
}

bool Postbox::test_sent(Ticket ticket) {
  if (ticket < oldest_sent_) return true;  // its buffer is in use again
  int done = 0;
  check(MPI_Test(&outgoing_[ticket - oldest_sent_]->request, &done, MPI_STATUS_IGNORE),
        "MPI_Test of an envelope on its way");
  return done != 0;
}

bool Postbox::test_all_sent() {
  for (std::size_t i = 0; i < outgoing_.size(); ++i)
    if (!test_sent(oldest_sent_ + i)) return false;
  return true;
}

std::optional<Postbox::Mail> Postbox::take() {
  if (std::exchange(is_taken_, false)) {
    receive(*incoming_[oldest_]);
    oldest_ = (oldest_ + 1) % incoming_.size();
  }
  EnvelopeBuffer& buffer = *incoming_[oldest_];
  int done = 0;
  MPI_Status status;
  check(MPI_Test(&buffer.request, &done, &status), "MPI_Test of an envelope");
  if (done == 0) return std::nullopt;
  is_taken_ = true;
  int bytes = 0;
  check(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
  const auto view = std::span(buffer.bytes).first(static_cast<std::size_t>(bytes));
  Mail mail{.peer = core::Rank{status.MPI_SOURCE}, .envelope = {}, .payload = {}};
  if (view.size() < sizeof mail.envelope)
    throw core::Error(core::Errc::protocol,
                      "expected an envelope of at least " + std::to_string(sizeof mail.envelope) +
                          " bytes from rank " + std::to_string(mail.peer.value) + ", found " +
                          std::to_string(bytes) +
                          ": both jobs must use the same version of Tremula");
  std::memcpy(&mail.envelope, view.data(), sizeof mail.envelope);
  mail.payload = view.subspan(sizeof mail.envelope);
  return mail;
}

}  // namespace tremula::transport::mpi
