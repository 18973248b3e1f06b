// SPDX-License-Identifier: Apache-2.0
#include "cli/plan/layout_option.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "index_calc/layout/changing.hpp"

namespace tremula::cli {

namespace {

using core::Index;
using index_calc::Layout;

constexpr std::size_t reach = 45;  // bytes that are shown on both sides of a position

/// Replaces characters that would not take one column by others.
std::string printable(std::string text) {
  for (char& c : text)
    if (c < ' ' || c > '~') c = c == '\t' || c == '\n' || c == '\r' ? ' ' : '?';
  return text;
}

/// Returns the text, or the surroundings of the position if the text is long, with a caret in the
/// line below. Counts one column per byte.
std::string marked(const std::string& whole, std::size_t position) {
  std::string text = printable(whole);
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

void size_by_counts(Layout& from, Layout& to, const std::vector<Index>& counts) {
  if (from.changing() == nullptr && to.changing() == nullptr) {
    core::expects(
        counts.empty(),
        "--counts: expected * in the shapes of --from and --to, found none: leave --counts out");
    return;
  }
  validate_pair(from, to);
  const index_calc::Changing& produced = *from.changing();
  core::expects(produced.is_even && produced.key.empty(), [&] {
    return fmt::format(
        "--from: expected no block and no key along dimension {} of the producer, whose ranks' "
        "elements follow each other as they put them; found \"{}\": leave them out",
        produced.dimension, to_string(from));
  });
  const auto coordinates = static_cast<std::size_t>(produced.coordinates());
  core::expects(
      counts.size() == coordinates &&
          std::ranges::none_of(counts, [](Index count) { return count < 0; }),
      [&] {
        return fmt::format(
            "--counts: expected {} numbers of at least 0, the numbers of elements that the "
            "coordinates of --from have along dimension {} in a step, found {}",
            coordinates, changing_dimension(from),
            counts.empty() ? "none" : fmt::format("{}", fmt::join(counts, "/")));
      });
  if (const std::string& key = to.changing()->key; !key.empty())
    throw core::Error(core::Errc::unsupported,
                      fmt::format("--to: expected a layout without keys, found key={}: which rank "
                                  "takes a row is known only when its key is known",
                                  key));
  from = sized(from, counts);
  to = sized(to, extent(from, changing_dimension(to)));
}

}  // namespace tremula::cli
