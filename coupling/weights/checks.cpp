// SPDX-License-Identifier: Apache-2.0
#include "coupling/weights/checks.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <numeric>
#include <string_view>
#include <vector>

#include "coupling/weights/failure.hpp"

namespace tremula::weights {

namespace {

/// Returns the value of a key in the text of a layout; empty if the text lacks the key.
std::string_view value_of(std::string_view text, std::string_view key) {
  const auto at = text.find(fmt::format(" {}=", key));
  if (at == text.npos) return {};
  const auto begin = at + key.size() + 2;
  return text.substr(begin, text.find(' ', begin) - begin);
}

/// Returns the numbers in a text, whatever separates them.
std::vector<std::int64_t> numbers_in(std::string_view text) {
  constexpr std::string_view digits = "0123456789";
  std::vector<std::int64_t> numbers;
  for (auto at = text.find_first_of(digits); at != text.npos; at = text.find_first_of(digits, at)) {
    const auto end = std::min(text.find_first_not_of(digits, at), text.size());
    std::int64_t number = 0;
    std::from_chars(text.data() + at, text.data() + end, number);
    numbers.push_back(number);
    at = end;
  }
  return numbers;
}

}  // namespace

std::int64_t product(std::span<const std::int64_t> extents) {
  return std::accumulate(extents.begin(), extents.end(), std::int64_t{1}, std::multiplies<>());
}

void expect_destination_of(const tremula_layout* layout, int ranks) {
  const std::string_view text = tremula_layout_text(layout);
  if (!value_of(text, "sum").empty())
    throw Failure(
        TREMULA_UNSUPPORTED,
        fmt::format("weights: expected a destination whose ranks hold whole values; found "
                    "partial sums (sum=) in \"{}\": regrid into a layout without them, "
                    "and redistribute to this one",
                    text));
  if (const auto members = numbers_in(value_of(text, "members")); !members.empty()) {
    if (const auto last = *std::ranges::max_element(members); last >= ranks)
      throw Failure(
          TREMULA_INVALID_ARGUMENT,
          fmt::format("weights: expected members of a group of {} ranks, 0 to {}; found rank {} in "
                      "the destination \"{}\": name ranks of the group",
                      ranks, ranks - 1, last, text));
    return;
  }
  std::int64_t cells = 1;
  for (const char* key : {"grid", "mesh", "lists"})
    for (const std::int64_t extent : numbers_in(value_of(text, key))) cells *= extent;
  if (cells != ranks)
    throw Failure(
        TREMULA_INVALID_ARGUMENT,
        fmt::format("weights: expected a destination on the {} rank(s) of the group; found "
                    "{} in \"{}\": choose another grid, or name the ranks that take part "
                    "with members=",
                    ranks, cells, text));
}

void expect_shape_of(const Grid& grid, std::span<const std::int64_t> shape, Order order,
                     const std::string& path, const std::string& side) {
  if (product(shape) != grid.size)
    throw Failure(
        TREMULA_MISMATCH,
        fmt::format("weights '{}': expected a {} array of {} elements ({} in the file, fastest "
                    "first); found the shape {}",
                    path, side, grid.size, fmt::join(grid.extents, "x"), fmt::join(shape, "x")));
  // A dimension of extent 1 does not affect the numbering.
  const auto above_1 = [](std::span<const std::int64_t> extents) {
    std::vector<std::int64_t> kept;
    std::ranges::copy_if(extents, std::back_inserter(kept), [](auto extent) { return extent > 1; });
    return kept;
  };
  std::vector<std::int64_t> expected(grid.extents);
  if (order == Order::row) std::ranges::reverse(expected);
  const auto wanted = above_1(expected), found = above_1(shape);
  if (found.size() != wanted.size() || found == wanted) return;
  const bool is_turned = std::ranges::equal(found, std::vector(wanted.rbegin(), wanted.rend()));
  const char* const other = order == Order::row ? "column" : "row";
  throw Failure(
      TREMULA_MISMATCH,
      fmt::format(
          "weights '{}': expected a {} array of the shape {}, because the file's grid is {} with "
          "the fastest dimension first and the option order is {}; found the shape {}: {}",
          path, side, fmt::join(expected, "x"), fmt::join(grid.extents, "x"),
          order == Order::row ? "row" : "column", fmt::join(shape, "x"),
          is_turned ? fmt::format("say order: {}, if its {} dimension is the file's fastest", other,
                                  order == Order::row ? "first" : "last")
                    : std::string("give the array that shape, or one dimension")));
}

}  // namespace tremula::weights
