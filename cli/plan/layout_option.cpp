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

/// Returns the text, or the surroundings of the position if the text is long, with a caret in the
/// line below. Counts one column per byte.
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

void size_by_counts(Layout& from, Layout& to, const std::vector<Index>& counts) {
  if (!from.changing && !to.changing) {
    core::expects(
        counts.empty(),
        "--counts: expected * in the shapes of --from and --to, found none: leave it out");
    return;
  }
  validate_pair(from, to);
  const auto coordinates = static_cast<std::size_t>(grid(from.dims[from.changing->dimension]));
  core::expects(
      counts.size() == coordinates &&
          std::ranges::none_of(counts, [](Index count) { return count < 0; }),
      [&] {
        return fmt::format(
            "--counts: expected {} numbers of at least 0, the numbers of elements that the "
            "coordinates of --from have along dimension {} in a step, found {}",
            coordinates, from.changing->dimension,
            counts.empty() ? "none" : fmt::format("{}", fmt::join(counts, "/")));
      });
  if (!to.changing->key.empty())
    throw core::Error(core::Errc::unsupported,
                      fmt::format("--to: expected a layout without keys, found key={}: which rank "
                                  "takes a row is known only when its key is known",
                                  to.changing->key));
  from = sized(from, counts);
  to = sized(to, extent(from.dims[to.changing->dimension]));
}

}  // namespace tremula::cli
