// SPDX-License-Identifier: Apache-2.0
#pragma once
// Views through which the application passes its memory to the engine.
#include <concepts>
#include <cstddef>
#include <span>
#include <string>

#include "core/error.hpp"

namespace tremula::client {

/// The memory that holds an array.
enum class MemorySpace { host, device };

/// View of memory of the application; owns nothing.
template <class Byte>
struct BasicMemoryView {
  std::span<Byte> bytes;
  MemorySpace space = MemorySpace::host;
  int device = 0;  ///< number of the device, for MemorySpace::device

  /// Views host memory: anything that converts to a span.
  template <class Host>
  requires std::convertible_to<Host, std::span<Byte>> BasicMemoryView(Host&& host) : bytes(host) {}
  BasicMemoryView(std::span<Byte> view, MemorySpace in, int number)
      : bytes(view), space(in), device(number) {}
};
using MemoryView = BasicMemoryView<std::byte>;             ///< memory that is written
using ConstMemoryView = BasicMemoryView<const std::byte>;  ///< memory that is read

/// Returns the bytes of a view, for the engine to access.
/// @throws core::Error unsupported unless they are in host memory
template <class Byte>
std::span<Byte> host_bytes(const BasicMemoryView<Byte>& view) {
  if (view.space != MemorySpace::host)
    throw core::Error(core::Errc::unsupported,
                      "expected an array in host memory, found one on device " +
                          std::to_string(view.device) +
                          ": this build moves host memory only; copy the array to the host first");
  return view.bytes;
}

}  // namespace tremula::client
