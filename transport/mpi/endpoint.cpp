// SPDX-License-Identifier: Apache-2.0
#include "transport/mpi/endpoint.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <thread>

#include "core/error.hpp"
#include "transport/mpi/call.hpp"
#include "transport/mpi/connect.hpp"

namespace tremula::transport::mpi {

using core::Deadline, core::Errc, core::Error, core::Rank;
using Kind = Envelope::Kind;

namespace {

constexpr std::size_t chunk_bytes = std::size_t{1} << 30;
/// Prefix of a port's name in an address; no address of another transport begins with it.
constexpr std::string_view address_prefix = "mpi-port:";

/// Returns the MPI tag of the chunks of a long message. Messages with equal tags are 32000 apart.
int chunk_tag(std::uint32_t number) {
  return Postbox::mpi_tag + 1 + static_cast<int>(number % 32000);
}

void nap() { std::this_thread::sleep_for(std::chrono::microseconds(50)); }

}  // namespace

/// One message to send or to receive.
class Endpoint::Transfer final : public Operation {
public:
  explicit Transfer(Endpoint& endpoint) : endpoint_(endpoint) {}

  void begin(bool is_send, Rank peer, Tag tag, std::span<std::byte> bytes) {
    state_ = State::waiting;
    is_send_ = is_send;
    is_ended_ = false;
    peer_ = peer;
    tag_ = tag;
    bytes_ = bytes;
    failure_.clear();
  }

  std::optional<std::size_t> test() override {
    endpoint_.handle_mail();
    advance();
    if (!failure_.empty()) throw Error(Errc::transport, failure_);
    if (state_ != State::finished) return std::nullopt;
    return length_;
  }

  void cancel() noexcept override {
    if (state_ == State::waiting && !is_send_)
      std::erase(endpoint_.lanes_[{peer_, tag_}].receives, this);
    if (state_ == State::moving && is_running()) take_chunks_back();
  }

  void release() noexcept override {
    std::erase(endpoint_.long_ones_, this);
    endpoint_.idle_.push_back(this);
  }

  bool is(bool is_send, Rank peer, std::uint32_t number) const {
    return is_send_ == is_send && peer_ == peer && number_ == number;
  }
  bool is_waiting() const { return state_ == State::waiting; }
  Rank peer() const { return peer_; }
  std::span<std::byte> bytes() const { return bytes_; }
  /// Returns e.g. "from rank 3 with tag 2".
  std::string name() const {
    return (is_send_ ? "to rank " : "from rank ") + std::to_string(peer_.value) + " with tag " +
           std::to_string(tag_);
  }

  /// Marks the message as a long one, number `number` between its two ranks.
  void announce(std::uint32_t number) {
    number_ = number;
    endpoint_.long_ones_.push_back(this);
  }

  /// Hands the bytes of the message to MPI. Called once both sides are ready.
  void move(std::size_t length) {
    state_ = State::moving;
    length_ = length;
    const int tag = chunk_tag(number_);
    chunks_.clear();
    for (std::size_t at = 0; at < length; at += chunk_bytes) {
      const int count = static_cast<int>(std::min(chunk_bytes, length - at));
      std::byte* chunk = bytes_.data() + at;
      MPI_Request& request = chunks_.emplace_back(MPI_REQUEST_NULL);
      if (is_send_)
        check(MPI_Isend(chunk, count, MPI_BYTE, peer_.value, tag, endpoint_.link_, &request),
              "MPI_Isend " + name());
      else
        check(MPI_Irecv(chunk, count, MPI_BYTE, peer_.value, tag, endpoint_.link_, &request),
              "MPI_Irecv " + name());
    }
  }

  /// Finishes the transfer if MPI has moved all chunks.
  void advance() {
    if (state_ == State::posted && endpoint_.post_->test_sent(ticket_)) finish(bytes_.size());
    if (state_ != State::moving) return;
    int done = 0;
    check(MPI_Testall(static_cast<int>(chunks_.size()), chunks_.data(), &done, MPI_STATUSES_IGNORE),
          "MPI_Testall of a message " + name());
    if (done == 0) return;
    if (is_send_)
      endpoint_.post_->send(peer_,
                            {.kind = Kind::end, .number = number_, .tag = tag_, .length = length_});
    if (is_send_ || is_ended_) finish(length_);
  }

  /// Records the sender's report that its bytes stayed valid until all of them had been sent.
  void end() {
    is_ended_ = true;
    advance();
  }

  /// Records that an envelope carries the complete message.
  void post(Postbox::Ticket ticket) {
    state_ = State::posted;
    ticket_ = ticket;
  }

  void finish(std::size_t length) {
    state_ = State::finished;
    length_ = length;
  }
  void fail(std::string text) {
    state_ = State::finished;
    failure_ = std::move(text);
  }

private:
  enum class State { waiting, posted, moving, finished };

  void take_chunks_back() noexcept {
    using Clock = std::chrono::steady_clock;
    for (auto& chunk : chunks_)
      if (chunk != MPI_REQUEST_NULL) MPI_Cancel(&chunk);
    const auto began = Clock::now();
    const auto deadline = Deadline::after(endpoint_.take_back_seconds_);
    int done = 0;
    while (MPI_Testall(static_cast<int>(chunks_.size()), chunks_.data(), &done,
                       MPI_STATUSES_IGNORE) == MPI_SUCCESS &&
           done == 0 && !deadline.expired())
      nap();
    endpoint_.take_back_seconds_ -= std::chrono::duration<double>(Clock::now() - began).count();
    if (done == 0) ++endpoint_.abandoned_;
  }

  Endpoint& endpoint_;
  State state_ = State::waiting;
  bool is_send_ = false;
  bool is_ended_ = false;  // end() was called
  Rank peer_;
  Tag tag_ = 0;
  std::span<std::byte> bytes_;  // to send, or room to receive in
  Postbox::Ticket ticket_ = 0;
  std::uint32_t number_ = 0;
  std::size_t length_ = 0;  // length of the message, once it is known
  std::vector<MPI_Request> chunks_;
  std::string failure_;
};

Endpoint::Endpoint(MPI_Comm local, Side side, const core::Log* log)
    : local_(local), side_(side), log_(log) {
  int rank = 0;
  check(MPI_Comm_rank(local_, &rank), "MPI_Comm_rank");
  if (side_ == Side::consumer || rank != 0) return;
  std::array<char, MPI_MAX_PORT_NAME + 1> port{};
  check(MPI_Open_port(MPI_INFO_NULL, port.data()), "MPI_Open_port");
  port_ = port.data();
}

Endpoint::~Endpoint() {
  if (!is_running()) {  // MPI may no longer be called
    static_cast<void>(post_.release());
    return;
  }
  if (!port_.empty()) MPI_Close_port(port_.c_str());
  if (link_ == MPI_COMM_NULL) return;
  const bool is_clean = exchange_goodbyes();
  post_.reset();
  if (is_clean) {
    MPI_Comm_free(&link_);
    return;
  }
  free_at_finalize(link_);
  if (log_ == nullptr) return;
  const auto silent =
      std::ranges::count_if(peers_, [](const Peer& p) { return p.is_partner && !p.has_left; });
  try {
    log_->info("transport",
               "mpi link kept until MPI_Finalize silent_peers=" + std::to_string(silent) +
                   " unfinished_messages=" + std::to_string(abandoned_));
  } catch (...) {  // out of memory: the line is left out
  }
}

bool Endpoint::exchange_goodbyes() {
  if (abandoned_ != 0 || post_ == nullptr) return false;  // null if connect() has failed
  try {
    const auto deadline = Deadline::after(0.5);
    for (;;) {
      bool is_over = true;
      for (const Rank rank : core::all_ranks(static_cast<core::RankCount>(peers_.size()))) {
        Peer& peer = peers_[core::at(rank)];
        if (!peer.is_partner) continue;
        if (!std::exchange(peer.was_sent_goodbye, true)) post_->send(rank, {.kind = Kind::goodbye});
        is_over = is_over && peer.has_left;
      }
      if (is_over && post_->test_all_sent()) return true;
      if (deadline.expired()) return false;
      handle_mail();
      nap();
    }
  } catch (...) {  // a link that has failed is also kept
    return false;
  }
}

Address Endpoint::address() const {
  if (port_.empty()) return {};
  const std::string text = std::string(address_prefix) + port_;
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

void Endpoint::connect(std::span<const Address> peers, Deadline deadline) {
  core::expects(link_ == MPI_COMM_NULL, "expected connect to be called once, found a second call");
  std::string port = port_;
  if (side_ == Side::consumer) {
    if (!peers.empty())
      port.assign(reinterpret_cast<const char*>(peers[0].data()), peers[0].size());
    if (!port.starts_with(address_prefix))
      throw Error(
          Errc::transport,
          "expected the name of an MPI port as the address of the producer's rank 0, found " +
              std::to_string(port.size()) + " other bytes: both sides must use the mpi transport");
    port.erase(0, address_prefix.size());
  }
  link_ = connect_groups(local_, side_, port, deadline);
  int ranks = 0;
  check(MPI_Comm_remote_size(link_, &ranks), "MPI_Comm_remote_size");
  if (static_cast<std::size_t>(ranks) != peers.size())
    throw Error(Errc::transport, "expected " + std::to_string(peers.size()) +
                                     " ranks in the other group, found " + std::to_string(ranks) +
                                     " at port " + port);
  peers_.resize(peers.size());
  post_ = std::make_unique<Postbox>(link_);
}

Endpoint::Peer& Endpoint::partner(Rank peer) {
  core::expects(post_ != nullptr, "expected a connected endpoint, found none: call connect first");
  core::expects(peer >= Rank{0} && core::at(peer) < peers_.size(),
                "expected a rank of the other group, 0 to " + std::to_string(peers_.size() - 1) +
                    ", found " + std::to_string(peer.value));
  Peer& found = peers_[core::at(peer)];
  found.is_partner = true;
  return found;
}

Endpoint::Transfer& Endpoint::idle_transfer() {
  if (idle_.empty()) {
    idle_.reserve(transfers_.size() + 1);  // so that no release allocates
    idle_.push_back(transfers_.emplace_back(std::make_unique<Transfer>(*this)).get());
  }
  Transfer* transfer = idle_.back();
  idle_.pop_back();
  return *transfer;
}

Request Endpoint::send(Rank peer, Tag tag, core::BytesView bytes) {
  std::uint32_t& announced = partner(peer).announced;
  Transfer& transfer = idle_transfer();
  Request request(&transfer);
  // A send only reads, but transfers in both directions are of one type.
  transfer.begin(true, peer, tag, {const_cast<std::byte*>(bytes.data()), bytes.size()});
  if (bytes.size() <= Postbox::short_bytes) {
    transfer.post(post_->send(
        peer, {.kind = Kind::message, .number = 0, .tag = tag, .length = bytes.size()}, bytes));
  } else {
    const std::uint32_t number = announced++;
    transfer.announce(number);
    post_->send(peer,
                {.kind = Kind::announce, .number = number, .tag = tag, .length = bytes.size()});
  }
  return request;
}

Request Endpoint::receive(Rank peer, Tag tag, std::span<std::byte> bytes) {
  partner(peer);
  Transfer& transfer = idle_transfer();
  Request request(&transfer);
  transfer.begin(false, peer, tag, bytes);
  Lane& lane = lanes_[{peer, tag}];
  if (lane.arrivals.empty()) {
    lane.receives.push_back(&transfer);
  } else {
    const auto arrival = std::move(lane.arrivals.front());
    lane.arrivals.pop_front();
    match(transfer, arrival.envelope, arrival.payload);
  }
  return request;
}

void Endpoint::progress() {
  if (post_ == nullptr) return;
  handle_mail();
  for (Transfer* transfer : long_ones_) transfer->advance();
}

void Endpoint::handle_mail() {
  expect_running();
  while (const auto mail = post_->take()) handle(*mail);
}

void Endpoint::handle(const Postbox::Mail& mail) {
  const auto& [peer, envelope, payload] = mail;
  Peer& sender = partner(peer);
  if (envelope.kind == Kind::message && envelope.length != payload.size())
    throw Error(Errc::protocol, "expected an envelope with a message of " +
                                    std::to_string(envelope.length) + " bytes from rank " +
                                    std::to_string(peer.value) + ", found one of " +
                                    std::to_string(payload.size()) +
                                    ": both jobs must use the same version of Tremula");
  switch (envelope.kind) {
    case Kind::message:
    case Kind::announce: {
      Lane& lane = lanes_[{peer, envelope.tag}];
      if (lane.receives.empty()) {
        lane.arrivals.push_back({envelope, {payload.begin(), payload.end()}});
        return;
      }
      Transfer& receive = *lane.receives.front();
      lane.receives.pop_front();
      match(receive, envelope, payload);
      return;
    }
    case Kind::ready:  // none is found for a send that was given up
      if (Transfer* send = find_waiting_send(peer, envelope.number))
        send->move(send->bytes().size());
      return;
    case Kind::refuse:
      if (Transfer* send = find_waiting_send(peer, envelope.number))
        send->fail("the receiver of a message " + send->name() + " expected at most " +
                   std::to_string(envelope.length) + " bytes, found " +
                   std::to_string(send->bytes().size()) + ": both sides must have the same plan");
      return;
    case Kind::end:
      if (Transfer* receive = find(false, peer, envelope.number)) receive->end();
      return;
    case Kind::goodbye:
      sender.has_left = true;
      return;
  }
  throw Error(Errc::protocol, "expected an envelope of a known kind from rank " +
                                  std::to_string(peer.value) + ", found one of kind " +
                                  std::to_string(static_cast<std::uint32_t>(envelope.kind)) +
                                  ": both jobs must use the same version of Tremula");
}

void Endpoint::match(Transfer& receive, const Envelope& envelope, core::BytesView payload) {
  const std::size_t room = receive.bytes().size();
  const bool is_long = envelope.kind == Kind::announce;
  if (envelope.length > room) {
    receive.fail("expected a message " + receive.name() + " of at most " + std::to_string(room) +
                 " bytes, found one of " + std::to_string(envelope.length) +
                 ": both sides must have the same plan");
    if (is_long)
      post_->send(
          receive.peer(),
          {.kind = Kind::refuse, .number = envelope.number, .tag = envelope.tag, .length = room});
  } else if (is_long) {
    receive.announce(envelope.number);
    receive.move(envelope.length);
    post_->send(receive.peer(), {.kind = Kind::ready,
                                 .number = envelope.number,
                                 .tag = envelope.tag,
                                 .length = envelope.length});
  } else {
    std::ranges::copy(payload, receive.bytes().begin());
    receive.finish(payload.size());
  }
}

Endpoint::Transfer* Endpoint::find(bool is_send, Rank peer, std::uint32_t number) const {
  const auto it = std::ranges::find_if(
      long_ones_, [&](const Transfer* t) { return t->is(is_send, peer, number); });
  return it == long_ones_.end() ? nullptr : *it;
}

Endpoint::Transfer* Endpoint::find_waiting_send(Rank peer, std::uint32_t number) const {
  Transfer* const send = find(true, peer, number);
  return send != nullptr && send->is_waiting() ? send : nullptr;
}

}  // namespace tremula::transport::mpi
