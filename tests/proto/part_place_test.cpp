// SPDX-License-Identifier: Apache-2.0
#include "proto/part_place.hpp"

#include <gtest/gtest.h>

#include <string>

#include "core/error.hpp"

namespace tremula::proto {
namespace {

using Kind = PartPlace::Kind;
using PlaceBytes = std::array<std::byte, part_place_bytes>;

PartPlace example(Kind kind) {
  PartPlace place{.kind = kind,
                  .part = 3,
                  .memory = {1, ~std::uint64_t{0}, std::uint64_t{1} << 63, 4},
                  .first = 17,
                  .allocated = core::Index{1} << 40,
                  .stride = {}};
  for (std::size_t d = 0; d < place.stride.size(); ++d)
    place.stride[d] = static_cast<core::Index>(100 + d);
  return place;
}

std::string error_of(core::BytesView bytes) {
  try {
    decode_part_place(bytes);
  } catch (const core::Error& e) {
    EXPECT_EQ(e.code(), core::Errc::protocol);
    return e.what();
  }
  return "no error";
}

TEST(PartPlace, RoundTripsForEveryKind) {
  for (const Kind kind : {Kind::on_demand, Kind::shared, Kind::lent, Kind::ring, Kind::rma,
                          Kind::staged, Kind::inlined}) {
    PlaceBytes bytes;
    encode(example(kind), bytes);
    EXPECT_EQ(decode_part_place(bytes), example(kind));
  }
}

TEST(PartPlace, IsWrittenAsTheWireFormatStates) {
  PlaceBytes bytes;
  encode(example(Kind::rma), bytes);
  const auto word = [&](std::size_t i) { return std::to_integer<int>(bytes[8 * i]); };
  EXPECT_EQ(word(0), 4);
  EXPECT_EQ(word(1), 3);
  EXPECT_EQ(word(2), 1);
  EXPECT_EQ(word(5), 4);
  EXPECT_EQ(word(6), 17);
  EXPECT_EQ(std::to_integer<int>(bytes[8 * 7 + 5]), 1);  // 2^40
  EXPECT_EQ(word(8), 100);
  EXPECT_EQ(word(15), 107);
}

TEST(PartPlace, RefusesOtherBytes) {
  PlaceBytes bytes;
  encode(example(Kind::lent), bytes);
  EXPECT_NE(error_of(std::span(bytes).first(127)).find("expected 128 bytes, found 127"),
            std::string::npos);
  bytes[2] = std::byte{1};
  EXPECT_NE(error_of(bytes).find("expected a path's number up to 65535"), std::string::npos);
  bytes[2] = bytes[4] = std::byte{0};
  EXPECT_NE(error_of(bytes).find("at least one part"), std::string::npos);
}

}  // namespace
}  // namespace tremula::proto
