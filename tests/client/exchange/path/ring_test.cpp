// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

#include "client/exchange/path/path.hpp"
#include "client/exchange/path/paths.hpp"
#include "tests/core/error_of.hpp"
#include "transport/loopback/loopback.hpp"

namespace tremula::client {
namespace {

using proto::PartPlace, transport::local::ChunkRing, transport::local::SharedMemory;

TEST(RingSink, TakesOnlyAlignedRings) {
  const ExchangePlan plan;
  Message message;
  message.near_chunk_bytes = 64;
  transport::Network network;
  const auto endpoint = transport::Loopback(network).open("loopback", transport::Side::consumer);
  ChunkPool chunks;
  CopyThreads threads(1);
  transport::local::Mappings mappings;
  Traffic traffic;
  std::uint64_t moved = 0;
  Way way{.plan = plan,
          .message = message,
          .endpoint = *endpoint,
          .chunks = chunks,
          .threads = threads,
          .mappings = &mappings,
          .traffic = traffic,
          .moved = moved};
  const std::size_t slot_bytes = StepStaging::ring_slot_bytes(message);
  const SharedMemory memory(64 + ChunkRing::bytes_of(StepStaging::ring_slots, slot_bytes));
  const auto paths = all_paths();
  const auto ring = std::ranges::find(paths, PartPlace::Kind::ring, &Path::kind);
  ASSERT_NE(ring, paths.end());
  const auto announce = [&](std::size_t offset) {
    auto place = memory.place();
    place.offset = offset;
    (*ring)->make_sink(way)->announce(0,
                                      {.kind = PartPlace::Kind::ring,
                                       .memory = std::bit_cast<decltype(PartPlace::memory)>(place),
                                       .first = StepStaging::ring_slots,
                                       .allocated = static_cast<core::Index>(slot_bytes)},
                                      {});
  };
  for (const std::size_t offset : {0u, 64u}) EXPECT_NO_THROW(announce(offset)) << offset;
  for (const std::size_t offset : {8u, 32u, 63u}) {
    const auto text = core::error_of([&] { announce(offset); }, core::Errc::protocol);
    EXPECT_NE(text.find("a multiple of 64"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace tremula::client
