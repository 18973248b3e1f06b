// SPDX-License-Identifier: Apache-2.0
#include "index_calc/transform/carries.hpp"

#include <fmt/format.h>

#include <functional>
#include <utility>

#include "core/error.hpp"

namespace tremula::index_calc {

void Carries::add(const std::byte* at, Wide carry, Wide modulus, Read read) {
  modulus_ = modulus;
  read_ = read;
  carries_[at] += carry;
}

void Carries::settle() {
  std::size_t count = 0;
  const std::byte* first = nullptr;
  const auto carries = std::exchange(carries_, {});
  for (const auto& [at, carry] : carries) {
    if (carry == 0) continue;
    if (count++ == 0 || std::less<>()(at, first)) first = at;
  }
  if (count == 0) return;
  throw core::Error(
      core::Errc::mismatch,
      fmt::format("transform: expected sums that fit in {}, found {} made of {} that do not, the "
                  "first {}; receive a wider type or choose other factors",
                  core::to_string(to_), count, core::to_string(from_),
                  read_(first) + carries.at(first) * modulus_));
}

}  // namespace tremula::index_calc
