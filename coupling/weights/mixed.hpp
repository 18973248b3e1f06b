// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

namespace tremula::weights {

/// Maps 64-bit numbers one to one with the finaliser of SplitMix64 (Steele, Lea, Flood 2014).
inline std::uint64_t mixed(std::uint64_t z) noexcept {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace tremula::weights
