// SPDX-License-Identifier: Apache-2.0
#pragma once
// A sum of doubles without rounding. It depends neither on the order of the values nor on which rank adds
// which of them.
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>

namespace tremula::weights {

/// A fixed-point number of 70 digits of 32 bits. The unit of the lowest digit is 2^-1074, of which every finite
/// double is a multiple (Kulisch and Miranker 1986). The digits do not overflow, because add() carries after every
/// 2^30 values.
class ExactSum {
public:
  void add(double value) {
    if (!std::isfinite(value)) {
      special_ += value;
      return;
    }
    const auto bits = std::bit_cast<std::uint64_t>(value);
    const auto exponent = static_cast<int>(bits >> 52 & 0x7ff);
    const std::uint64_t fraction =
        (bits & 0xfffffffffffffu) | (exponent != 0 ? std::uint64_t{1} << 52 : 0);
    const int shift = exponent != 0 ? exponent - 1 : 0;  // value = fraction * 2^(shift - 1074)
    auto digit = static_cast<std::size_t>(shift / 32);
    const std::int64_t sign = bits >> 63 != 0 ? -1 : 1;
    const int left = shift % 32;
    const std::uint64_t low = fraction << left;
    const std::uint64_t high = left != 0 ? fraction >> (64 - left) : 0;
    digits_[digit] += sign * static_cast<std::int64_t>(low & 0xffffffffu);
    digits_[digit + 1] += sign * static_cast<std::int64_t>(low >> 32);
    digits_[digit + 2] += sign * static_cast<std::int64_t>(high);
    if (++added_ == 1 << 30) carry();
  }
  void add(ExactSum other) {
    carry();
    other.carry();
    for (std::size_t i = 0; i < digits_.size(); ++i) digits_[i] += other.digits_[i];
    special_ += other.special_;
    carry();
  }
  /// Returns the sum, rounded with an error below one unit in the last place. Equal sums are rounded
  /// to the same double.
  double value() const {
    if (special_ != 0) return special_;  // NaN or infinite
    ExactSum whole = *this;
    whole.carry();
    const bool is_negative = whole.digits_.back() < 0;
    if (is_negative) {
      for (std::int64_t& digit : whole.digits_) digit = -digit;
      whole.carry();
    }
    double sum = 0;
    for (std::size_t i = whole.digits_.size(); i-- > 0;)
      sum += std::ldexp(static_cast<double>(whole.digits_[i]), static_cast<int>(i) * 32 - 1074);
    return is_negative ? -sum : sum;
  }

private:
  /// Carries, so that all digits but the last are in [0, 2^32).
  void carry() {
    std::int64_t over = 0;
    for (std::size_t i = 0; i + 1 < digits_.size(); ++i) {
      const std::int64_t digit = digits_[i] + over;
      over = digit >> 32;
      digits_[i] = digit & 0xffffffff;
    }
    digits_.back() += over;
    added_ = 0;
  }
  std::array<std::int64_t, 70> digits_{};
  double special_ = 0;
  std::int64_t added_ = 0;
};

}  // namespace tremula::weights
