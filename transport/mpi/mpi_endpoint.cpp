// SPDX-License-Identifier: Apache-2.0
#include "transport/mpi/mpi_endpoint.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <thread>

#include "core/error.hpp"
#include "transport/mpi/mpi_call.hpp"
#include "transport/mpi/mpi_connect.hpp"

namespace tremula::transport::mpi {

using core::Deadline, core::Errc, core::Error, core::Rank;

/// One message, in whole or in part on its way.
class Endpoint::Transfer final : public Operation {
public:
  void start(Endpoint& endpoint, Direction direction, Rank peer, int tag, std::byte* bytes,
             std::size_t count) {
    endpoint_ = &endpoint;
    direction_ = direction;
    peer_ = peer;
    tag_ = tag;
    bytes_ = bytes;
    count_ = count;
    moved_ = 0;
    post(tag);
  }

  std::optional<std::size_t> test() override {
    if (!failure_.empty()) throw Error(Errc::transport, std::exchange(failure_, {}));
    while (request_ != MPI_REQUEST_NULL || is_next_in_line()) {
      if (request_ == MPI_REQUEST_NULL) post(tag_ + static_cast<int>(tag_limit));
      int done = 0;
      MPI_Status status;
      const int code = MPI_Test(&request_, &done, &status);
      if (code != MPI_SUCCESS) fail(code);
      if (done == 0) return std::nullopt;
      const std::size_t chunk = direction_ == Direction::send ? room() : arrived(status);
      moved_ += chunk;
      if (chunk < endpoint_->chunk_bytes_) return moved_;
    }
    return std::nullopt;
  }

  /// As test, for somebody who has no use for an error.
  void advance() noexcept {
    try {
      test();
    } catch (const std::exception& error) {
      failure_ = error.what();
    }
  }

  void cancel() noexcept override {
    if (is_long()) endpoint_->spoilt_ = "a long message " + name() + " was given up";
    if (request_ == MPI_REQUEST_NULL) return;
    MPI_Cancel(&request_);
    using Clock = std::chrono::steady_clock;
    const auto began = Clock::now();
    const auto deadline = Deadline::after(endpoint_->patience_);
    int done = 0;
    while (MPI_Test(&request_, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done == 0) {
      if (deadline.expired()) {
        ++endpoint_->abandoned_;
        break;
      }
      std::this_thread::yield();
    }
    endpoint_->patience_ -= std::chrono::duration<double>(Clock::now() - began).count();
    request_ = MPI_REQUEST_NULL;
  }

  void release() noexcept override {
    std::erase(endpoint_->long_ones_, this);
    endpoint_->idle_.push_back(this);
  }

  bool is_long() const noexcept { return count_ >= endpoint_->chunk_bytes_; }

private:
  std::size_t room() const { return std::min(endpoint_->chunk_bytes_, count_ - moved_); }
  std::string name() const {
    return (direction_ == Direction::send ? "to rank " : "from rank ") + std::to_string(peer_) +
           " with tag " + std::to_string(tag_);
  }
  bool is_next_in_line() const {
    const auto same_line = [this](const Transfer* other) {
      return other->direction_ == direction_ && other->peer_ == peer_ && other->tag_ == tag_;
    };
    return *std::ranges::find_if(endpoint_->long_ones_, same_line) == this;
  }
  void post(int tag) {
    const int bytes = static_cast<int>(room());
    if (direction_ == Direction::send)
      check(MPI_Isend(bytes_ + moved_, bytes, MPI_BYTE, peer_, tag, endpoint_->link_, &request_),
            "MPI_Isend " + name());
    else
      check(MPI_Irecv(bytes_ + moved_, bytes, MPI_BYTE, peer_, tag, endpoint_->link_, &request_),
            "MPI_Irecv " + name());
  }
  static std::size_t arrived(const MPI_Status& status) {
    int bytes = 0;
    check(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
    return static_cast<std::size_t>(bytes);
  }
  [[noreturn]] void fail(int code) {
    request_ = MPI_REQUEST_NULL;
    int kind = code;
    MPI_Error_class(code, &kind);
    if (kind != MPI_ERR_TRUNCATE) check(code, "MPI_Test of a message " + name());
    endpoint_->spoilt_ = "a message " + name() + " was longer than its receiver expected";
    throw Error(Errc::transport,
                "expected a message " + name() + " of at most " + std::to_string(count_) +
                    " bytes, found a longer one: both sides must have the same plan; open the "
                    "stream again on both sides");
  }

  Endpoint* endpoint_ = nullptr;
  Direction direction_ = Direction::send;
  Rank peer_ = 0;
  int tag_ = 0;
  std::byte* bytes_ = nullptr;
  std::size_t count_ = 0;                   // bytes to send, or posted for receiving
  std::size_t moved_ = 0;                   // bytes of the chunks that have finished
  MPI_Request request_ = MPI_REQUEST_NULL;  // of the chunk in flight
  std::string failure_;                     // found by advance(), to be thrown by test()
};

Endpoint::Endpoint(MPI_Comm local, Side side, std::size_t chunk_bytes, const core::Log* log)
    : local_(local), side_(side), chunk_bytes_(chunk_bytes), log_(log) {
  int rank = 0;
  check(MPI_Comm_rank(local_, &rank), "MPI_Comm_rank");
  if (side_ == Side::consumer || rank != 0) return;
  std::array<char, MPI_MAX_PORT_NAME + 1> port{};
  check(MPI_Open_port(MPI_INFO_NULL, port.data()), "MPI_Open_port");
  port_ = port.data();
}

Endpoint::~Endpoint() {
  if (!port_.empty()) MPI_Close_port(port_.c_str());
  if (link_ == MPI_COMM_NULL) return;
  const bool is_clean = abandoned_ == 0 && disconnect_groups(link_, 0.4);
  if (!is_clean && log_ != nullptr)
    log_->warn("transport", "mpi link left behind operations=" + std::to_string(abandoned_) +
                                " because the other group is gone or does not answer");
}

Address Endpoint::address() const {
  const auto bytes = std::as_bytes(std::span(port_));
  return {bytes.begin(), bytes.end()};
}

void Endpoint::connect(std::span<const Address> peers, Deadline deadline) {
  core::expects(link_ == MPI_COMM_NULL, "expected connect to be called once, found a second call");
  std::string port = port_;
  if (side_ == Side::consumer) {
    if (peers.empty() || peers[0].empty())
      throw Error(Errc::transport,
                  "expected the name of an MPI port as the address of the producer's rank 0, found "
                  "none: both sides "
                  "must use the mpi transport");
    port.assign(reinterpret_cast<const char*>(peers[0].data()), peers[0].size());
  }
  link_ = connect_groups(local_, side_, port, deadline);
  check(MPI_Comm_remote_size(link_, &peers_), "MPI_Comm_remote_size");
  if (static_cast<std::size_t>(peers_) != peers.size())
    throw Error(Errc::transport, "expected " + std::to_string(peers.size()) +
                                     " ranks in the other group, found " + std::to_string(peers_) +
                                     " at port " + port);
}

Request Endpoint::start(Direction direction, Rank peer, Tag tag, std::byte* bytes,
                        std::size_t count) {
  core::expects(link_ != MPI_COMM_NULL,
                "expected a connected endpoint, found none: call connect first");
  core::expects(peer >= 0 && peer < peers_, "expected a peer from 0 to " +
                                                std::to_string(peers_ - 1) + ", found " +
                                                std::to_string(peer));
  core::expects(tag < tag_limit, "expected a tag below " + std::to_string(tag_limit) + ", found " +
                                     std::to_string(tag));
  if (count >= chunk_bytes_ && !spoilt_.empty())
    throw Error(Errc::transport,
                "expected an undisturbed link, but " + spoilt_ + ": open the stream again");
  if (idle_.empty()) idle_.push_back(transfers_.emplace_back(std::make_unique<Transfer>()).get());
  Transfer* transfer = idle_.back();
  transfer->start(*this, direction, peer, static_cast<int>(tag), bytes, count);
  idle_.pop_back();
  if (transfer->is_long()) long_ones_.push_back(transfer);
  return Request(transfer);
}

Request Endpoint::send(Rank peer, Tag tag, core::BytesView bytes) {
  // MPI_Isend reads only, but both directions share one description.
  return start(Direction::send, peer, tag, const_cast<std::byte*>(bytes.data()), bytes.size());
}

Request Endpoint::receive(Rank peer, Tag tag, std::span<std::byte> bytes) {
  return start(Direction::receive, peer, tag, bytes.data(), bytes.size());
}

void Endpoint::progress() {
  for (Transfer* transfer : long_ones_) transfer->advance();
  int found = 0;
  if (link_ != MPI_COMM_NULL)
    check(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, link_, &found, MPI_STATUS_IGNORE), "MPI_Iprobe");
}

}  // namespace tremula::transport::mpi
