// SPDX-License-Identifier: Apache-2.0
#pragma once
// The structs of the C interface grow at their end, and begin with the size in bytes that they had
// when the application was compiled. Only the members that both sides know are read and written.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "core/error.hpp"
#include "tremula/tremula.h"

namespace tremula::client {

/// The `name` of a struct and its size in `bytes` in its first version, up to the end of the last member.
template <class Struct>
struct FirstVersion;

template <>
struct FirstVersion<tremula_update> {
  static constexpr const char* name = "tremula_update";
  static constexpr std::size_t bytes =
      offsetof(tremula_update, to_origin) + sizeof(tremula_update::to_origin);
};
template <>
struct FirstVersion<tremula_statistics> {
  static constexpr const char* name = "tremula_statistics";
  static constexpr std::size_t bytes =
      offsetof(tremula_statistics, transport) + sizeof(tremula_statistics::transport);
};
template <>
struct FirstVersion<tremula_peer_statistics> {
  static constexpr const char* name = "tremula_peer_statistics";
  static constexpr std::size_t bytes =
      offsetof(tremula_peer_statistics, path) + sizeof(tremula_peer_statistics::path);
};

/// Returns the number of bytes of `given` that both the application and this library know.
/// @throws core::Error invalid_argument for a size that no initialiser sets
template <class Struct>
std::size_t known_bytes(const Struct* given) {
  using First = FirstVersion<Struct>;
  static_assert(std::is_trivially_copyable_v<Struct> && offsetof(Struct, size) == 0);
  static_assert(First::bytes % alignof(Struct) == 0,
                "the next version's member would be in the padding of the first version");
  constexpr std::size_t most_bytes = 1 << 16;  // a larger size is uninitialised memory
  core::expects(given->size >= First::bytes && given->size <= most_bytes, [&] {
    return fmt::format(
        "{0}.size: expected the size of the struct in bytes, at least {1}; found {2}: set every "
        "{0} to {0}_init(...) first (in languages other than C and C++: set its size)",
        First::name, First::bytes, given->size);
  });
  return std::min(given->size, sizeof(Struct));
}

/// Returns a struct with the application's values for the members that it knows, and with the
/// values of `defaults` for the others.
template <class Struct>
Struct read_struct(const Struct* given, Struct defaults) {
  std::memcpy(&defaults, given, known_bytes(given));
  defaults.size = sizeof(Struct);
  return defaults;
}

/// Copies the members that both sides know. Leaves the size and the members that this library does not know unchanged.
template <class Struct>
void write_struct(const Struct& from, Struct* to) {
  constexpr std::size_t begin = sizeof(Struct::size);
  std::memcpy(reinterpret_cast<std::byte*>(to) + begin,
              reinterpret_cast<const std::byte*>(&from) + begin, known_bytes(to) - begin);
}

/// Returns element i of an array of the application.
/// @param stride  bytes from one element to the next
/// @throws core::Error invalid_argument if the element is longer than `stride`, or as known_bytes() does
template <class Struct>
Struct* element(Struct* array, std::size_t i, std::size_t stride) {
  using Byte = std::conditional_t<std::is_const_v<Struct>, const std::byte, std::byte>;
  auto* const at = reinterpret_cast<Struct*>(reinterpret_cast<Byte*>(array) + i * stride);
  known_bytes<std::remove_const_t<Struct>>(at);
  core::expects(stride >= at->size, [&] {
    return fmt::format("stride of an array of {0}: expected sizeof({0}), at least {1}; found {2}",
                       FirstVersion<std::remove_const_t<Struct>>::name, at->size, stride);
  });
  return at;
}

}  // namespace tremula::client
