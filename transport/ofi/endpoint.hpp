// SPDX-License-Identifier: Apache-2.0
#pragma once
// One rank's end of a link over libfabric. Private to this folder.
#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "transport/ofi/port.hpp"
#include "transport/transport.hpp"

namespace tremula::transport::ofi {

class Endpoint;

/// A send, a receive or a read. After release(), the endpoint keeps the object for the next
/// operation.
///
///   queued ──> posted ──> finished | failed      queued: libfabric had no room for it yet
///     └──────────┴──> given up
class Operation final : public transport::Operation {
public:
  enum class Kind { send, receive, read };

  explicit Operation(Endpoint& endpoint) : endpoint_(endpoint) {}
  std::optional<std::size_t> test() override;
  void cancel() noexcept override;
  void release() noexcept override;

private:
  friend class Endpoint;
  enum class State { queued, posted, cancelling, finished, failed };

  /// libfabric writes here while the operation is posted.
  struct Context {
    fi_context2 scratch{};
    Operation* owner = nullptr;
  };

  Context context_{{}, this};
  Endpoint& endpoint_;
  Kind kind_{};
  State state_ = State::finished;
  Rank peer_;
  Tag tag_ = 0;
  RegionKey source_{};          // key of the memory that a read reads
  std::byte* data_ = nullptr;   // never written to by a send
  std::size_t room_ = 0;        // bytes posted
  std::size_t bytes_ = 0;       // bytes moved; for a failed receive, the bytes found
  int error_ = 0;               // positive error number of libfabric
  Operation* next_ = nullptr;   // in its queue
  void* descriptor_ = nullptr;  // libfabric's descriptor of the memory that holds its bytes
  Registration registration_;   // of its bytes, if the provider needs one and no region holds them
};

/// Memory for the end of a message that is longer than its receive, so that every provider completes
/// the receive and reports the length. Without it, tcp;ofi_rxm may never complete such a receive, or
/// may harm later messages. Takes up no room until it is written to.
struct SinkTraits {
  using Handle = void*;
  static constexpr std::size_t bytes = std::size_t{16} << 30;
  static Handle none() { return nullptr; }
  static void close(Handle handle) noexcept;
};
using Sink = core::UniqueHandle<SinkTraits>;

class Endpoint final : public transport::Endpoint {
public:
  explicit Endpoint(const Provider& provider);
  ~Endpoint() override;

  Address address() const override { return address_; }
  void connect(std::span<const Address> peers, Deadline deadline) override;
  Request send(Rank peer, Tag tag, BytesView bytes) override;
  Request receive(Rank peer, Tag tag, std::span<std::byte> bytes) override;
  std::unique_ptr<MemoryRegion> register_memory(std::span<std::byte> bytes, Access access) override;
  Request read(Rank peer, const RegionKey& region, std::size_t offset,
               std::span<std::byte> bytes) override;
  std::size_t shortest_read() const noexcept override;
  void give_up() noexcept override;
  void progress() override;
  std::string address_text(Rank peer) const override { return peers_[core::at(peer)].text; }

private:
  friend class Operation;
  using Kind = Operation::Kind;
  using State = Operation::State;

  /// Operations that wait until libfabric has room for them, oldest first.
  struct Fifo {
    Operation* first = nullptr;
    Operation* last = nullptr;
    void push(Operation& operation) noexcept;
    void remove(const Operation& operation) noexcept;
  };
  struct Peer {
    fi_addr_t address = FI_ADDR_UNSPEC;
    std::string text{};            ///< address, in readable form
    int lost_by = 0;               ///< error of libfabric that means that the peer is gone; 0: none
    std::array<Fifo, 3> queues{};  ///< index = Kind
  };

  Request start(Kind kind, Rank peer, Tag tag, std::span<std::byte> bytes,
                const RegionKey& source = {});
  std::int64_t call(Operation& operation) noexcept;
  /// Hands an operation to libfabric. Returns false if libfabric has no room at the moment.
  bool post(Operation& operation);
  void post_queued();
  void read_completions();
  /// Processes an error in the completion queue. Returns false if there was none.
  bool read_error();
  void fail(Operation& operation, int error);
  std::optional<std::size_t> look_at(Operation& operation);
  void give_up(Operation& operation) noexcept;
  /// Ends all registrations. Must be called before the port is closed.
  void end_registrations() noexcept;
  /// Cancels all receives. Returns whether one cannot be cancelled, because a message is on its way
  /// into its memory.
  bool has_stuck_receive() noexcept;
  /// Gives up everything immediately. The endpoint cannot be used afterwards.
  void close(std::string reason);
  core::Error error_of(const Operation& operation) const;
  std::string describe(const Operation& operation) const;
  Peer& peer_of(const Operation& operation) { return peers_[core::at(operation.peer_)]; }
  Fifo& queue_of(const Operation& operation) {
    return peer_of(operation).queues[static_cast<std::size_t>(operation.kind_)];
  }

  std::deque<Operation> operations_;  // a deque, so that operations never move
  Sink sink_;
  std::optional<Port> port_;  // nullopt once closed
  std::string provider_;
  Address address_;
  std::string closed_reason_;
  std::vector<Peer> peers_;
  std::vector<Fifo*> waiting_;  // queues that are not empty
  std::vector<Operation*> idle_;
};

}  // namespace tremula::transport::ofi
