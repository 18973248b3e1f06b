// SPDX-License-Identifier: Apache-2.0
#include "transport/local/hybrid.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>

#include "transport/local/endpoint.hpp"

namespace tremula::transport {

namespace {

using core::Errc, core::Error;

constexpr std::string_view prefix = "local+";
constexpr std::size_t longest_address = 4096;

/// Identity of the machine, address on that machine, address for other machines. On the wire, each
/// part is preceded by its length.
using AddressParts = std::array<Bytes, 3>;

Address joined(const AddressParts& parts) {
  Address address;
  for (const Bytes& part : parts) {
    const auto bytes = static_cast<std::uint32_t>(part.size());
    const auto length = std::as_bytes(std::span(&bytes, 1));
    address.insert(address.end(), length.begin(), length.end());
    address.insert(address.end(), part.begin(), part.end());
  }
  if (address.size() > longest_address)
    throw Error(Errc::internal, fmt::format("local: expected addresses of at most {} bytes, found "
                                            "{}: choose an offer without '{}'",
                                            longest_address, address.size(), prefix));
  return address;
}

AddressParts parts_of(BytesView address, Rank rank) {
  AddressParts parts;
  for (Bytes& part : parts) {
    std::uint32_t bytes = 0;
    if (address.size() >= sizeof bytes) std::memcpy(&bytes, address.data(), sizeof bytes);
    if (address.size() < sizeof bytes || bytes > address.size() - sizeof bytes)
      throw Error(Errc::transport,
                  fmt::format("local: expected two addresses of rank {} of the other side, found "
                              "other bytes",
                              rank.value));
    const auto found = address.subspan(sizeof bytes, bytes);
    part.assign(found.begin(), found.end());
    address = address.subspan(sizeof bytes + bytes);
  }
  return parts;
}

/// Returns the other transport's part of an offer.
std::string_view far_part(std::string_view offer) {
  return offer.starts_with(prefix) ? offer.substr(prefix.size()) : offer;
}

Bytes bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

class HybridEndpoint;

/// A request of either transport. Its test() makes progress on both transports, so that a caller may
/// wait for this request only.
class HybridOperation final : public Operation {
public:
  explicit HybridOperation(HybridEndpoint& endpoint) : endpoint_(endpoint) {}
  std::optional<std::size_t> test() override;
  void cancel() noexcept override { request.reset(); }
  void release() noexcept override;

  Request request;

private:
  HybridEndpoint& endpoint_;
};

class HybridEndpoint final : public Endpoint {
public:
  HybridEndpoint(Side side, std::unique_ptr<Endpoint> far, const std::string& identity)
      : identity_(bytes_of(identity)), near_(side), far_(std::move(far)) {}

  Address address() const override { return joined({identity_, near_.address(), far_->address()}); }

  void connect(std::span<const Address> peers, Deadline deadline) override {
    std::vector<Address> here, everywhere;
    std::vector<Rank> ranks_here, far_ranks;
    for (const Rank rank : core::all_ranks(static_cast<core::RankCount>(peers.size()))) {
      auto [identity, near, far] = parts_of(peers[core::at(rank)], rank);
      everywhere.push_back(std::move(far));
      if (identity != identity_) {
        far_ranks.push_back(rank);
        continue;
      }
      here.push_back(std::move(near));
      ranks_here.push_back(rank);
    }
    std::vector<local::Endpoint::Neighbour> neighbours;
    neighbours.reserve(here.size());
    for (std::size_t i = 0; i < here.size(); ++i) neighbours.push_back({ranks_here[i], here[i]});
    near_.connect_some(neighbours, deadline);
    far_->connect(everywhere, deadline);  // to all ranks: it may be collective
    has_near_ = !here.empty();
    has_far_ = here.size() < peers.size();
    if (has_far_)
      far_->expect_only(far_ranks);
    else
      far_->give_up();  // closes the port at which it listens
  }
  void stop_connecting() noexcept override {
    near_.stop_connecting();
    far_->stop_connecting();
  }
  void expect_only(std::span<const Rank> peers) override {
    std::vector<Rank> far;
    std::ranges::copy_if(peers, std::back_inserter(far), [this](Rank p) { return !is_near(p); });
    far_->expect_only(far);
  }

  Request send(Rank peer, Tag tag, BytesView bytes) override {
    return wrap(is_near(peer) ? near_.send(peer, tag, bytes) : far_->send(peer, tag, bytes));
  }
  Request receive(Rank peer, Tag tag, std::span<std::byte> bytes) override {
    return wrap(is_near(peer) ? near_.receive(peer, tag, bytes) : far_->receive(peer, tag, bytes));
  }
  std::unique_ptr<MemoryRegion> register_memory(std::span<std::byte> bytes,
                                                Access access) override {
    return has_far_ ? far_->register_memory(bytes, access) : nullptr;
  }
  Request read(Rank peer, const RegionKey& region, std::size_t offset,
               std::span<std::byte> bytes) override {
    return wrap(far_->read(peer, region, offset, bytes));
  }
  std::size_t shortest_read() const noexcept override { return far_->shortest_read(); }
  void give_up() noexcept override { far_->give_up(); }
  void progress() override {
    near_.progress();
    if (has_far_) far_->progress();
  }
  int wake_descriptor() const noexcept override { return has_near_ ? -1 : far_->wake_descriptor(); }
  bool is_near(Rank peer) const noexcept override { return near_.is_near(peer); }
  bool needs_calls(Rank peer) const noexcept override {
    return is_near(peer) ? near_.needs_calls(peer) : far_->needs_calls(peer);
  }
  bool has_ended(Rank peer) const noexcept override { return near_.has_ended(peer); }
  bool is_stopped(Rank peer) const noexcept override { return near_.is_stopped(peer); }
  std::string address_text(Rank peer) const override {
    return is_near(peer) ? near_.address_text(peer) : far_->address_text(peer);
  }
  bool survives_lost_peers() const noexcept override { return far_->survives_lost_peers(); }

private:
  friend class HybridOperation;

  Request wrap(Request request) {
    if (!has_near_ || !has_far_) return request;
    if (idle_.empty()) {
      idle_.reserve(operations_.size() + 1);
      idle_.push_back(&operations_.emplace_back(*this));
    }
    HybridOperation& operation = *idle_.back();
    idle_.pop_back();
    operation.request = std::move(request);
    return Request(&operation);
  }

  Bytes identity_;
  local::Endpoint near_;
  std::unique_ptr<Endpoint> far_;
  bool has_near_ = false, has_far_ = false;
  std::deque<HybridOperation> operations_;  // a deque, so that operations never move
  std::vector<HybridOperation*> idle_;
};

std::optional<std::size_t> HybridOperation::test() {
  if (!request.test()) {
    endpoint_.progress();
    if (!request.test()) return std::nullopt;
  }
  return request.bytes();
}

void HybridOperation::release() noexcept {
  request = Request();
  endpoint_.idle_.push_back(this);
}

}  // namespace

HybridTransport::HybridTransport(std::unique_ptr<Transport> far, std::string identity)
    : far_(std::move(far)), identity_(std::move(identity)) {}

std::vector<std::string> HybridTransport::offers() const {
  const auto far = far_->offers();
  std::vector<std::string> offers;
  offers.reserve(2 * far.size());
  for (const auto& offer : far) offers.push_back(std::string(prefix) + offer);
  offers.insert(offers.end(), far.begin(), far.end());
  return offers;
}

bool HybridTransport::has_choices(std::string_view offer) const {
  return far_->has_choices(far_part(offer));
}

std::vector<std::string> HybridTransport::choices(std::string_view offer) {
  auto choices = far_->choices(far_part(offer));
  if (offer.starts_with(prefix))
    for (auto& choice : choices) choice.insert(0, prefix);
  return choices;
}

std::unique_ptr<Endpoint> HybridTransport::open(std::string_view offer, Side side) {
  auto far = far_->open(far_part(offer), side);
  if (!offer.starts_with(prefix)) return far;
  return std::make_unique<HybridEndpoint>(side, std::move(far), identity_);
}

}  // namespace tremula::transport
