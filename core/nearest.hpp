// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace tremula::core {

/// Returns how many letters have to be inserted, dropped or replaced to make one text of the other
/// (Levenshtein).
std::size_t letters_between(std::string_view a, std::string_view b);

/// Returns the one of `known` that `text` is probably a slip of the pen for; empty if all of them
/// differ in more than a third of its letters.
std::string_view likely_meant(std::string_view text, std::span<const std::string> known);

}  // namespace tremula::core
