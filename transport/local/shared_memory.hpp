// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory that other processes of this user on this machine can map. It has no name: a file
// descriptor holds it (memfd), so no process of another user can open it, and nothing is left when
// the processes that use it end, however they end. It is not part of /dev/shm, and the size of
// /dev/shm does not limit it.
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "core/types.hpp"
#include "core/unique_handle.hpp"

namespace tremula::transport::local {

/// Place at which other processes find bytes of this process. Opaque to all but the owner and the
/// process that maps it. Valid in processes with the same host_identity().
struct MemoryPlace {
  std::uint64_t process = 0;  ///< number of the owner
  std::uint64_t file = 0;     ///< descriptor in the owner
  std::uint64_t region = 0;   ///< random number that identifies the memory
  std::uint64_t offset = 0;   ///< bytes from the beginning of the memory
  friend bool operator==(const MemoryPlace&, const MemoryPlace&) = default;
};

/// Returns a text that is equal in two processes only if they can map each other's memory: same
/// boot of the same machine (whatever name a container gives it), same process numbers, same user,
/// group and capabilities. A process that other processes may not inspect (PR_SET_DUMPABLE) has an
/// identity that no other process has, and gets a new one in each call.
std::string host_identity();

struct FileTraits {
  using Handle = int;
  static int none() { return -1; }
  static void close(int file) noexcept;
};
using File = core::UniqueHandle<FileTraits>;

/// A range of this process's address space. Move-only.
class Pages {
public:
  Pages() = default;
  /// Maps a file from its beginning.
  /// @param at  null, or pages that the new ones replace
  /// @throws core::Error internal with the system's text
  Pages(const File& file, std::size_t bytes, bool is_writable, void* at = nullptr);
  Pages(Pages&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  Pages& operator=(Pages&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Pages();
  std::span<std::byte> bytes() const noexcept { return bytes_; }
  /// Leaves the pages mapped.
  void release() noexcept { bytes_ = {}; }

private:
  std::span<std::byte> bytes_;
};

/// A file that peers open. Keeps its memory for them even when other memory has replaced it in the
/// owner's address range.
class SharedFile {
public:
  /// @throws core::Error internal with the system's text if the system refuses
  explicit SharedFile(std::size_t bytes);
  /// Marks the memory as abandoned for the peers that have mapped it.
  ~SharedFile();
  SharedFile(const SharedFile&) = delete;

  const File& file() const noexcept { return file_; }
  const MemoryPlace& place() const noexcept { return place_; }

private:
  File file_;
  Pages head_;
  MemoryPlace place_;
};

/// Place at which peers find bytes, which can be mapped while the loan is kept.
struct Loan {
  MemoryPlace place;
  std::shared_ptr<const SharedFile> file;
};

/// Zeroed memory of this process that peers can map; its size is fixed. Only written pages take up
/// room. The memory returns to the system when the last process has unmapped it.
class SharedMemory {
public:
  /// @throws core::Error invalid_argument if no process can have that many bytes, internal with the
  /// system's text if the system refuses
  explicit SharedMemory(std::size_t bytes);

  std::span<std::byte> bytes() const noexcept;
  /// Returns the place of its first byte.
  MemoryPlace place() const noexcept { return file_->place(); }
  Loan lend() const { return {file_->place(), file_}; }
  /// Replaces the memory with other memory that has the same contents and address. Processes that have
  /// mapped the old memory keep it, and it can still be mapped while it is lent. Has no effect if it
  /// throws.
  void renew();

private:
  std::shared_ptr<const SharedFile> file_;
  Pages pages_;
};

/// Memory of a peer in this process's address space.
class Mapping {
public:
  /// @throws core::Error peer_lost if the peer's process has ended, transport if it has no such
  /// memory
  Mapping(const MemoryPlace& place, bool is_writable);

  /// Returns all of the memory, from its beginning, even if the place has an offset.
  std::span<std::byte> bytes() const noexcept;
  std::uint64_t region() const noexcept { return region_; }
  /// Returns whether the owner has abandoned the memory.
  bool is_abandoned() const noexcept;
  /// Returns false once the owner's process has ended, however it ended. Makes a system call.
  bool is_held() const noexcept;
  /// Returns whether the owner's process is stopped, by a signal or a debugger. Makes system calls.
  bool is_stopped() const noexcept;

private:
  Pages pages_;
  std::uint64_t region_, process_;
  std::string path_;                     // path of the owner's descriptor
  std::uint64_t device_ = 0, node_ = 0;  // of the file
};

// ---- memory that the application has requested ----

/// Returns `bytes` bytes of zeroed memory, on a page boundary, that peers on this machine can copy
/// from and to directly. Thread-safe. Takes one file descriptor. A child made by fork shares it
/// with its parent.
/// @throws core::Error invalid_argument for 0 bytes, internal if the system refuses
std::byte* allocate(std::size_t bytes);
/// Frees memory from allocate(). Peers that are copying keep it until they have finished.
/// @throws core::Error invalid_argument if `memory` did not come from allocate()
void deallocate(std::byte* memory);
/// Ends a loan, after which no peer reads or writes the application's memory: a copy replaces it at
/// the same address, while peers keep the old memory. Has no effect if the loan has already ended.
/// Used for exchanges that have failed. No other thread may write to that allocation during the call.
void take_back(const Loan& loan);
/// Returns the place at which peers find these bytes; nullopt if they are not in memory from
/// allocate(). Thread-safe.
std::optional<Loan> lend(core::BytesView bytes);

}  // namespace tremula::transport::local
