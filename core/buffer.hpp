// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <memory>
#include <new>
#include <span>

namespace tremula::core {

/// Uninitialised bytes on a cache-line boundary, of a fixed size. Move-only.
class Buffer {
public:
  static constexpr std::size_t alignment = 64;

  Buffer() = default;
  explicit Buffer(std::size_t bytes)
      : data_(static_cast<std::byte*>(::operator new (bytes, std::align_val_t{alignment}))),
        bytes_(bytes) {}

  std::span<std::byte> span() noexcept { return {data_.get(), bytes()}; }
  std::span<const std::byte> span() const noexcept { return {data_.get(), bytes()}; }
  std::size_t bytes() const noexcept { return data_ ? bytes_ : 0; }  // 0 once moved from

private:
  struct Free {
    void operator()(std::byte* p) const noexcept {
      ::operator delete (p, std::align_val_t{alignment});
    }
  };
  std::unique_ptr<std::byte, Free> data_;
  std::size_t bytes_ = 0;
};

}  // namespace tremula::core
