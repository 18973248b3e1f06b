// SPDX-License-Identifier: Apache-2.0
#pragma once
// Chunks: slices of a message, cut alike on both sides.
#include "client/exchange/path/path.hpp"

namespace tremula::client {

/// Bytes [begin, end) of a message as the plan counts them; of parts [first, last].
struct Chunk {
  std::size_t first = 0, last = 0;
  std::size_t begin = 0, end = 0;
  std::size_t bytes() const noexcept { return end - begin; }
};

/// Cuts some parts of a message into chunks. No element is divided: a chunk has room for one.
class Chunks {
public:
  Chunks() = default;
  /// @param most  bytes of a chunk, a multiple of part_alignment
  Chunks(const Message& message, PartRange parts, std::size_t most);
  bool is_at_end() const noexcept { return begin_ == end_; }
  /// @pre not at the end
  Chunk next() noexcept;

private:
  const Message* message_ = nullptr;
  std::size_t most_ = 0, part_ = 0, end_part_ = 0;
  std::size_t begin_ = 0, end_ = 0;
};

/// Where a chunk lies in the local array of its only part, if it lies there in one piece.
std::optional<std::size_t> in_place_at(const Message& message, const Chunk& chunk) noexcept;

/// Packs a chunk out of the arrays of a slot.  @param to  chunk.bytes()
void pack_chunk(Way& way, std::size_t slot, const Chunk& chunk, std::span<std::byte> to);
/// Unpacks it to its arrays.
void unpack_chunk(Way& way, const Chunk& chunk, core::BytesView from);

/// What stands before the bytes of a chunk in a ring, and before those of a job's message: ranks
/// that do other things are noticed.
struct ChunkHead {
  /// Set in `step` by a rank of a job that takes part in a run which it has refused: its bytes mean nothing.
  static constexpr std::uint64_t refused = std::uint64_t{1} << 63;
  std::uint64_t step = 0, plan = 0, bytes = 0;
  friend bool operator==(const ChunkHead&, const ChunkHead&) = default;
};
/// Returns whether `found` is what was expected, but for the mark of a rank that refuses.
constexpr bool is_refusal(ChunkHead found, const ChunkHead& expected) noexcept {
  const bool is_marked = (found.step & ChunkHead::refused) != 0;
  found.step &= ~ChunkHead::refused;
  return is_marked && found == expected;
}
static_assert(sizeof(ChunkHead) <= chunk_head_bytes);

}  // namespace tremula::client
