// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <utility>

namespace tremula::core {

/// Sole owner of a foreign handle (file descriptor, fid, MPI object). Lets classes that own handles
/// keep defaulted special members.
/// @tparam Traits  `Handle` (a cheap value), `static Handle none()`, `static void close(Handle)
/// noexcept`
template <class Traits>
class UniqueHandle {
public:
  using Handle = typename Traits::Handle;
  UniqueHandle() = default;
  explicit UniqueHandle(Handle handle) : handle_(handle) {}
  UniqueHandle(UniqueHandle&& other) noexcept
      : handle_(std::exchange(other.handle_, Traits::none())) {}
  UniqueHandle& operator=(UniqueHandle&& other) noexcept {
    if (this != &other) {
      reset();
      handle_ = std::exchange(other.handle_, Traits::none());
    }
    return *this;
  }
  ~UniqueHandle() { reset(); }

  Handle get() const noexcept { return handle_; }
  explicit operator bool() const noexcept { return handle_ != Traits::none(); }
  /// Returns the handle and gives up its ownership: the caller must close it.
  Handle release() noexcept { return std::exchange(handle_, Traits::none()); }
  void reset() noexcept {
    if (handle_ != Traits::none()) Traits::close(std::exchange(handle_, Traits::none()));
  }

private:
  Handle handle_ = Traits::none();
};

}  // namespace tremula::core
