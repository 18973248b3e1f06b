// SPDX-License-Identifier: Apache-2.0
#pragma once
// Passes the chunks of a message through memory that two processes map: one process fills slots
// while the other empties them. A ring is small enough to stay in a cache. It has no lock, so a
// process that dies does not stop any other.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "transport/local/wait_words.hpp"

namespace tremula::transport::local {

/// One end of a ring of slots, single producer and single consumer.
class ChunkRing {
public:
  /// Returns the bytes that a ring takes, a multiple of a cache line if `slot_bytes` is a multiple.
  static constexpr std::size_t bytes_of(std::size_t slots, std::size_t slot_bytes) {
    return sizeof(Head) + slots * slot_bytes;
  }
  /// Returns the alignment in bytes of the memory of a ring.
  static constexpr std::size_t alignment() { return alignof(Head); }
  ChunkRing() = default;
  /// @param memory  bytes_of(slots, slot_bytes) bytes at a multiple of alignment(); zeroed before
  ///                the first end is made
  ChunkRing(std::span<std::byte> memory, std::size_t slots, std::size_t slot_bytes)
      : head_(reinterpret_cast<Head*>(memory.data())),
        data_(memory.data() + sizeof(Head)),
        slots_(slots),
        slot_bytes_(slot_bytes) {}
  /// Returns the reading end; it continues where an earlier reader of the same memory stopped.
  static ChunkRing reader(std::span<std::byte> memory, std::size_t slots, std::size_t slot_bytes) {
    ChunkRing ring(memory, slots, slot_bytes);
    ring.own_ = ring.head_->emptied.count.load(std::memory_order_relaxed);
    return ring;
  }

  explicit operator bool() const noexcept { return head_ != nullptr; }
  std::size_t slot_bytes() const noexcept { return slot_bytes_; }
  const void* memory() const noexcept { return head_; }

  /// Returns the slot to be filled next; empty if there is none at the moment.
  std::span<std::byte> room() noexcept {
    return own_ - head_->emptied.count.load(std::memory_order_acquire) < slots_
               ? slot()
               : std::span<std::byte>{};
  }
  /// Returns a word that changes when there is room again, if there was none.
  WaitWord wait_for_room() noexcept { return {&head_->emptied, own_ - slots_}; }
  /// Hands the slot from room() to the reader.
  void push() noexcept { head_->filled.show(++own_); }
  /// Marks the ring as closed: no more slots will be pushed.
  void close() noexcept { head_->is_closed.store(1, std::memory_order_release); }

  /// Returns the slot to be emptied next; empty if there is none at the moment.
  std::span<const std::byte> front() noexcept {
    return head_->filled.count.load(std::memory_order_acquire) != own_
               ? slot()
               : std::span<const std::byte>{};
  }
  /// Returns a word that changes when there is a slot to be emptied, if there was none.
  WaitWord wait_for_front() noexcept { return {&head_->filled, own_}; }
  /// Gives the slot from front() back to the writer.
  void pop() noexcept { head_->emptied.show(++own_); }
  /// Returns whether the writer has closed the ring. If so, the writer pushes no further slot, and the
  /// ring is at its end when front() is empty after this call.
  bool is_closed() const noexcept { return head_->is_closed.load(std::memory_order_acquire) != 0; }

private:
  struct Head {
    WaitCounter filled;
    std::atomic<std::uint32_t> is_closed{0};
    WaitCounter emptied;
  };
  std::span<std::byte> slot() const noexcept {
    return {data_ + own_ % slots_ * slot_bytes_, slot_bytes_};
  }

  Head* head_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t slots_ = 0, slot_bytes_ = 0;
  std::uint64_t own_ = 0;  // slots that this end has filled or emptied
};

}  // namespace tremula::transport::local
