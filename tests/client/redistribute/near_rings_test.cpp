// SPDX-License-Identifier: Apache-2.0
// One thread plays rank 0 and makes up what the other ranks pass.
#include "client/redistribute/near_rings.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"

namespace tremula::client::redistribute {
namespace {

using core::Bytes;
using transport::local::MemoryPlace, transport::local::SharedMemory;

constexpr std::size_t page = 4096;
std::size_t chunk_bytes(core::RankCount) { return page; }
/// A ring of two such chunks, their heads and its own head.
constexpr std::size_t ring_bytes = 3 * page;

/// Returns the rings of rank 0 of two near ranks, of which the other shares `bytes` bytes.
NearRings rings_with_a_peer(std::size_t bytes) {
  const SharedMemory theirs(bytes);
  const MemoryPlace place = theirs.place();
  const auto view = std::as_bytes(std::span(&place, 1));
  const std::vector<Bytes> machines(2, Bytes{std::byte{1}});
  std::vector<Bytes> answers{{view.begin(), view.end()}, {std::byte{1}}};
  std::size_t calls = 0;
  return NearRings(core::Rank{0}, chunk_bytes, machines, [&](Bytes mine) {
    return std::vector<Bytes>{std::move(mine), answers.at(calls++)};
  });
}

TEST(NearRings, AreNotMadeInMemoryOfAnotherSize) {
  EXPECT_EQ(rings_with_a_peer(ring_bytes).near_ranks(), 2);
  for (const std::size_t bytes : {page, ring_bytes - page, ring_bytes + page}) {
    NearRings rings = rings_with_a_peer(bytes);
    EXPECT_EQ(rings.near_ranks(), 0) << bytes;
    EXPECT_EQ(rings.from(core::Rank{1}), nullptr) << bytes;
  }
}

TEST(NearRings, AreNotMadeIfARankDoesNotAnswer) {
  const std::vector<Bytes> machines(1, Bytes{std::byte{1}});
  const NearRings rings(core::Rank{0}, chunk_bytes, machines,
                        [](const Bytes&) { return std::vector<Bytes>(1); });
  EXPECT_EQ(rings.near_ranks(), 0);
}

}  // namespace
}  // namespace tremula::client::redistribute
