// SPDX-License-Identifier: Apache-2.0
#include "core/element_type.hpp"

#include <gtest/gtest.h>

#include <complex>
#include <cstdint>

namespace tremula::core {
namespace {

// The values are part of the wire format and the C interface: values may be added, but none may change.
struct Row {
  int value;
  ElementType type;
  std::string_view name;
  std::size_t bytes;
};
constexpr Row rows[] = {
    {1, ElementType::i8, "i8", sizeof(std::int8_t)},
    {2, ElementType::i16, "i16", sizeof(std::int16_t)},
    {3, ElementType::i32, "i32", sizeof(std::int32_t)},
    {4, ElementType::i64, "i64", sizeof(std::int64_t)},
    {5, ElementType::u8, "u8", sizeof(std::uint8_t)},
    {6, ElementType::u16, "u16", sizeof(std::uint16_t)},
    {7, ElementType::u32, "u32", sizeof(std::uint32_t)},
    {8, ElementType::u64, "u64", sizeof(std::uint64_t)},
    {9, ElementType::f32, "f32", sizeof(float)},
    {10, ElementType::f64, "f64", sizeof(double)},
    {11, ElementType::c64, "c64", sizeof(std::complex<float>)},
    {12, ElementType::c128, "c128", sizeof(std::complex<double>)},
    {13, ElementType::f16, "f16", 2},
    {14, ElementType::bf16, "bf16", 2},
    {15, ElementType::boolean, "bool", sizeof(bool)},
    {0x10001, opaque(1), "opaque1", 1},
    {0x14000, opaque(16384), "opaque16384", 16384},
};

TEST(ElementType, HasItsValueNameAndSize) {
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    EXPECT_EQ(static_cast<int>(row.type), row.value);
    EXPECT_TRUE(is_element_type(row.value));
    EXPECT_EQ(to_string(row.type), row.name);
    EXPECT_EQ(element_bytes(row.type), row.bytes);
    EXPECT_EQ(parse_element_type(row.name), row.type);
  }
}

TEST(ElementType, RefusesOtherValuesAndNames) {
  for (const int value : {-1, 0, 16, 0x10000, 0x14001, 0x1FFFF, 1 << 20})
    EXPECT_FALSE(is_element_type(value)) << value;
  for (const std::string_view name : {"", "f", "f6", "f640", "F64", " f64", "double", "opaque",
                                      "opaque0", "opaque16385", "opaque8 ", "opaque08"})
    EXPECT_EQ(parse_element_type(name), std::nullopt) << name;
}

}  // namespace
}  // namespace tremula::core
