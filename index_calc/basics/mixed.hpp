// SPDX-License-Identifier: Apache-2.0
#pragma once
// A hash of one number; private to this room.
#include <cstdint>

namespace tremula::index_calc {

/// Mixes the bits of a number, one to one: the finaliser of SplitMix64 (Steele, Lea, Flood 2014,
/// "Fast splittable pseudorandom number generators").
constexpr std::uint64_t mixed(std::uint64_t z) noexcept {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/// 2^64 divided by the golden ratio: multiples of it differ in many bits.
inline constexpr std::uint64_t golden = 0x9e3779b97f4a7c15u;

}  // namespace tremula::index_calc
