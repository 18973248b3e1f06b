// SPDX-License-Identifier: Apache-2.0
#pragma once
// What both ends of an exchange share. An exchange carries the steps of one link of one rank; it is
// the only place where a plan meets a transport. Nothing in it blocks.
//
// How a part of a step (what one pair of ranks shares of one field) gets across:
//
//   sent    packed into staging, sent as a message, unpacked from staging        far peers
//   packed  packed into memory that the peer maps, unpacked from there           near peers
//   local   lent: the peer copies straight out of the local buffer               near, allocate()
//   ring    lent: on demand, straight into the peer's local buffer if that can   near
//           be mapped, else in pieces through a ring in shared memory
//   read    lent: the peer reads the runs of the local buffer (RMA)              far, long runs
//   pieces  lent: on demand, in messages; straight from and to local buffers     far
//           where the part lies there in one piece
//
// Parts are lent with queue_depth 0, whose steps end when they have been taken, and, where the
// peer can map them, by put_async.
#include <sched.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstdint>
#include <span>

#include "client/exchange/plan/exchange_plan.hpp"
#include "client/exchange/statistics.hpp"
#include "core/error.hpp"
#include "proto/package_header.hpp"
#include "proto/part_place.hpp"
#include "transport/local/chunk_ring.hpp"
#include "transport/local/mappings.hpp"
#include "transport/local/shared_memory.hpp"
#include "transport/transport.hpp"

namespace tremula::client {

using HeaderBytes = std::array<std::byte, proto::package_header_bytes>;
/// The longest message from a consumer to a producer.
using AskBytes = std::array<std::byte, proto::package_header_bytes + proto::part_place_bytes>;

namespace tags {
inline constexpr transport::Tag package = 1;    ///< producer to consumer: header first
inline constexpr transport::Tag credit = 2;     ///< consumer to producer: header first
inline constexpr transport::Tag delivered = 3;  ///< producer to consumer: answer to an ask
inline constexpr transport::Tag piece = 4;      ///< producer to consumer: elements and nothing else
}  // namespace tags

/// Slots of a ring in shared memory, for a part that is asked for.
inline constexpr std::size_t ring_slots = 4;
/// What one of them holds at most, so that the ring stays in the cache; but where a field is
/// transposed, as much as a piece: of each row it then holds more than a few lines of the columns.
inline constexpr std::size_t ring_slot_bytes = std::size_t{128} << 10;

/// Parts of staging begin on a cache line.
constexpr std::size_t line_aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

/// A message that is sent, longer than this, goes in segments: one is on its way while the next is
/// packed. Each is a transport message of its own, in order, tags::package; all but the last are of
/// this length. Both sides know it from the length of the whole.
constexpr std::size_t segment_bytes(std::size_t message_bytes) {
  constexpr std::size_t shortest = std::size_t{1} << 20, most = 32;
  return std::max(shortest, line_aligned((message_bytes + most - 1) / most));
}
constexpr std::size_t segments(std::size_t message_bytes) {
  const std::size_t each = segment_bytes(message_bytes);
  return (message_bytes + each - 1) / each;
}

/// A contiguous part up to this size costs more to walk than to copy.
inline constexpr std::size_t short_part_bytes = std::size_t{64} << 10;

/// Bytes of the message that tells where the parts lie.
inline std::size_t places_bytes(const Message& message) {
  return proto::package_header_bytes + message.parts.size() * proto::part_place_bytes;
}

using PlaceWords = std::array<std::uint64_t, 4>;
inline PlaceWords words_of(const transport::local::MemoryPlace& place) {
  return std::bit_cast<PlaceWords>(place);
}
inline transport::local::MemoryPlace place_from(const PlaceWords& words) {
  return std::bit_cast<transport::local::MemoryPlace>(words);
}

/// A local buffer, as a place for the peer.
inline proto::PartPlace place_of(proto::PartPlace::Kind kind, std::size_t part,
                                 const PlaceWords& memory, const index_calc::LocalPart& local) {
  return {.kind = kind,
          .part = part,
          .memory = memory,
          .first = local.first,
          .allocated = local.allocated,
          .stride = local.stride};
}
/// In memory from allocate().
inline proto::PartPlace local_place(std::size_t part, const transport::local::MemoryPlace& memory,
                                    const index_calc::LocalPart& local) {
  return place_of(proto::PartPlace::Kind::local, part, words_of(memory), local);
}
/// In a memory region.
inline proto::PartPlace readable_place(std::size_t part, const transport::RegionKey& key,
                                       const index_calc::LocalPart& local) {
  return place_of(proto::PartPlace::Kind::readable, part, {key[0], key[1], 0, 0}, local);
}

/// A local buffer of a peer, as it tells of it.
struct PeerBuffer {
  index_calc::LocalPart part;
  std::span<std::byte> bytes;
};
/// @throws core::Error as Mappings::find, and protocol if the place is no local buffer
PeerBuffer buffer_of(const proto::PartPlace& place, std::size_t dimensions,
                     std::size_t element_bytes, transport::local::Mappings& mappings,
                     bool is_writable);

/// @throws core::Error protocol if the bytes are no header of this link
proto::PackageHeader decode_from(Rank peer, std::uint64_t link, core::BytesView bytes);

inline core::Error protocol_error(Rank peer, const std::string& expected,
                                  const std::string& found) {
  return core::Error(core::Errc::protocol, "package from rank " + std::to_string(peer) +
                                               " of the other side: expected " + expected +
                                               ", found " + found);
}

inline double seconds_since(core::Deadline::Clock::time_point start) {
  return core::Deadline::Seconds(core::Deadline::Clock::now() - start).count();
}

/// Looks for a slot of a ring whose other end is at work, for some 50 microseconds at most: a wait
/// that sleeps would cost more than a slot.
template <class Look>
auto briefly(Look&& look) {
  for (int turn = 0; turn < 150; ++turn) {
    if (const auto slot = look(); !slot.empty()) return slot;
    if (turn > 30) sched_yield();
  }
  return look();
}

/// Adds the seconds that it lives.
class Stopwatch {
public:
  explicit Stopwatch(double& seconds) : seconds_(seconds) {}
  ~Stopwatch() { seconds_ += seconds_since(start_); }
  Stopwatch(const Stopwatch&) = delete;

private:
  double& seconds_;
  core::Deadline::Clock::time_point start_ = core::Deadline::Clock::now();
};

}  // namespace tremula::client
