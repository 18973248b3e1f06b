// SPDX-License-Identifier: Apache-2.0
#include "index_calc/distribution.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.hpp"

namespace tremula::index_calc {
namespace {

template <class... F>
struct Visitor : F... {
  using F::operator()...;
};
template <class... F>
Visitor(F...) -> Visitor<F...>;

void check(bool ok, const std::string& text) {
  if (!ok) throw core::Error(core::Errc::invalid_argument, text);
}

void validate_one(const BlockCyclic& d) {
  check(d.extent >= 0, fmt::format("expected an extent of at least 0, found {}", d.extent));
  check(d.block >= 1, fmt::format("expected a block of at least 1 element, found {}", d.block));
  check(d.grid >= 1, fmt::format("expected a grid of at least 1 coordinate, found {}", d.grid));
  check(d.source >= 0 && d.source < d.grid,
        fmt::format("expected a source coordinate from 0 to {}, found {}", d.grid - 1, d.source));
}

void validate_one(const Splits& d) {
  check(d.grid >= 1, fmt::format("expected a grid of at least 1 coordinate, found {}", d.grid));
  check(!d.bounds.empty() && d.bounds.front() == 0,
        d.bounds.empty()
            ? "expected bounds that begin with 0, found none"
            : fmt::format("expected bounds that begin with 0, found {}", d.bounds.front()));
  for (std::size_t i = 1; i < d.bounds.size(); ++i)
    check(d.bounds[i - 1] < d.bounds[i],
          fmt::format("expected bounds that increase, found {} after {}; leave empty intervals out",
                      d.bounds[i], d.bounds[i - 1]));
  check(d.owner.size() + 1 == d.bounds.size(),
        fmt::format(
            "expected one owner for each of the {} intervals between {} bounds, found {} owners",
            d.bounds.size() - 1, d.bounds.size(), d.owner.size()));
  for (std::size_t i = 0; i < d.owner.size(); ++i)
    check(d.owner[i] >= 0 && d.owner[i] < d.grid,
          fmt::format("expected owners from 0 to {}, found {} for interval {}", d.grid - 1,
                      d.owner[i], i));
}

/// The interval that holds `i`.
std::size_t interval_of(const Splits& d, Index i) noexcept {
  return static_cast<std::size_t>(std::upper_bound(d.bounds.begin() + 1, d.bounds.end(), i) -
                                  d.bounds.begin() - 1);
}

Index length(const Splits& d, std::size_t interval) noexcept {
  return d.bounds[interval + 1] - d.bounds[interval];
}

}  // namespace

void validate(const Distribution& d) {
  std::visit([](const auto& one) { validate_one(one); }, d);
}

Index extent(const Distribution& d) noexcept {
  return std::visit(
      Visitor{[](const BlockCyclic& one) { return one.extent; },
              [](const Splits& one) { return one.bounds.empty() ? 0 : one.bounds.back(); }},
      d);
}

Index grid(const Distribution& d) noexcept {
  return std::visit([](const auto& one) { return one.grid; }, d);
}

GridCoord owner(const Distribution& d, GlobalIndex i) noexcept {
  return std::visit(
      Visitor{[i](const BlockCyclic& one) {
                const Index turn = i.value / one.block % one.grid;
                return GridCoord{turn < one.grid - one.source ? turn + one.source
                                                              : turn - (one.grid - one.source)};
              },
              [i](const Splits& one) { return GridCoord{one.owner[interval_of(one, i.value)]}; }},
      d);
}

LocalIndex to_local(const Distribution& d, GlobalIndex i) noexcept {
  return std::visit(
      Visitor{[i](const BlockCyclic& one) {
                // Divided twice, because block * grid may exceed 63 bits.
                return LocalIndex{i.value / one.block / one.grid * one.block + i.value % one.block};
              },
              [i](const Splits& one) {
                const std::size_t here = interval_of(one, i.value);
                Index before = 0;
                for (std::size_t k = 0; k < here; ++k)
                  if (one.owner[k] == one.owner[here]) before += length(one, k);
                return LocalIndex{before + i.value - one.bounds[here]};
              }},
      d);
}

GlobalIndex to_global(const Distribution& d, GridCoord c, LocalIndex i) noexcept {
  return std::visit(
      Visitor{[c, i](const BlockCyclic& one) {
                const Index turn = c.value >= one.source ? c.value - one.source
                                                         : c.value + (one.grid - one.source);
                return GlobalIndex{(i.value / one.block * one.grid + turn) * one.block +
                                   i.value % one.block};
              },
              [c, i](const Splits& one) {
                Index rest = i.value;
                std::size_t k = 0;
                for (; one.owner[k] != c.value || rest >= length(one, k); ++k)
                  if (one.owner[k] == c.value) rest -= length(one, k);
                return GlobalIndex{one.bounds[k] + rest};
              }},
      d);
}

Index local_extent(const Distribution& d, GridCoord c) noexcept {
  return std::visit(
      Visitor{
          [c](const BlockCyclic& one) {
            const Index turn =
                c.value >= one.source ? c.value - one.source : c.value + (one.grid - one.source);
            const Index full_blocks = one.extent / one.block;
            const Index rounds = full_blocks / one.grid, left = full_blocks % one.grid;
            const Index last = turn < left ? one.block : turn == left ? one.extent % one.block : 0;
            return rounds * one.block + last;
          },
          [c](const Splits& one) {
            Index sum = 0;
            for (std::size_t k = 0; k < one.owner.size(); ++k)
              if (one.owner[k] == c.value) sum += length(one, k);
            return sum;
          }},
      d);
}

}  // namespace tremula::index_calc
