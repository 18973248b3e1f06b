// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "proto/convert.hpp"
#include "tests/core/error_of.hpp"

namespace tremula::proto {
namespace {

using core::ElementType, core::Errc, core::error_of;
using index_calc::Layout;

Field field(const std::string& name, ElementType type, const std::string& layout) {
  return {.name = name, .type = type, .layout = Layout::parse(layout)};
}

wire::Field wire_field(const std::string& name, int type, const std::string& layout) {
  wire::Field out;
  out.set_name(name);
  out.set_element_type(type);
  out.set_layout(layout);
  return out;
}

/// Decodes a field as the only one of a message.
Field decode_one(const wire::Field& field) {
  WireFields fields;
  *fields.Add() = field;
  return decode(fields).front();
}

const char* const layouts[] = {"shape=10000x10000 grid=4x4 block=30x50",
                               "shape=17 grid=3 block=2 source=1",
                               "shape=17x9 grid=3x1 block=4x3 source=1x0 cut=3x2",
                               "shape=100x90 grid=3x2 splits0=0/10/55/100 owners0=0/2/1 block1=45",
                               "shape=8x9x10 grid=2x1x3 block=4x9x4 ranks=column store=column",
                               "shape=8 grid=2 block=4 members=1-2"};

TEST(Fields, RoundTrip) {
  std::vector<Field> fields;
  int type = 1;
  for (const char* layout : layouts)
    for (int i = 0; i < 3; ++i, type = type % 12 + 1)
      fields.push_back(
          field("f" + std::to_string(fields.size()), static_cast<ElementType>(type), layout));
  EXPECT_EQ(decode(encode(std::span<const Field>(fields))), fields);
  for (const Field& f : fields) EXPECT_EQ(decode_one(encode(f)), f);
}

TEST(Fields, DoNotTransmitGhostAndLeading) {
  const Field mine =
      field("t", ElementType::f32, "shape=8x8 grid=2x2 block=4x4 ghost=1x1 leading=9");
  const Field plain = field("t", ElementType::f32, "shape=8x8 grid=2x2 block=4x4");
  EXPECT_EQ(decode_one(encode(mine)), plain);
}

TEST(Fields, NameThePartThatIsWrong) {
  const std::string good = "shape=8 grid=2 block=4";
  const struct {
    wire::Field field;
    std::string text;
  } rows[] = {
      {wire_field("", 10, good),
       "fields[0].name: expected 1 to 255 bytes of printable UTF-8 text, not only blanks, "
       "found ''"},
      {wire_field("a\nb", 10, good),
       "fields[0].name: expected 1 to 255 bytes of printable UTF-8 text, not only blanks, "
       "found 'a?b'"},
      {wire_field(std::string(256, 'n'), 10, good),
       "fields[0].name: expected 1 to 255 bytes of printable UTF-8 text, not only blanks, "
       "found '" +
           std::string(64, 'n') + "...' (256 bytes)"},
      {wire_field("t", 0, good),
       "fields[0].element_type: expected 1 (i8) to 15 (bool), or 65536 and 1 to 16384 bytes, found "
       "0"},
      {wire_field("t", 16, good),
       "fields[0].element_type: expected 1 (i8) to 15 (bool), or 65536 and 1 to 16384 bytes, found "
       "16"},
      {wire_field("t", -1, good),
       "fields[0].element_type: expected 1 (i8) to 15 (bool), or 65536 and 1 to 16384 bytes, found "
       "-1"},
      {wire_field("t", 10, "shape=8 grid=2 block=4 ghost=1"),
       "fields[0].layout: expected a layout without ghost and leading, found 'shape=8 grid=2 "
       "block=4 "
       "ghost=1'"},
      {wire_field("t", 10, "shape=8x8 grid=2x1 leading=9"),
       "fields[0].layout: expected a layout without ghost and leading, found 'shape=8x8 grid=2x1 "
       "leading=9'"},
      {wire_field("t", 10, std::string((1 << 20) + 1, ' ')),
       "fields[0].layout: expected at most 1048576 bytes, found 1048577"},
  };
  for (const auto& row : rows)
    EXPECT_EQ(error_of([&] { decode_one(row.field); }, Errc::protocol), row.text);
}

TEST(Fields, PassOnTheErrorOfALayout) {
  for (const char* layout :
       {"", "nonsense", "shape=8", "shape=-8 grid=2", "shape=8 grid=0", "shape=8 grid=2 block=0",
        "shape=8x8 grid=2", "shape=99999999999999999999 grid=2",
        "shape=4000000000x4000000000 grid=1x1", "shape=8 grid=2 shape=8",
        "shape=9 grid=2 splits0=0/5 owners0=0", "shape=8 grid=2 splits0=0/5/8 owners0=0/2",
        "shape=8 grid=2 members=5", "shape=8 grid=2 cut=4", "shape=8 grid=2 cut=-1",
        "shape=8 grid=2 cut=18446744073709551615"}) {
    const std::string text =
        error_of([&] { decode_one(wire_field("t", 10, layout)); }, Errc::protocol);
    EXPECT_EQ(text.find("fields[0].layout of field 't': "), 0u) << layout << ": " << text;
    EXPECT_GT(text.size(), std::string("fields[0].layout of field 't': ").size());
  }
}

TEST(Fields, MustHaveUniqueNames) {
  WireFields fields;
  for (const char* name : {"a", "b", "a"}) *fields.Add() = wire_field(name, 1, "shape=8 grid=2");
  EXPECT_EQ(error_of([&] { decode(fields); }, Errc::protocol),
            "fields[2].name: expected unique names, found 'a' twice");
}

TEST(Fields, AreBoundedInNumber) {
  WireFields fields;
  for (int i = 0; i <= max_fields; ++i)
    *fields.Add() = wire_field(std::to_string(i), 1, "shape=1 grid=1");
  EXPECT_EQ(error_of([&] { decode(fields); }, Errc::protocol),
            "fields, count: expected 0 to 65536, found 65537");
  fields.RemoveLast();
  EXPECT_EQ(decode(fields).size(), 65536u);
}

TEST(CheckCompatible, AllowsOtherDistributionsAndSpareFields) {
  const std::vector<Field> offered{field("u", ElementType::f64, "shape=100x90 grid=3x2"),
                                   field("v", ElementType::f32, "shape=100x90 grid=3x2")};
  const std::vector<Field> wanted{
      field("v", ElementType::f32, "shape=100x90 grid=1x5 block=7x3 store=column")};
  EXPECT_NO_THROW(check_compatible(wanted, offered, "s", "c", "p"));
  Field part = field("u", ElementType::i8, "shape=50x20 grid=1x1");  // converted in transit
  part.origin = {50, 70};
  EXPECT_NO_THROW(check_compatible(std::vector{part}, offered, "s", "c", "p"));
  EXPECT_NO_THROW(check_compatible({}, offered, "s", "c", "p"));
}

TEST(CheckCompatible, NamesBothSides) {
  const std::vector<Field> offered{field("u", ElementType::f64, "shape=100x90 grid=3x2"),
                                   field("v", ElementType::c64, "shape=7 grid=2")};
  Field part = field("u", ElementType::f64, "shape=50x20 grid=1x1");
  part.origin = {51, 0};
  const struct {
    Field wanted;
    const char* text;
  } rows[] = {
      {field("w", ElementType::f64, "shape=7 grid=1"),
       "stream 'surface': consumer 'viewer' wants field 'w', producer 'ocean' offers 'u' (f64 "
       "100x90), 'v' (c64 7); ask "
       "for one of these or add the field to the producer"},
      {field("v", ElementType::f64, "shape=7 grid=1"),
       "stream 'surface', field 'v': consumer 'viewer' wants type f64, producer 'ocean' offers "
       "type c64; make both sides "
       "declare the same type"},
      {part,
       "stream 'surface', field 'u': consumer 'viewer' wants a part of 50x20 at 51x0, producer "
       "'ocean' offers 100x90, which does not contain it; take a part that is inside it"},
      {field("u", ElementType::f64, "shape=90x100 grid=1x1"),
       "stream 'surface', field 'u': consumer 'viewer' wants shape 90x100, producer 'ocean' offers "
       "shape 100x90; make both "
       "sides declare the same shape, in the producer's order: with axes, dimension d of the "
       "consumer's array has the extent of dimension axes[d] of the field"},
      {field("u", ElementType::f64, "shape=9000 grid=1"),
       "stream 'surface', field 'u': consumer 'viewer' wants shape 9000, producer 'ocean' offers "
       "shape 100x90; make both "
       "sides declare the same shape"},
  };
  for (const auto& row : rows)
    EXPECT_EQ(error_of(
                  [&] {
                    check_compatible(std::vector{row.wanted}, offered, "surface", "viewer",
                                     "ocean");
                  },
                  Errc::mismatch),
              row.text);
  EXPECT_EQ(
      error_of(
          [&] { check_compatible(std::vector{rows[0].wanted}, {}, "surface", "viewer", "ocean"); },
          Errc::mismatch),
      "stream 'surface': consumer 'viewer' wants field 'w', producer 'ocean' offers no field; ask "
      "for one of these "
      "or add the field to the producer");
}

TEST(CheckFitsGroup, NamesFieldAndGroup) {
  const std::vector<Field> fields{field("u", ElementType::f64, "shape=8x8 grid=2x2")};
  EXPECT_NO_THROW(check_fits_group(fields, 4, "s", "ocean"));
  const std::string text =
      error_of([&] { check_fits_group(fields, 6, "s", "ocean"); }, Errc::mismatch);
  EXPECT_EQ(text.find("stream 's', field 'u' of group 'ocean': "), 0u) << text;
  EXPECT_NE(text.find('4'), std::string::npos) << text;
  EXPECT_NE(text.find('6'), std::string::npos) << text;
}

}  // namespace
}  // namespace tremula::proto
