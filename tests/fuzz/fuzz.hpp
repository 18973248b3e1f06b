// SPDX-License-Identifier: Apache-2.0
#pragma once
// Code shared by the fuzz targets. A target is one file with one function that takes any bytes:
// libFuzzer calls it with bytes that it generates (`./dev test fuzz`), and replay.cpp calls it with
// the bytes of the corpus. A violated property ends the process, as does a fault that a sanitizer
// detects.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/types.hpp"

/// @return 0
// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer requires this name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace tremula::fuzz {

inline core::BytesView view(const std::uint8_t* data, std::size_t size) {
  return std::as_bytes(std::span(data, size));
}
inline std::string text(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

inline void require(bool holds, std::string_view property) {
  if (holds) return;
  std::fprintf(stderr, "expected: %.*s\n", static_cast<int>(property.size()), property.data());
  std::abort();
}

/// Choices made by the bytes, for targets that run events; 0 if no byte is left.
class Choices {
public:
  explicit Choices(core::BytesView bytes) : bytes_(bytes) {}
  bool has_more() const { return !bytes_.empty(); }
  /// Returns 0 to 255.
  std::uint8_t byte() {
    if (bytes_.empty()) return 0;
    const auto first = static_cast<std::uint8_t>(bytes_.front());
    bytes_ = bytes_.subspan(1);
    return first;
  }
  /// Returns 0 to limit - 1.  @pre limit is at most 256
  int below(int limit) { return byte() % limit; }
  bool flag() { return byte() % 2 != 0; }
  /// Returns a number that is small in most cases, and otherwise has any 64 bits.
  std::uint64_t number() {
    const std::uint8_t first = byte();
    if (first < 0xf8) return first;
    std::uint64_t all = 0;
    for (int i = 0; i < 8; ++i) all = all << 8 | byte();
    return all;
  }
  template <class Item>
  const Item& of(const std::vector<Item>& items) {
    return items[static_cast<std::size_t>(below(static_cast<int>(items.size())))];
  }
  core::BytesView bytes(std::size_t count) {
    const auto some = bytes_.first(std::min(count, bytes_.size()));
    bytes_ = bytes_.subspan(some.size());
    return some;
  }

private:
  core::BytesView bytes_;
};

}  // namespace tremula::fuzz
