// SPDX-License-Identifier: Apache-2.0
#pragma once
// Moves bytes from one process to another. Knows about peers and bytes, but not about arrays, plans
// or protobuf. README.md in this folder explains how to write another backend.
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/deadline.hpp"
#include "core/error.hpp"
#include "core/types.hpp"

namespace tremula::transport {

using core::Bytes, core::BytesView, core::Deadline, core::Rank;

/// Matches a receive with a send between the same two ranks. All 64 bits may be used by the caller.
using Tag = std::uint64_t;

/// The address at which a rank's endpoint can be reached. Opaque to all but the backend that made
/// it; travels through the rendezvous. At most 4096 bytes. May be empty (mpi: on all ranks except
/// rank 0 of the accepting side).
using Address = Bytes;

/// A backend's record of one operation in flight.
class Operation {
public:
  virtual ~Operation() = default;
  /// Makes progress. Returns the number of bytes moved; nullopt if the operation has not finished.
  /// Never blocks.
  /// @throws core::Error transport if it failed, peer_lost if the peer is known to be gone
  virtual std::optional<std::size_t> test() = 0;
  /// Gives the operation up; does nothing if it has ended. Returns within a second, once the backend
  /// no longer touches the bytes.
  /// A send that cannot be withdrawn closes the whole link: the other operations of the link then end
  /// in Errc::transport.
  virtual void cancel() noexcept = 0;
  /// Returns the object to its endpoint. Called once, instead of delete, when the operation has
  /// finished or is cancelled.
  virtual void release() noexcept = 0;
};

/// An operation in flight. Move-only. Does not own the caller's memory: the caller keeps the bytes
/// alive until test() has returned true or the request is destroyed. Destroying an unfinished
/// request cancels it. Must not outlive its endpoint.
class Request {
public:
  Request() = default;  ///< a finished request
  explicit Request(Operation* operation) noexcept : operation_(operation) {}
  Request(Request&& other) noexcept
      : operation_(std::exchange(other.operation_, nullptr)), bytes_(other.bytes_) {}
  Request& operator=(Request&& other) noexcept {
    if (this != &other) {
      reset();
      operation_ = std::exchange(other.operation_, nullptr);
      bytes_ = other.bytes_;
    }
    return *this;
  }
  ~Request() { reset(); }

  /// Returns whether the operation has finished; idempotent once it has.  @throws as
  /// Operation::test, once; the request is then finished
  bool test() {
    if (operation_ == nullptr) return true;
    std::optional<std::size_t> moved;
    try {
      moved = operation_->test();
    } catch (...) {
      reset();  // the error may not be the operation's own, which is then still in flight
      throw;
    }
    if (!moved) return false;
    bytes_ = *moved;
    std::exchange(operation_, nullptr)->release();
    return true;
  }
  /// Returns how many bytes a finished operation has moved. A receive may get fewer than its buffer
  /// holds.
  std::size_t bytes() const noexcept { return bytes_; }
  bool is_finished() const noexcept { return operation_ == nullptr; }
  /// Gives up an unfinished operation; on return, the bytes belong to the caller again.
  void reset() noexcept {
    if (operation_ == nullptr) return;
    operation_->cancel();
    std::exchange(operation_, nullptr)->release();
  }

private:
  Operation* operation_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Key with which a peer reads a memory region. Opaque to all but the backend.
using RegionKey = std::array<std::uint64_t, 2>;

/// Memory of this rank that is registered with the backend while this object exists. Should be
/// destroyed before its endpoint, because it is useless once the endpoint no longer exists.
class MemoryRegion {
public:
  explicit MemoryRegion(const RegionKey& key) : key_(key) {}
  virtual ~MemoryRegion() = default;
  MemoryRegion(const MemoryRegion&) = delete;
  const RegionKey& key() const noexcept { return key_; }

private:
  RegionKey key_;
};

/// Purpose of a memory region: only operations of this rank, or also reads by peers.
enum class Access { own, peers_read };

/// The side of a link that a group is on. The producer accepts, and the consumer connects.
enum class Side { producer, consumer };

/// This rank's end of the link between one producer group and one consumer group: reaches every
/// rank of the other group. Not thread-safe: one thread at a time. Destroying it gives up
/// everything in flight and takes at most a second.
///
/// Messages with the same tag between the same two ranks arrive in the order in which they were
/// sent. A message is delivered completely or not at all.
class Endpoint {
public:
  virtual ~Endpoint() = default;

  /// Returns the address at which ranks on the other side reach this endpoint.
  virtual Address address() const = 0;
  /// Makes all ranks of the other group reachable; blocks until they are. Called once, on every rank
  /// of both groups, before any send or receive; may be collective over both groups.
  /// @param peers  address of every rank of the other group, index = rank
  /// @throws core::Error timed_out, transport
  virtual void connect(std::span<const Address> peers, Deadline deadline) = 0;

  /// Makes a connect() that waits in another thread, or a later one, end in Errc::cancelled. This is
  /// the only function that any thread may call. A backend whose connect() does not wait for peers
  /// ignores the call.
  virtual void stop_connecting() noexcept {}

  /// Declares that this rank exchanges data only with these peers: the endpoint no longer waits for
  /// any other peer, and an operation with another peer may end in an error. Lets a backend close
  /// the port at which it listens. May be called again, with fewer peers.  @pre connected
  virtual void expect_only(std::span<const Rank>) {}
  /// Starts to send `bytes` to `peer`. Never blocks. A finished send means that the bytes may be
  /// changed, not that the peer has them: closing this endpoint before the peer has answered may
  /// lose them.
  /// @throws core::Error transport
  virtual Request send(Rank peer, Tag tag, BytesView bytes) = 0;
  /// Starts to receive a message of at most `bytes.size()` bytes from `peer`. A longer message ends
  /// in Errc::transport, with a text that states the size of the buffer; Request::bytes returns the
  /// length of a shorter one. Never blocks.
  virtual Request receive(Rank peer, Tag tag, std::span<std::byte> bytes) = 0;
  /// Registers memory with the backend. Returns null if the backend has no use for that, e.g. for
  /// Access::peers_read if peers cannot read each other's memory (RMA). May cost a page fault for
  /// each page: keep the region if the memory is used again, but never longer than the memory.
  /// @pre connected
  /// @throws core::Error transport if the backend refuses, e.g. if too much memory is locked
  virtual std::unique_ptr<MemoryRegion> register_memory(std::span<std::byte>, Access) {
    return nullptr;
  }
  /// Starts to read `bytes.size()` bytes from byte `offset` of a region of `peer`. The bytes move while
  /// the peer makes progress. Never blocks. If the region is too short, or has been destroyed, the read
  /// ends in an error, and the link may be lost.
  /// @param region  key of a region with Access::peers_read
  /// @pre the backend has such regions
  virtual Request read(Rank peer, const RegionKey& region, std::size_t offset,
                       std::span<std::byte> bytes);
  /// Returns the length in bytes of the shortest run that is worth a read; it is cheaper to pack and
  /// send a shorter one.
  virtual std::size_t shortest_read() const noexcept { return std::size_t{16} << 10; }
  /// Gives up what peers may still read, and for most backends everything in flight, which ends in an
  /// error. Afterwards the endpoint can only be destroyed.
  virtual void give_up() noexcept {}
  /// Advances operations in flight. Must be called often while waiting for anything.
  virtual void progress() = 0;
  /// Returns a descriptor that becomes readable as soon as progress() has something to process from
  /// any peer, so that a waiting rank may sleep on it; -1 if the backend has none, or if sleeping
  /// is not worthwhile at the moment.
  virtual int wake_descriptor() const noexcept { return -1; }
  /// Returns whether some operation in flight with `peer`, even if it is only the handshake of a
  /// large message, advances only inside calls of this rank. @pre connected
  virtual bool needs_calls(Rank) const noexcept { return true; }
  /// Returns whether this process and that of `peer` can map each other's memory
  /// (local/shared_memory.hpp). @pre connected
  virtual bool is_near(Rank) const noexcept { return false; }
  /// Returns the address of `peer` in readable form, e.g. "10.1.0.2:41233"; empty if it is unknown.
  /// @pre connected
  virtual std::string address_text(Rank) const { return {}; }
  /// Returns false if sending to a peer that has died may harm this process: callers then send only
  /// what is needed.
  virtual bool survives_lost_peers() const noexcept { return true; }
  /// Returns whether `peer`'s process is known to have ended: it no longer touches any memory.
  /// @pre is_near
  virtual bool has_ended(Rank) const noexcept { return false; }
  /// Returns whether `peer`'s process is stopped, by a signal or a debugger. Makes system calls.
  /// @pre is_near
  virtual bool is_stopped(Rank) const noexcept { return false; }
};

inline Request Endpoint::read(Rank, const RegionKey&, std::size_t, std::span<std::byte>) {
  throw core::Error(core::Errc::unsupported,
                    "expected a transport whose peers can read each other's memory, found another");
}

/// A way of moving bytes: "loopback", "local", "tcp", "ofi", "mpi". Chosen at run time; a process
/// may use several.
class Transport {
public:
  virtual ~Transport() = default;
  /// Returns the name that a user writes in `transport:`, e.g. "ofi".
  virtual std::string_view name() const noexcept = 0;
  /// Returns the texts that name the ways in which this side can be linked, best first, e.g.
  /// "ofi:tcp;ofi_rxm" or "local@<host identity>". Two sides can be linked if they have one text in
  /// common.
  virtual std::vector<std::string> offers() const = 0;
  /// Returns whether `offer` stands for several choices: both sides then open the first of the
  /// producer's choices() that the consumer also has.
  virtual bool has_choices(std::string_view) const { return false; }
  /// Returns the choices that such an offer stands for on this host, best first. May load a library
  /// and take a second.
  /// @throws core::Error unsupported if there are none
  virtual std::vector<std::string> choices(std::string_view) { return {}; }
  /// Returns whether an endpoint can connect by itself, in any thread; if not, both groups connect
  /// together, in the thread of the application.
  virtual bool connects_alone() const noexcept { return true; }
  /// Opens this rank's end of a new link over `offer`, one of offers(), or over one of its choices.
  virtual std::unique_ptr<Endpoint> open(std::string_view offer, Side side) = 0;
};

}  // namespace tremula::transport
