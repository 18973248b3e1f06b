// SPDX-License-Identifier: Apache-2.0
#pragma once
// One rank's end of a link over TCP. Private to this folder.
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transport/tcp/introduction.hpp"
#include "transport/tcp/operation.hpp"
#include "transport/tcp/peer.hpp"
#include "transport/tcp/regions.hpp"

namespace tremula::transport::tcp {

class Endpoint final : public transport::Endpoint {
public:
  /// @param host_port  address of this rank, without a port
  Endpoint(Side side, const HostPort& host_port);
  ~Endpoint() override;

  Address address() const override { return own_.encode(); }
  /// Does not block: a consumer connects to a peer with the first operation that needs it, and
  /// operations wait for the connection.
  void connect(std::span<const Address> peers, Deadline deadline) override;
  void expect_only(std::span<const Rank> peers) override;
  Request send(Rank peer, Tag tag, BytesView bytes) override;
  Request receive(Rank peer, Tag tag, std::span<std::byte> bytes) override;
  std::unique_ptr<MemoryRegion> register_memory(std::span<std::byte> bytes, Access access) override;
  Request read(Rank peer, const RegionKey& region, std::size_t offset,
               std::span<std::byte> bytes) override;
  std::size_t shortest_read() const noexcept override;
  void give_up() noexcept override;
  void progress() override;
  /// Returns -1 while bytes are moving: sleeping would cost more than polling.
  int wake_descriptor() const noexcept override {
    return looked_ - moved_ < std::chrono::milliseconds(1) ? -1 : epoll_.get();
  }
  std::string address_text(Rank peer) const override {
    return connections_[core::at(peer)].peer.text();
  }
  /// Returns how many connections were closed because they did not prove that they come from a rank
  /// of the link.
  std::uint64_t rejected() const noexcept {
    return rejected_ + (listener_ ? listener_->rejected() : 0);
  }

private:
  friend class Operation;
  friend class Regions;
  using Clock = std::chrono::steady_clock;

  struct Connection {
    Peer peer;
    RankAddress address;
    std::unique_ptr<ConnectionAttempt> attempt{};  // null while no attempt is under way
    bool has_begun_connecting = false;
    bool is_connecting = false;  // has begun, and has neither succeeded nor failed
    Clock::time_point next_attempt{};
    Clock::duration pause{};  // before the next attempt
  };

  bool is_rank(Rank peer) const noexcept {
    return peer >= Rank{0} && core::at(peer) < connections_.size();
  }
  Request start(Operation::Kind kind, Rank peer, Tag tag, std::span<std::byte> bytes,
                const RegionKey& region = {}, std::uint64_t offset = 0);
  std::optional<std::size_t> test(Operation& operation);
  void give_up(Operation& operation) noexcept;
  void release(Operation& operation) noexcept { pool_.release(operation); }
  core::Error error_of(const Operation& operation) const;
  std::string describe(const Operation& operation) const;

  // A peer that cannot be connected is lost; the others are not affected.
  void begin_attempt(Connection& connection) noexcept;
  void continue_attempt(Connection& connection) noexcept;
  void advance_attempt(Connection& connection);
  /// @param text  readable address of the peer; if empty, the address at the far end of the socket
  void connect_to(Connection& connection, Descriptor socket, std::string text) noexcept;
  void retry_connecting() noexcept;
  void end_connecting(Connection& connection) noexcept;
  void handle_listener();
  void close_listener() noexcept;
  void end_serving(std::uint64_t region) noexcept;

  Side side_;
  Descriptor epoll_;
  RankAddress own_;
  std::unique_ptr<Listener> listener_;  // on a producer, until all peers it expects have connected
  std::uint64_t rejected_ = 0;
  Pool pool_{*this};
  std::shared_ptr<Regions> regions_;      // shared with its regions, which may outlive the endpoint
  PeerLimits limits_;                     // the same for every peer
  std::deque<Connection> connections_;    // index = rank
  std::size_t connecting_ = 0;            // how many of them are connecting
  Clock::time_point looked_{}, moved_{};  // last progress(), and the last that found events
};

}  // namespace tremula::transport::tcp
