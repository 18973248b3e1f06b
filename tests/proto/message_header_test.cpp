// SPDX-License-Identifier: Apache-2.0
#include "proto/message_header.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "core/error.hpp"

namespace tremula::proto {
namespace {

using Raw = std::array<std::byte, message_header_bytes>;

// The header that is drawn in WIRE_FORMAT.md, written by hand.
Raw drawn() {
  const unsigned char bytes[] = {'T',  'R',  'M',  'L',  1,    0,    1,    0,     //
                                 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x08,  // link
                                 7,    0,    0,    0,    0,    0,    0,    0,     // step
                                 0,    0,    0,    0,    2,    0,    0,    0,     // 8 GiB follow
                                 0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0xf1,  // fingerprint
                                 3,    0,    0,    0,    0,    0,    0,    0,     // dropped
                                 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,  // time -2
                                 0x39, 0x30, 0,    0,    5,    0,    0,    0};    // attributes
  Raw out;
  static_assert(sizeof bytes == message_header_bytes);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = std::byte{bytes[i]};
  return out;
}
const MessageHeader drawn_header{.kind = MessageKind::step,
                                 .link = 0x0877665544332211,
                                 .step = 7,
                                 .payload_bytes = std::uint64_t{1} << 33,
                                 .fingerprint = 0xf123456789abcdef,
                                 .dropped = 3,
                                 .time = -2,
                                 .attribute_bytes = 12345};

TEST(MessageHeader, IsWrittenAsDrawn) { EXPECT_EQ(encode(drawn_header), drawn()); }
TEST(MessageHeader, IsReadAsDrawn) { EXPECT_EQ(decode_message_header(drawn()), drawn_header); }

TEST(MessageHeader, HasBytesOrTheHashOfAttributesInTheSamePlace) {
  MessageHeader header = drawn_header;
  header.attribute_bytes = 0;
  header.attribute_hash = 0xfedcba98;
  const Raw raw = encode(header);
  Raw expected = drawn();
  expected[56] = std::byte{0x98}, expected[57] = std::byte{0xba};
  expected[58] = std::byte{0xdc}, expected[59] = std::byte{0xfe};
  expected[60] = std::byte{9};
  EXPECT_EQ(raw, expected);
  EXPECT_EQ(decode_message_header(raw), header);
}

TEST(MessageHeader, OverwritesEveryByte) {
  Raw out;
  out.fill(std::byte{0xff});
  encode(drawn_header, out);
  EXPECT_EQ(out, drawn());
}

TEST(MessageHeader, RoundTrips) {
  const char* given = std::getenv("TREMULA_TEST_SEED");
  const std::uint64_t seed =
      given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  SCOPED_TRACE("TREMULA_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int i = 0; i < 10'000; ++i) {
    MessageHeader header{.kind = static_cast<MessageKind>(1 + random() % 10),
                         .link = (random() >> random() % 64) | 1,
                         .step = random() >> random() % 64,
                         .payload_bytes = random() >> (1 + random() % 63),
                         .fingerprint = random(),
                         .dropped = random()};
    if (header.kind != MessageKind::step) header.payload_bytes = 0;
    if (header.kind == MessageKind::step && random() % 2 == 0)
      header.time = static_cast<std::int64_t>(random());
    if (header.kind == MessageKind::step && random() % 2 == 0)
      header.attribute_bytes = static_cast<std::uint32_t>(random() % 65537);
    else if (header.kind == MessageKind::step)
      header.attribute_hash = static_cast<std::uint32_t>(random());
    if (header.kind > MessageKind::end_of_stream) header.dropped = 0;
    ASSERT_EQ(decode_message_header(encode(header)), header);
  }
}

TEST(MessageHeader, LeavesThePayloadUnchanged) {
  core::Bytes message(message_header_bytes + 5, std::byte{0x5a});
  encode(drawn_header, std::span(message).first<message_header_bytes>());
  EXPECT_EQ(decode_message_header(message), drawn_header);
  for (std::size_t i = message_header_bytes; i < message.size(); ++i)
    EXPECT_EQ(message[i], std::byte{0x5a});
}

TEST(MessageHeader, NamesThePartThatIsWrong) {
  const auto with = [](std::size_t at, unsigned char value) {
    core::Bytes out;
    for (const std::byte b : drawn()) out.push_back(b);
    out[at] = std::byte{value};
    return out;
  };
  const auto no_link = [&] {
    core::Bytes out = with(0, 'T');
    for (std::size_t i = 8; i < 16; ++i) out[i] = std::byte{0};
    return out;
  };
  const auto cut = [&](std::size_t bytes) {
    core::Bytes out = with(0, 'T');
    out.resize(bytes);
    return out;
  };
  const auto without_attributes = [&](unsigned char flags) {
    core::Bytes out = with(60, flags);
    out[56] = out[57] = std::byte{0};
    return out;
  };
  const auto of_kind_2 = [](std::size_t at, unsigned char value) {
    const auto bytes = encode({.kind = MessageKind::end_of_stream, .link = 1, .step = 2});
    core::Bytes out(bytes.begin(), bytes.end());
    out[at] = std::byte{value};
    return out;
  };
  const struct {
    core::Bytes bytes;
    const char* text;
  } rows[] = {
      {cut(0), "message header, length: expected at least 64 bytes, found 0"},
      {cut(63), "message header, length: expected at least 64 bytes, found 63"},
      {with(0, 't'), "message header, magic: expected 0x4c4d5254, found 0x4c4d5274"},
      {with(3, 0), "message header, magic: expected 0x4c4d5254, found 0x004d5254"},
      {with(4, 2), "message header, version: expected 1, found 2"},
      {with(5, 1), "message header, version: expected 1, found 257"},
      {with(6, 0), "message header, kind: expected 1 to 10, found 0"},
      {with(6, 11), "message header, kind: expected 1 to 10, found 11"},
      {with(7, 1), "message header, kind: expected 1 to 10, found 257"},
      {no_link(), "message header, link: expected a number above 0, found 0"},
      {with(6, 2), "message header, payload bytes: expected 0 with kind 2, found 8589934592"},
      {with(6, 3), "message header, payload bytes: expected 0 with kind 3, found 8589934592"},
      {with(6, 5), "message header, dropped steps: expected 0 with kind 5, found 3"},
      {with(6, 4), "message header, payload bytes: expected 0 with kind 4, found 8589934592"},
      {with(31, 0x80),
       "message header, payload bytes: expected less than 2^63, found 9223372045444710400"},
      {with(60, 4), "message header, time: expected 0, because the flags mark none, found -2"},
      {with(60, 1), "message header, bytes of attributes: expected 0 to 0, found 12345"},
      {with(60, 3), "message header, flags: expected 0, 1, 4, 5, 8 or 9, found 3"},
      {with(60, 13), "message header, flags: expected 0, 1, 4, 5, 8 or 9, found 13"},
      {with(63, 255), "message header, flags: expected 0, 1, 4, 5, 8 or 9, found 4278190085"},
      {with(58, 1), "message header, bytes of attributes: expected 1 to 65536, found 77881"},
      {without_attributes(9),
       "message header, hash of attributes: expected a number above 0, found 0"},
      {of_kind_2(60, 1), "message header, flags: expected 0, found 1"},
      {of_kind_2(60, 4), "message header, flags: expected 0, found 4"},
      {of_kind_2(60, 8), "message header, flags: expected 0, found 8"},
      {of_kind_2(56, 1), "message header, bytes of attributes: expected 0 to 0, found 1"},
      {of_kind_2(48, 1), "message header, time: expected 0, because the flags mark none, found 1"},
  };
  for (const auto& row : rows) {
    try {
      decode_message_header(row.bytes);
      ADD_FAILURE() << "expected: " << row.text;
    } catch (const core::Error& error) {
      EXPECT_EQ(error.code(), core::Errc::protocol);
      EXPECT_EQ(std::string(error.what()).find(row.text), 0u)
          << error.what() << "\nexpected: " << row.text;
    }
  }
}

}  // namespace
}  // namespace tremula::proto
