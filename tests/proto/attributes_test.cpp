// SPDX-License-Identifier: Apache-2.0
#include "proto/attributes.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <limits>
#include <random>

#include "core/error.hpp"

namespace tremula::proto {
namespace {

using Integers = std::vector<std::int64_t>;
using Reals = std::vector<double>;
using Texts = std::vector<std::string>;

/// Returns the text of the error; empty if there is none.
std::string error_of(const std::function<void()>& body, core::Errc code) {
  try {
    body();
  } catch (const core::Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return {};
}

core::Bytes bytes(std::initializer_list<int> values) {
  core::Bytes out;
  for (const int value : values) out.push_back(static_cast<std::byte>(value));
  return out;
}

// The bytes that are drawn in WIRE_FORMAT.md, written by hand.
const core::Bytes drawn =
    bytes({1,    0,   1,   0,   2,   0,   0,    0,    'n',       //
           0xfe, 255, 255, 255, 255, 255, 255,  255,             // -2
           0,    1,   0,   0,   0,   0,   0,    0,               // 256
           2,    0,   2,   0,   1,   0,   0,    0,    'a', 'b',  //
           0,    0,   0,   0,   0,   0,   0xf8, 0x3f,            // 1.5
           1,    0,   3,   0,   2,   0,   0,    0,    'u', 1,   0, 0, 0, 'K', 0, 0, 0, 0});

TEST(Attributes, AreWrittenAndReadAsDrawn) {
  Attributes attributes;
  attributes.set("n", Integers{-2, 256});
  attributes.set("ab", Reals{1.5});
  attributes.set("u", Texts{"K", ""});
  EXPECT_EQ(encode(attributes), drawn);
  EXPECT_EQ(attributes.encoded_bytes(), drawn.size());
  const Attributes read = decode_attributes(drawn);
  ASSERT_EQ(read.all().size(), 3u);
  EXPECT_EQ(read.all()[1].name, "ab");
  EXPECT_EQ(read.find("n")->values, AttributeValues(Integers{-2, 256}));
  EXPECT_EQ(read.find("ab")->values, AttributeValues(Reals{1.5}));
  EXPECT_EQ(read.find("u")->values, AttributeValues(Texts{"K", ""}));
  EXPECT_EQ(read.find("K"), nullptr);
  EXPECT_TRUE(decode_attributes({}).all().empty());
}

TEST(Attributes, RoundTrip) {
  const char* given = std::getenv("TREMULA_TEST_SEED");
  const std::uint64_t seed =
      given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  SCOPED_TRACE("TREMULA_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int i = 0; i < 1000; ++i) {
    Attributes attributes;
    for (std::uint64_t n = random() % 6; n > 0; --n) {
      const std::string name(1 + random() % 255, static_cast<char>('a' + random() % 26));
      const auto count = random() % 5;
      Integers integers;
      Reals reals;  // any bits, such as those of NaN
      Texts texts;
      for (std::uint64_t k = 0; k < count; ++k) {
        integers.push_back(static_cast<std::int64_t>(random()));
        reals.push_back(std::bit_cast<double>(random()));
        texts.emplace_back(random() % 30, static_cast<char>('!' + random() % 90));
      }
      switch (random() % 3) {
        case 0:
          attributes.set(name, integers);
          break;
        case 1:
          attributes.set(name, reals);
          break;
        default:
          attributes.set(name, texts);
      }
    }
    const core::Bytes encoded = encode(attributes);
    ASSERT_EQ(encoded.size(), attributes.encoded_bytes());
    ASSERT_EQ(encode(decode_attributes(encoded)), encoded);
  }
}

TEST(Attributes, AreReplacedByTheirName) {
  Attributes attributes;
  attributes.set("a", Integers{1, 2, 3});
  attributes.set("b", Reals{1});
  attributes.set("a", Texts{"x"});
  ASSERT_EQ(attributes.all().size(), 2u);
  EXPECT_EQ(attributes.all()[0].values, AttributeValues(Texts{"x"}));
  EXPECT_EQ(attributes.encoded_bytes(), encode(attributes).size());
  attributes.clear();
  EXPECT_EQ(attributes.encoded_bytes(), 0u);
  EXPECT_TRUE(encode(attributes).empty());
}

TEST(Attributes, RefuseValuesOutsideTheBounds) {
  Attributes attributes;
  attributes.set("kept", Integers{7});
  const auto refused = [&](const std::string& name, AttributeValues values) {
    return error_of([&] { attributes.set(name, std::move(values)); }, core::Errc::invalid_argument);
  };
  EXPECT_EQ(refused("", Integers{}),
            "name of an attribute: expected 1 to 255 bytes of printable UTF-8 text, not only "
            "blanks; found ''");
  EXPECT_EQ(refused("a\u202e", Integers{}),
            "name of an attribute: expected 1 to 255 bytes of printable UTF-8 text, not only "
            "blanks; found 'a?'");
  EXPECT_NE(refused(std::string(256, 'n'), Integers{}), "");
  EXPECT_EQ(refused("t", Texts{"fine\n\tstill", "a\x01z"}),
            "attribute 't': expected UTF-8 text without control and format characters, except line "
            "feed and tab; found 'a?z'");
  EXPECT_NE(refused("t", Texts{"no \xff UTF-8"}), "");
  EXPECT_NE(refused("t", Texts{"turned \u202e round"}), "");
  EXPECT_EQ(refused("t", Reals(8192)),
            "attribute 't': expected at most 65536 bytes of names and values together, found "
            "65565; put long values into a field");
  EXPECT_NE(refused("t", Texts(1 << 14)), "") << "short texts count too";
  EXPECT_EQ(encode(attributes).size(), 20u);

  attributes.set("t", Reals(8188, 0.5));  // as many as fit into 65536 - 20 - 9 bytes
  attributes.set("t", Reals(8187));       // replaced: only the new value counts
  Attributes many;
  for (std::size_t i = 0; i < max_attributes; ++i) many.set(std::to_string(i), Integers{});
  EXPECT_EQ(error_of([&] { many.set("one more", Integers{}); }, core::Errc::invalid_argument),
            "attribute 'one more': expected at most 1024 attributes, found one more; combine some "
            "into an array");
  many.set("0", Integers{1});
}

TEST(Attributes, RejectForeignBytes) {
  const auto rejected = [](const core::Bytes& foreign) {
    return error_of([&] { decode_attributes(foreign); }, core::Errc::protocol);
  };
  const auto with = [](std::size_t at, int value) {
    core::Bytes out = drawn;
    out[at] = static_cast<std::byte>(value);
    return out;
  };
  for (std::size_t length = 1; length < drawn.size(); ++length) {
    const bool is_whole = length == 25 || length == 43;  // one whole attribute, or two
    EXPECT_EQ(rejected({drawn.begin(), drawn.begin() + static_cast<std::ptrdiff_t>(length)}) == "",
              is_whole)
        << length;
  }
  EXPECT_EQ(
      rejected(with(2, 0)),
      "attributes: expected a type from 1 to 3, found 0; do both sides run the same Tremula?");
  EXPECT_NE(rejected(with(2, 4)), "");
  EXPECT_NE(rejected(with(3, 1)), "");
  EXPECT_NE(rejected(with(7, 255)), "") << "4 billion values";
  EXPECT_NE(rejected(with(8, '\n')), "");
  EXPECT_NE(rejected(with(0, 0)), "");
  EXPECT_NE(rejected(with(56, 7)), "") << "a control character";
  core::Bytes twice = drawn;
  twice.insert(twice.end(), drawn.begin(), drawn.end());
  EXPECT_EQ(rejected(twice), "attributes: expected unique names, found 'n' twice");
  EXPECT_EQ(rejected(core::Bytes(max_attributes_bytes + 1)),
            "attributes: expected at most 65536 bytes, found 65537");
  core::Bytes many;
  for (std::size_t i = 0; i <= max_attributes; ++i) {
    const auto one = bytes(
        {2, 0, 1, 0, 0, 0, 0, 0, static_cast<int>('!' + i % 64), static_cast<int>('!' + i / 64)});
    many.insert(many.end(), one.begin(), one.end());
  }
  EXPECT_NE(rejected(many), "");
}

Attributes made(const std::vector<Attribute>& all) {
  Attributes attributes;
  for (const auto& [name, values] : all) attributes.set(name, values);
  return attributes;
}

TEST(Attributes, AreComparedByNameTypeAndBitsInAnyOrder) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Attributes some = made({{"a", Integers{1}}, {"b", Texts{"x"}}, {"c", Reals{nan}}});
  const Attributes turned = made({{"c", Reals{nan}}, {"b", Texts{"x"}}, {"a", Integers{1}}});
  EXPECT_EQ(first_difference(some, turned), "");
  EXPECT_EQ(hash(some), hash(turned));
  EXPECT_NE(hash(some), 0u);
  EXPECT_EQ(hash(Attributes()), 0u);
  EXPECT_EQ(first_difference(Attributes(), Attributes()), "");
  const struct {
    Attributes other;
    const char* name;
  } rows[] = {
      {Attributes(), "a"},
      {made({{"a", Integers{1}}, {"b", Texts{"x"}}}), "c"},
      {made({{"a", Integers{1}}, {"b", Texts{"x"}}, {"c", Reals{nan}}, {"d", Texts{}}}), "d"},
      {made({{"a", Reals{1}}, {"b", Texts{"x"}}, {"c", Reals{nan}}}), "a"},
      {made({{"a", Integers{1, 1}}, {"b", Texts{"x"}}, {"c", Reals{nan}}}), "a"},
      {made({{"a", Integers{1}}, {"b", Texts{"y"}}, {"c", Reals{nan}}}), "b"},
      {made({{"a", Integers{1}}, {"b", Texts{"x"}}, {"c", Reals{0}}}), "c"},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(first_difference(some, row.other), row.name);
    EXPECT_EQ(first_difference(row.other, some), row.name);
    EXPECT_NE(hash(some), hash(row.other)) << row.name;
  }
  // Swapped values.
  EXPECT_NE(hash(made({{"a", Texts{"x"}}, {"b", Texts{"y"}}})),
            hash(made({{"a", Texts{"y"}}, {"b", Texts{"x"}}})));
}

// FNV-1a of "01 00 01 00 01 00 00 00 'n' 02 00 .. 00", its two halves combined.
TEST(Attributes, HaveTheHashOfTheWireFormat) {
  std::uint64_t expected = 0xcbf29ce484222325;
  for (const int byte : {1, 0, 1, 0, 1, 0, 0, 0, int{'n'}, 2, 0, 0, 0, 0, 0, 0, 0})
    expected = (expected ^ static_cast<std::uint64_t>(byte)) * 0x100000001b3;
  EXPECT_EQ(hash(made({{"n", Integers{2}}})),
            static_cast<std::uint32_t>(expected ^ (expected >> 32)));
}

TEST(Attributes, AreShownAsJson) {
  Attributes attributes;
  attributes.set("units", Texts{"K"});
  attributes.set("valid \"range\"", Reals{0, -2.5});
  attributes.set("n", Integers{-3});
  attributes.set("fill_value", Reals{std::numeric_limits<double>::quiet_NaN()});
  attributes.set("none", Texts{});
  attributes.set("history", Texts{"made\nby"});
  EXPECT_EQ(to_json(attributes),
            R"({"units": "K", "valid \"range\"": [0.0, -2.5], "n": -3, "fill_value": "nan", )"
            R"("none": [], "history": "made\u000aby"})");
}

// RFC 8259: a point is followed by a digit.
TEST(Attributes, AreJsonNumbersOfAnyMagnitude) {
  Attributes attributes;
  attributes.set("a", Reals{1e20, -9e33, 1e-6, 5e-324});
  attributes.set("b", Reals{1e15, 123456.0, 0.1, -0.0});
  EXPECT_EQ(
      to_json(attributes),
      R"({"a": [1e+20, -9e+33, 1e-06, 5e-324], "b": [1000000000000000.0, 123456.0, 0.1, -0.0]})");
}

}  // namespace
}  // namespace tremula::proto
