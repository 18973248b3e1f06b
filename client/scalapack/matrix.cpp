// SPDX-License-Identifier: Apache-2.0
#include "client/scalapack/matrix.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "core/error.hpp"

namespace tremula::client::scalapack {

using index_calc::Layout, index_calc::LocalPart, index_calc::Selection;

namespace {

void check_range(std::string_view argument, int first, int count, int extent) {
  core::expects(first >= 1 && first - 1 <= extent - count, [&] {
    return fmt::format(
        "{}: expected a 1-based index from which {} elements fit into the {} of the matrix; found "
        "{}",
        argument, count, extent, first);
  });
}

Layout layout_of(const Matrix& matrix, Rank me) try {
  auto descriptor = matrix.descriptor;
  const int leading = std::exchange(descriptor[8], 1);  // differs between processes
  const Layout layout = Layout::from_scalapack(descriptor, matrix.grid.rows, matrix.grid.columns)
                            .dense()
                            .with_members(matrix.members);
  const LocalPart part = local_part(layout, me);
  if (part.elements == 0) return layout;
  core::expects(leading >= part.extent[0], [&] {
    return fmt::format(
        "expected a leading dimension desc[8] of at least the {} rows that this process holds; "
        "found {}",
        part.extent[0], leading);
  });
  return layout.with(index_calc::Storage{.order = layout.storage().order, .leading = leading});
} catch (const core::Error& e) {
  throw core::Error(e.code(), fmt::format("desc{}: {}", matrix.name, e.what()));
}

Selection selection_of(const Matrix& matrix, int m, int n) {
  check_range(std::string("i") + matrix.name, matrix.row, m, matrix.descriptor[2]);
  check_range(std::string("j") + matrix.name, matrix.column, n, matrix.descriptor[3]);
  return {.origin = {matrix.row - 1, matrix.column - 1}, .extents = {m, n}};
}

/// The bytes from the first element of a part to the end of its last element.
struct Stretch {
  std::size_t first = 0, end = 0;
};
Stretch stretch_of(const LocalPart& part, std::size_t width) {
  if (part.elements == 0) return {};
  Index last = part.first;
  for (std::size_t d = 0; d < part.dimensions; ++d) last += (part.extent[d] - 1) * part.stride[d];
  return {static_cast<std::size_t>(part.first) * width, static_cast<std::size_t>(last + 1) * width};
}

bool overlap(core::BytesView a, core::BytesView b) {
  const std::less<> before;
  return before(a.data(), b.data() + b.size()) && before(b.data(), a.data() + a.size());
}

}  // namespace

Matrix matrix_of(char name, const int* descriptor, int row, int column) {
  Matrix matrix{.name = name, .row = row, .column = column, .grid = grid_of(descriptor[1])};
  if (matrix.grid.has_me())
    std::copy_n(descriptor, matrix.descriptor.size(), matrix.descriptor.begin());
  return matrix;
}

std::vector<index_calc::RankRange> ranges_of(const std::vector<Rank>& ranks) {
  std::vector<index_calc::RankRange> ranges;
  for (const Rank rank : ranks)
    if (!ranges.empty() && rank.value == ranges.back().first.value + ranges.back().count)
      ++ranges.back().count;
    else
      ranges.push_back({rank, 1});
  return ranges;
}

bool is_empty(int m, int n) {
  core::expects(m >= 0 && n >= 0,
                [&] { return fmt::format("m, n: expected at least 0; found {} and {}", m, n); });
  return m == 0 || n == 0;
}

void move(Job& job, const Movement& movement, const Matrix& from, const void* from_data,
          const Matrix& to, void* to_data) {
  const auto [m, n, transposes, transformation] = movement;
  const Rank me = job.group().rank();
  Update update{.from = layout_of(from, me),
                .to = layout_of(to, me),
                .transformation = transformation,
                .of_from = selection_of(from, transposes ? n : m, transposes ? m : n),
                .of_to = selection_of(to, m, n)};
  if (transposes) update.axes = {1, 0};
  redistribute::Redistribution& redistribution = job.kept(update);

  const auto& array = redistribution.plan().arrays().front();
  core::BytesView source{static_cast<const std::byte*>(from_data),
                         static_cast<std::size_t>(array.from.allocated) * array.from_width};
  const std::span<std::byte> target{static_cast<std::byte*>(to_data),
                                    static_cast<std::size_t>(array.to.allocated) * array.to_width};
  core::Buffer copy;
  if (overlap(source, target)) {
    const auto [first, end] = stretch_of(array.from, array.from_width);
    copy = core::Buffer(source.size());
    if (first < end) std::memcpy(copy.span().data() + first, source.data() + first, end - first);
    source = copy.span();
  }
  const ConstMemoryView out(source);
  const MemoryView in(target);
  job.run(redistribution, {&out, 1}, {&in, 1});
}

}  // namespace tremula::client::scalapack
