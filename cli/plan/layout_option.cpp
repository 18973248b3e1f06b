// SPDX-License-Identifier: Apache-2.0
#include "cli/plan/layout_option.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tremula::cli {

namespace {

/// The text, or of a long one what surrounds the position, and the caret. One column a byte.
std::string marked(std::string text, std::size_t position) {
  for (char& c : text)
    if (c < ' ' || c > '~') c = c == '\t' || c == '\n' || c == '\r' ? ' ' : '?';
  constexpr std::size_t reach = 45;
  std::size_t caret = position;
  if (text.size() > position + reach) text = text.substr(0, position + reach) + "...";
  if (position > reach) {
    text = "..." + text.substr(position - reach);
    caret = reach + 3;
  }
  return fmt::format("  {}\n  {:>{}}", text, '^', caret + 1);
}

}  // namespace

index_calc::Layout parse_layout_option(const std::string& option, const std::string& text) {
  try {
    return index_calc::Layout::parse(text);
  } catch (const index_calc::LayoutError& error) {
    throw core::Error(core::Errc::invalid_argument,
                      fmt::format("{}, position {}: {}\n{}", option, error.position(),
                                  error.complaint(), marked(text, error.position())));
  }
}

}  // namespace tremula::cli
