// SPDX-License-Identifier: Apache-2.0
#include "core/name.hpp"

#include <gtest/gtest.h>

#include <string>

namespace tremula::core {
namespace {

std::string utf8(char32_t c) {
  const auto byte = [](char32_t bits) { return static_cast<char>(bits); };
  if (c < 0x80) return {byte(c)};
  if (c < 0x800) return {byte(0xc0 | c >> 6), byte(0x80 | (c & 0x3f))};
  if (c < 0x10000)
    return {byte(0xe0 | c >> 12), byte(0x80 | (c >> 6 & 0x3f)), byte(0x80 | (c & 0x3f))};
  return {byte(0xf0 | c >> 18), byte(0x80 | (c >> 12 & 0x3f)), byte(0x80 | (c >> 6 & 0x3f)),
          byte(0x80 | (c & 0x3f))};
}

TEST(Name, IsPrintableTextOfAnyLanguage) {
  for (const char* name :
       {"ocean", "sea surface [K]", "Größe", "海面水温", "température", "درجة", "🌊", "a.b/c:d"})
    EXPECT_TRUE(is_name(name)) << name;
  EXPECT_FALSE(is_name(""));
  EXPECT_TRUE(is_name(std::string(max_name_bytes, 'x')));
  EXPECT_FALSE(is_name(std::string(max_name_bytes + 1, 'x')));
}

TEST(Name, HasNoControlOrFormatCharacter) {
  for (const char32_t c :
       {U'\0',     U'\n',     U'\x1b',   U'\x7f',    U'\x85',    U'\x9f',    U'\xad',
        U'\x0600', U'\x061c', U'\x180e', U'\x200b',  U'\x200d',  U'\x200e',  U'\x200f',
        U'\x2028', U'\x2029', U'\x202a', U'\x202b',  U'\x202c',  U'\x202d',  U'\x202e',
        U'\x2060', U'\x2066', U'\x2067', U'\x2068',  U'\x2069',  U'\xfeff',  U'\xfff9',
        U'\xfffe', U'\xffff', U'\xfdd0', U'\x1d173', U'\x1ffff', U'\xe0001', U'\xe0041'})
    EXPECT_FALSE(is_name("abc" + utf8(c) + "def")) << std::hex << static_cast<unsigned>(c);
  // Their neighbours are allowed.
  for (const char32_t c : {U' ', U'~', U'\xa0', U'\xac', U'\xae', U'\x0606', U'\x2010', U'\x202f',
                           U'\x2070', U'\xfefe', U'\xfffd', U'\x1d172', U'\xe0100'})
    EXPECT_TRUE(is_name("abc" + utf8(c) + "def")) << std::hex << static_cast<unsigned>(c);
}

TEST(Name, HasAVisibleCharacter) {
  for (const char32_t c : {U' ', U'\xa0', U'\x34f', U'\x115f', U'\x1680', U'\x180b', U'\x2003',
                           U'\x202f', U'\x2800', U'\x3000', U'\x3164', U'\xe000', U'\xf8ff',
                           U'\xfe0f', U'\xffa0', U'\xe0100', U'\xf0000', U'\x10fffd'}) {
    EXPECT_FALSE(is_name(utf8(c))) << std::hex << static_cast<unsigned>(c);
    EXPECT_FALSE(is_name(utf8(c) + " " + utf8(c))) << std::hex << static_cast<unsigned>(c);
    EXPECT_TRUE(is_name(utf8(c) + "a")) << std::hex << static_cast<unsigned>(c);
  }
  // Each of their neighbours is a name by itself.
  for (const char32_t c : {U'!', U'\xa1', U'\x34e', U'\x115e', U'\x1161', U'\x2010', U'\x2801',
                           U'\x3001', U'\x3163', U'\x3165', U'\xf900', U'\xffa1'})
    EXPECT_TRUE(is_name(utf8(c))) << std::hex << static_cast<unsigned>(c);
}

TEST(Name, IsValidUtf8) {
  for (const std::string bytes :
       {"\x80", "\xc3", "\xc3(", "\xc0\xaf", "\xc1\xbf", "\xe2\x82", "\xe0\x80\xaf", "\xed\xa0\x80",
        "\xf0\x80\x80\xaf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff"}) {
    EXPECT_FALSE(is_name(bytes));
    EXPECT_FALSE(is_name("a" + bytes + "b"));
  }
}

TEST(Printable, ReplacesInvisibleCharacters) {
  EXPECT_EQ(printable("one\ntwo \x1b[31m Größe \u202eabc\xff"), "one?two ?[31m Größe ?abc?");
}

}  // namespace
}  // namespace tremula::core
