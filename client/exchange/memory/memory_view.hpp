// SPDX-License-Identifier: Apache-2.0
#pragma once
// How memory of the application crosses the border into the engine.
#include <concepts>
#include <cstddef>
#include <span>
#include <string>

#include "core/error.hpp"

namespace tremula::client {

/// Where bytes lie.
enum class MemorySpace { host, device };

/// Bytes of the application. Owns nothing.
template <class Byte>
struct BasicMemoryView {
  std::span<Byte> bytes;
  MemorySpace space = MemorySpace::host;
  int device = 0;  ///< number of the device, for MemorySpace::device

  /// Of the host: whatever converts to a span.
  template <class Host>
  requires std::convertible_to<Host, std::span<Byte>> BasicMemoryView(Host&& host) : bytes(host) {}
  BasicMemoryView(std::span<Byte> view, MemorySpace in, int number)
      : bytes(view), space(in), device(number) {}
};
using MemoryView = BasicMemoryView<std::byte>;             ///< that is written
using ConstMemoryView = BasicMemoryView<const std::byte>;  ///< that is read

/// The door: what the engine can touch.
/// @throws core::Error unsupported for every space but the host's
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
