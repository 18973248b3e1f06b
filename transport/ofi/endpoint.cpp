// SPDX-License-Identifier: Apache-2.0
#include "transport/ofi/endpoint.hpp"

#include <sys/mman.h>
#include <sys/uio.h>

#include <algorithm>
#include <cassert>
#include <thread>
#include <utility>

namespace tremula::transport::ofi {

namespace {

/// Seconds that an operation has to end by itself once it is given up; then the link is closed.
constexpr double grace_seconds = 0.2;

/// Returns whether an error of libfabric means that the peer is gone.
bool means_a_loss(int error) {
  switch (error) {
    case FI_ECANCELED:  // not cancelled by us: its connection has ended
    case FI_ECONNREFUSED:
    case FI_ECONNRESET:
    case FI_ECONNABORTED:
    case FI_ENOTCONN:
    case FI_ESHUTDOWN:
    case FI_ETIMEDOUT:
    case FI_EHOSTUNREACH:
    case FI_EHOSTDOWN:
    case FI_ENETUNREACH:
    case EPIPE:
      return true;
    default:
      return false;
  }
}

/// Returns a sink; empty if the system does not grant that much address space, or if the provider
/// requires that it be registered.
Sink make_sink(const Provider& provider) {
  if ((provider.info->domain_attr->mr_mode & FI_MR_LOCAL) != 0) return {};
  void* at = mmap(nullptr, SinkTraits::bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return Sink(at == MAP_FAILED ? nullptr : at);
}

}  // namespace

void SinkTraits::close(Handle handle) noexcept { munmap(handle, bytes); }

std::optional<std::size_t> Operation::test() { return endpoint_.look_at(*this); }
void Operation::cancel() noexcept { endpoint_.give_up(*this); }
void Operation::release() noexcept {
  assert(state_ == State::finished || state_ == State::failed);
  registration_.reset();
  endpoint_.idle_.push_back(this);
}

Endpoint::Endpoint(const Provider& provider)
    : sink_(make_sink(provider)),
      port_(std::in_place, provider),
      provider_(port_->provider()),
      address_(port_->address()) {}

Endpoint::~Endpoint() { end_registrations(); }

void Endpoint::connect(std::span<const Address> peers, Deadline) {
  if (!port_)
    throw core::Error(core::Errc::transport,
                      "ofi: connect: the endpoint has closed: " + closed_reason_);
  for (const fi_addr_t address : port_->add(peers))
    peers_.push_back({.address = address, .text = port_->text_of(address)});
}

Request Endpoint::send(Rank peer, Tag tag, BytesView bytes) {
  return start(Kind::send, peer, tag, {const_cast<std::byte*>(bytes.data()), bytes.size()});
}

Request Endpoint::receive(Rank peer, Tag tag, std::span<std::byte> bytes) {
  return start(Kind::receive, peer, tag, bytes);
}

Request Endpoint::read(Rank peer, const RegionKey& region, std::size_t offset,
                       std::span<std::byte> bytes) {
  return start(Kind::read, peer, 0, bytes, {region[0] + offset, region[1]});
}

std::unique_ptr<MemoryRegion> Endpoint::register_memory(std::span<std::byte> bytes, Access access) {
  return port_ ? port_->memory().add(bytes, access) : nullptr;
}

Request Endpoint::start(Kind kind, Rank peer, Tag tag, std::span<std::byte> bytes,
                        const RegionKey& source) {
  core::expects(peer >= Rank{0} && core::at(peer) < peers_.size(),
                "ofi: the peer must be a rank of the connected group");
  if (idle_.empty()) {
    idle_.reserve(operations_.size() + 1);  // so that no release allocates
    idle_.push_back(&operations_.emplace_back(*this));
  }
  auto& operation = *idle_.back();
  idle_.pop_back();
  operation.kind_ = kind;
  operation.state_ = State::queued;
  operation.peer_ = peer;
  operation.tag_ = tag;
  operation.source_ = source;
  operation.data_ = bytes.data();
  operation.room_ = bytes.size();
  Request request(&operation);
  auto& queue = queue_of(operation);
  if (queue.first != nullptr || !post(operation)) {
    if (queue.first == nullptr) waiting_.push_back(&queue);
    queue.push(operation);
  }
  return request;
}

std::int64_t Endpoint::call(Operation& operation) noexcept {
  auto* endpoint = port_->endpoint();
  auto* context = &operation.context_;
  const auto peer = peer_of(operation).address;
  const std::array<iovec, 2> room{
      {{operation.data_, operation.room_}, {sink_.get(), SinkTraits::bytes}}};
  std::array<void*, 2> descriptors{operation.descriptor_, nullptr};
  switch (operation.kind_) {
    case Kind::send: {
      fi_msg_tagged message{};
      message.msg_iov = room.data();
      message.desc = descriptors.data();
      message.iov_count = 1;
      message.addr = peer;
      message.tag = operation.tag_;
      message.context = context;
      return fi_tsendmsg(
          endpoint, &message,
          FI_COMPLETION | (operation.room_ <= port_->inject_bytes() ? FI_INJECT : 0));
    }
    case Kind::receive:
      return fi_trecvv(endpoint, room.data(), descriptors.data(), sink_ ? 2 : 1, peer,
                       operation.tag_, 0, context);
    case Kind::read:
      break;
  }
  return fi_read(endpoint, operation.data_, operation.room_, operation.descriptor_, peer,
                 operation.source_[0], operation.source_[1], context);
}

bool Endpoint::post(Operation& operation) {
  if (!port_) return true;  // look_at reports why
  operation.descriptor_ =
      port_->memory().descriptor({operation.data_, operation.room_}, operation.registration_);
  const auto code = call(operation);
  if (code == -FI_EAGAIN) return false;
  operation.state_ = State::posted;
  if (code < 0) fail(operation, static_cast<int>(-code));
  return true;
}

void Endpoint::progress() {
  if (!port_) return;
  read_completions();
  post_queued();
}

void Endpoint::post_queued() {
  std::erase_if(waiting_, [this](Fifo* queue) {
    while (queue->first != nullptr && post(*queue->first)) queue->remove(*queue->first);
    return queue->first == nullptr;
  });
}

void Endpoint::Fifo::push(Operation& operation) noexcept {
  operation.next_ = nullptr;
  (first == nullptr ? first : last->next_) = &operation;
  last = &operation;
}

void Endpoint::Fifo::remove(const Operation& operation) noexcept {
  Operation* before = nullptr;
  for (auto* at = first; at != nullptr; before = std::exchange(at, at->next_)) {
    if (at != &operation) continue;
    (before == nullptr ? first : before->next_) = at->next_;
    if (last == at) last = before;
    return;
  }
}

void Endpoint::read_completions() {
  std::array<fi_cq_tagged_entry, 32> entries;
  for (;;) {
    const auto count = fi_cq_read(port_->completions(), entries.data(), entries.size());
    if (count == -FI_EAVAIL && read_error()) continue;
    if (count == -FI_EAGAIN || count == -FI_EAVAIL) return;
    check(count, "fi_cq_read");
    for (const auto& entry : std::span(entries).first(static_cast<std::size_t>(count))) {
      auto& operation = *static_cast<Operation::Context*>(entry.op_context)->owner;
      operation.state_ = State::finished;
      operation.bytes_ = operation.kind_ == Kind::receive ? entry.len : operation.room_;
      if (operation.bytes_ > operation.room_) {
        fail(operation, FI_ETRUNC);
        madvise(sink_.get(), SinkTraits::bytes, MADV_DONTNEED);
      }
    }
    if (static_cast<std::size_t>(count) < entries.size()) return;
  }
}

bool Endpoint::read_error() {
  fi_cq_err_entry entry{};
  if (fi_cq_readerr(port_->completions(), &entry, 0) <= 0) return false;
  if (entry.op_context == nullptr) return true;  // of a connection; its operations get their own
  auto& operation = *static_cast<Operation::Context*>(entry.op_context)->owner;
  operation.bytes_ = operation.room_ + entry.olen;
  fail(operation, entry.err);
  return true;
}

void Endpoint::fail(Operation& operation, int error) {
  const bool is_ours = operation.state_ == State::cancelling;
  operation.state_ = State::failed;
  operation.error_ = error;
  if (!is_ours && means_a_loss(error)) peer_of(operation).lost_by = error;
}

std::optional<std::size_t> Endpoint::look_at(Operation& operation) {
  if (operation.state_ == State::queued || operation.state_ == State::posted) progress();
  if (operation.state_ == State::finished) return operation.bytes_;
  if (operation.state_ == State::failed) throw error_of(operation);
  const int lost_by = peer_of(operation).lost_by;
  if (port_ && lost_by == 0) return std::nullopt;
  const auto error =
      port_ ? core::Error(
                  core::Errc::peer_lost,
                  describe(operation) + " ended, because the peer is lost: " + text_of(-lost_by))
            : core::Error(core::Errc::transport, describe(operation) + " ended: " + closed_reason_);
  give_up(operation);
  throw error;
}

core::Error Endpoint::error_of(const Operation& operation) const {
  if (operation.error_ == FI_ETRUNC && operation.kind_ == Kind::receive)
    return {core::Errc::transport,
            describe(operation) + ": expected a message of at most the length posted, found " +
                (operation.bytes_ > operation.room_
                     ? "one of " + std::to_string(operation.bytes_) + " bytes"
                     : "a longer one")};
  return {means_a_loss(operation.error_) ? core::Errc::peer_lost : core::Errc::transport,
          describe(operation) + " failed: " + text_of(-operation.error_)};
}

void Endpoint::give_up(Operation& operation) noexcept {
  if (operation.state_ == State::queued) {
    auto& queue = queue_of(operation);
    queue.remove(operation);
    if (queue.first == nullptr) std::erase(waiting_, &queue);
  } else if (operation.state_ == State::posted && port_) {
    operation.state_ = State::cancelling;
    fi_cancel(&port_->endpoint()->fid, &operation.context_);
    const auto deadline = Deadline::after(grace_seconds);
    try {
      while (operation.state_ == State::cancelling && !deadline.expired()) {
        read_completions();
        std::this_thread::yield();
      }
    } catch (...) {
      // no further completion can be read: close
    }
    if (operation.state_ == State::cancelling) {
      std::string reason;
      try {
        reason = "the link was closed because " + describe(operation) + " was given up";
      } catch (...) {
        reason = "out of memory";
      }
      close(std::move(reason));
    }
  }
  operation.state_ = State::finished;
}

// If the peer's processor has to answer, as over sockets, a read costs both sides as much as a
// message. Over tcp;ofi_rxm, a step read in runs of 128 KiB takes 1.6 times as long as a packed one,
// in runs of 256 KiB 1.4 times as long, and in runs of 512 KiB or more just as long (two producers,
// one consumer, two cores).
std::size_t Endpoint::shortest_read() const noexcept {
  const bool is_offloaded = port_ && port_->is_offloaded();
  return is_offloaded ? transport::Endpoint::shortest_read() : std::size_t{512} << 10;
}

void Endpoint::give_up() noexcept {
  if (port_) close("this side gave the link up");
}

void Endpoint::end_registrations() noexcept {
  if (port_) port_->memory().close();
  for (auto& operation : operations_) operation.registration_.reset();
}

bool Endpoint::has_stuck_receive() noexcept {
  std::vector<Operation*> cancelled;
  bool is_stuck = false;
  try {
    for (Operation& operation : operations_) {
      if (operation.kind_ != Kind::receive) continue;
      is_stuck = is_stuck || operation.state_ == State::cancelling;
      if (operation.state_ == State::posted) cancelled.push_back(&operation);
    }
    for (Operation* const operation : cancelled) {
      operation->state_ = State::cancelling;
      fi_cancel(&port_->endpoint()->fid, &operation->context_);
    }
    const auto is_cancelling = [](const auto* o) { return o->state_ == State::cancelling; };
    for (const auto deadline = Deadline::after(grace_seconds);
         std::ranges::any_of(cancelled, is_cancelling) && !deadline.expired();)
      read_completions();
    is_stuck = is_stuck || std::ranges::any_of(cancelled, is_cancelling);
  } catch (...) {
    is_stuck = true;
  }
  for (Operation* const operation : cancelled) operation->state_ = State::posted;
  return is_stuck;
}

void Endpoint::close(std::string reason) {
  end_registrations();
  if (!port_->is_offloaded() && has_stuck_receive()) port_->abandon();
  port_.reset();
  closed_reason_ = std::move(reason);
}

std::string Endpoint::describe(const Operation& operation) const {
  const auto bytes = std::to_string(operation.room_) + " bytes ";
  const auto at = address_text(operation.peer_);
  const auto rest = "rank " + std::to_string(operation.peer_.value) +
                    (at.empty() ? "" : " at " + at) + " over " + provider_;
  switch (operation.kind_) {
    case Kind::send:
      return "ofi: send of " + bytes + "to " + rest;
    case Kind::receive:
      return "ofi: receive of up to " + bytes + "from " + rest;
    case Kind::read:
      break;
  }
  return "ofi: read of " + bytes + "of the memory of " + rest;
}

}  // namespace tremula::transport::ofi
