// SPDX-License-Identifier: Apache-2.0
#include "index_calc/pack/copy_list.hpp"

#include <algorithm>
#include <array>

#include "core/error.hpp"
#include "index_calc/pack/pack_bars.hpp"
#include "index_calc/pack/pack_ends.hpp"
#include "index_calc/plan/runs.hpp"

namespace tremula::index_calc {
namespace {

constexpr std::uint64_t most_entry_bytes = std::uint64_t{1} << 31;

void add_run(CopyList& list, CopyList::Entry run, std::uint64_t bytes) {
  if (!list.entries.empty()) {
    CopyList::Entry& last = list.entries.back();
    if (last.array == run.array && last.local + last.bytes == run.local &&
        last.wire + last.bytes == run.wire) {
      const std::uint64_t more = std::min(bytes, most_entry_bytes - last.bytes);
      last.bytes += static_cast<std::uint32_t>(more);
      run.local += more;
      run.wire += more;
      bytes -= more;
    }
  }
  while (bytes > 0) {
    run.bytes = static_cast<std::uint32_t>(std::min(bytes, most_entry_bytes));
    list.entries.push_back(run);
    run.local += run.bytes;
    run.wire += run.bytes;
    bytes -= run.bytes;
  }
}

/// Calls visit(from, to, bytes) for the runs between two buffers, in ascending order of `to`.
template <class Visit>
void for_each_ascending_run(const Walk& walk, const Visit& visit) {
  auto axes = walk.axes;
  const std::span used(axes.data(), walk.depth);
  std::ranges::stable_sort(used, std::greater{}, &Axis::to_step);
  for_each_run(used, walk.to_unit, walk.from, walk.to, visit);
}

/// Copies one entry. The common sizes of one or two elements need no loop.
inline void copy_entry(std::byte* to, const std::byte* from, std::uint32_t bytes) {
  switch (bytes) {
    case 4:
      return copy_fixed<4>(to, from);
    case 8:
      return copy_fixed<8>(to, from);
    case 16:
      return copy_fixed<16>(to, from);
    default:
      return copy_run(to, from, bytes);
  }
}

}  // namespace

bool append(CopyList& list, const Package& package, const LocalPart& part, Order order,
            std::size_t element_bytes, std::uint32_t array, std::size_t wire_at,
            std::size_t most_runs) {
  const Stretch whole{.first = 0, .count = package.elements};
  std::size_t local_bytes = 0, wire_bytes = 0;
  if (part.allocated < 0 || __builtin_mul_overflow(part.allocated, element_bytes, &local_bytes) ||
      __builtin_mul_overflow(package.elements, element_bytes, &wire_bytes))
    throw core::Error(core::Errc::invalid_argument,
                      "copy list: expected a part of fewer than 2^64 bytes");
  const End from{Whose::mine, &part, element_bytes, local_bytes};
  const End to{Whose::wire, nullptr, element_bytes, wire_bytes};
  check(package, whole, from, to);
  if (static_cast<std::size_t>(runs(package, part, order).count) > most_runs) return false;
  for_each_walk(package, order, whole, from, to, [&](const Walk& walk) {
    for_each_ascending_run(walk, [&](auto local, auto wire, auto bytes) {
      add_run(list,
              {.local = static_cast<std::uint64_t>(local),
               .wire = wire_at + static_cast<std::uint64_t>(wire),
               .bytes = 0,
               .array = array},
              static_cast<std::uint64_t>(bytes));
    });
  });
  return true;
}

void gather(std::span<const CopyList::Entry> entries, std::span<const std::byte* const> arrays,
            std::byte* wire) {
  for (const CopyList::Entry& e : entries)
    copy_entry(wire + e.wire, arrays[e.array] + e.local, e.bytes);
}

void scatter(std::span<const CopyList::Entry> entries, const std::byte* wire,
             std::span<std::byte* const> arrays) {
  for (const CopyList::Entry& e : entries)
    copy_entry(arrays[e.array] + e.local, wire + e.wire, e.bytes);
}

}  // namespace tremula::index_calc
