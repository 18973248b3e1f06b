// SPDX-License-Identifier: Apache-2.0
#pragma once
// Small named values beside the arrays: attributes of a stream, of a field, of a step (WIRE_FORMAT.md).
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/types.hpp"

namespace tremula::proto {

inline constexpr std::size_t max_attributes_bytes = std::size_t{64}
                                                    << 10;  ///< of one Attributes, encoded
inline constexpr std::size_t max_attributes = 1024;         ///< of one Attributes
inline constexpr std::size_t max_field_attributes_bytes = std::size_t{1}
                                                          << 20;  ///< of all fields of a stream

/// Of the stream; one text, a name. A stream that has it has a time in every step.
inline constexpr std::string_view time_unit = "time_unit";

/// A single value is an array of one. The alternatives are in the order of their types on the wire.
using AttributeValues =
    std::variant<std::vector<std::int64_t>, std::vector<double>, std::vector<std::string>>;

struct Attribute {
  std::string name;
  AttributeValues values;
};

/// The attributes of one thing, in the order in which they were set; names differ. Always inside the
/// bounds above.
class Attributes {
public:
  /// Replaces the values that the name had.
  /// @throws core::Error invalid_argument, and changes nothing: the name is none, a text has characters
  ///         that are not seen other than line feed and tab, or a bound would be exceeded
  void set(std::string_view name, AttributeValues values);
  /// Null if there is none of that name.
  const Attribute* find(std::string_view name) const noexcept;
  std::span<const Attribute> all() const noexcept { return all_; }
  void clear() noexcept;
  std::size_t encoded_bytes() const noexcept { return bytes_; }

private:
  std::vector<Attribute> all_;
  std::size_t bytes_ = 0;
};

core::Bytes encode(const Attributes& attributes);
/// The inverse of encode, for foreign bytes.
/// @throws core::Error protocol naming what was expected and found
Attributes decode_attributes(core::BytesView bytes);
/// Returns 0 if there are none, else a number above 0 that depends on names, types and values, and not on
/// the order in which they were set.
std::uint32_t hash(const Attributes& attributes);
/// Returns the name of an attribute that one of the two lacks, or holds with another type or different bits;
/// empty if there is none.
std::string first_difference(const Attributes& one, const Attributes& other);
/// The bytes of a member of a control message.
inline core::BytesView bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

/// As a JSON object. A single value stands for an array of one; numbers that JSON has not are texts.
std::string to_json(const Attributes& attributes);
/// The values of one attribute alone.
std::string to_json(const AttributeValues& values);
/// A JSON string.
std::string quoted(std::string_view text);

}  // namespace tremula::proto
