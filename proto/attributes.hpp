// SPDX-License-Identifier: Apache-2.0
#pragma once
// Attributes: small named values of a stream, of a field or of a step, in addition to the arrays (WIRE_FORMAT.md).
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/types.hpp"

namespace tremula::proto {

inline constexpr std::size_t max_attributes_bytes = std::size_t{64}
                                                    << 10;  ///< one Attributes, encoded
inline constexpr std::size_t max_attributes = 1024;         ///< number in one Attributes
inline constexpr std::size_t max_field_attributes_bytes = std::size_t{1}
                                                          << 20;  ///< all fields of a stream

/// Name of the stream's attribute for the unit of its time: one text, which is a valid name. If it is set, every step
/// of the stream has a time.
inline constexpr std::string_view time_unit = "time_unit";

/// The values of an attribute; a single value is an array of one. The alternatives are in the order
/// of their types on the wire.
using AttributeValues =
    std::variant<std::vector<std::int64_t>, std::vector<double>, std::vector<std::string>>;

struct Attribute {
  std::string name;
  AttributeValues values;
};

/// The attributes of one stream, field or step, in the order in which they were set; names are unique. Always inside
/// the bounds above.
class Attributes {
public:
  /// Sets the values of an attribute, replacing any earlier values.
  /// @throws core::Error invalid_argument, and changes nothing, if the name is not valid, if a text has invisible
  ///         characters other than line feed and tab, or if a bound would be exceeded
  void set(std::string_view name, AttributeValues values);
  /// Returns the attribute with this name; null if there is none.
  const Attribute* find(std::string_view name) const noexcept;
  std::span<const Attribute> all() const noexcept { return all_; }
  void clear() noexcept;
  std::size_t encoded_bytes() const noexcept { return bytes_; }

private:
  std::vector<Attribute> all_;
  std::size_t bytes_ = 0;
};

/// Returns the attributes as bytes.
core::Bytes encode(const Attributes& attributes);
/// Reverses encode(). For untrusted bytes.
/// @throws core::Error protocol naming what was expected and found
Attributes decode_attributes(core::BytesView bytes);
/// Returns 0 if there are no attributes, else a number above 0 that depends on names, types and
/// values, but not on the order in which they were set.
std::uint32_t hash(const Attributes& attributes);
/// Returns the name of an attribute that one of the two lacks, or has with another type or
/// different bits; empty if there is none.
std::string first_difference(const Attributes& one, const Attributes& other);
/// Returns the bytes of a member of a control message.
inline core::BytesView bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

/// Returns the attributes as a JSON object. An array of one is written as a single value; numbers
/// that JSON lacks become texts.
std::string to_json(const Attributes& attributes);
/// Returns the values of one attribute as JSON.
std::string to_json(const AttributeValues& values);
/// Returns the text as a JSON string.
std::string quoted(std::string_view text);

}  // namespace tremula::proto
