// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace tremula::core {

/// Returns how many letters have to be inserted, removed or replaced to turn one text into the
/// other (Levenshtein distance).
std::size_t letters_between(std::string_view a, std::string_view b);

/// Returns the text of `known` that `text` probably misspells; empty if every known text differs
/// from `text` in more than two letters and in more than a third of the letters of `text`.
std::string_view likely_meant(std::string_view text, std::span<const std::string> known);

}  // namespace tremula::core
