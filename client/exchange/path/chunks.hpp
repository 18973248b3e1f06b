// SPDX-License-Identifier: Apache-2.0
#pragma once
// Chunks: slices of a message, cut alike on both sides.
#include "client/exchange/path/path.hpp"

namespace tremula::client {

/// Bytes [begin, end) of a message, by the offsets of the plan; they belong to parts [first, last].
struct Chunk {
  std::size_t first = 0, last = 0;
  std::size_t begin = 0, end = 0;
  std::size_t bytes() const noexcept { return end - begin; }
};

/// Cuts some parts of a message into chunks. Divides no element: a chunk has room for at least one.
class Chunks {
public:
  Chunks() = default;
  /// @param most  most bytes of a chunk; a multiple of part_alignment
  Chunks(const Message& message, PartRange parts, std::size_t most);
  bool is_at_end() const noexcept { return begin_ == end_; }
  /// @pre not at the end
  Chunk next() noexcept;

private:
  const Message* message_ = nullptr;
  std::size_t most_ = 0, part_ = 0, end_part_ = 0;
  std::size_t begin_ = 0, end_ = 0;
};

/// Returns the byte at which a chunk begins in the local array of its only part; nullopt if it has
/// several parts or is not contiguous there.
std::optional<std::size_t> in_place_at(const Message& message, const Chunk& chunk) noexcept;

/// Packs a chunk from the source's arrays in a slot.  @param to  shape: [chunk.bytes()]
void pack_chunk(Way& way, std::size_t slot, const Chunk& chunk, std::span<std::byte> to);
/// Unpacks a chunk into the sink's arrays.
void unpack_chunk(Way& way, const Chunk& chunk, core::BytesView from);

/// Precedes the bytes of a chunk in a ring, and those of a message inside a job, so that ranks that
/// make different calls are detected.
struct ChunkHead {
  /// Flag in `step`, set by a rank of a job that takes part in a run although it has refused it:
  /// its bytes are meaningless.
  static constexpr std::uint64_t refused = std::uint64_t{1} << 63;
  std::uint64_t step = 0, plan = 0, bytes = 0;
  friend bool operator==(const ChunkHead&, const ChunkHead&) = default;
};
/// Returns whether `found` is `expected` with the flag `refused` set.
constexpr bool is_refusal(ChunkHead found, const ChunkHead& expected) noexcept {
  const bool is_marked = (found.step & ChunkHead::refused) != 0;
  found.step &= ~ChunkHead::refused;
  return is_marked && found == expected;
}
static_assert(sizeof(ChunkHead) <= chunk_head_bytes);

}  // namespace tremula::client
