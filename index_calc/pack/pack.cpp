// SPDX-License-Identifier: Apache-2.0
#include "index_calc/pack/pack.hpp"

#include <fmt/format.h>

#include "core/error.hpp"
#include "index_calc/pack/pack_ends.hpp"
#include "index_calc/pack/pack_kernels.hpp"

namespace tremula::index_calc {
namespace {

void move(const Package& package, Order order, Stretch stretch, const End& from,
          const std::byte* from_bytes, const End& to, std::byte* to_bytes,
          const CopyTuning& tuning) {
  const CacheUse use = cache_use(package, stretch, from, to, tuning);
  for_each_walk(package, order, stretch, from, to, [&](const Walk& walk) {
    move_elements(walk, from_bytes, to_bytes, use,
                  [use](auto unit) { return ByteMover(unit, use); });
  });
}

void add_run(std::vector<CommonRun>& runs, std::ptrdiff_t from, std::ptrdiff_t to,
             std::ptrdiff_t length) {
  const auto their = static_cast<std::size_t>(from), my = static_cast<std::size_t>(to),
             bytes = static_cast<std::size_t>(length);
  if (!runs.empty() && runs.back().theirs + runs.back().bytes == their &&
      runs.back().mine + runs.back().bytes == my)
    runs.back().bytes += bytes;
  else
    runs.push_back({.theirs = their, .mine = my, .bytes = bytes});
}

Stretch whole(const Package& package) { return {.first = 0, .count = package.elements}; }

}  // namespace

void pack(const Package& package, const LocalPart& part, Order order, std::size_t element_bytes,
          Stretch stretch, std::span<const std::byte> local, std::span<std::byte> wire,
          const CopyTuning& tuning) {
  move(package, order, stretch, {Whose::mine, &part, element_bytes, local.size()}, local.data(),
       {Whose::wire, nullptr, element_bytes, wire.size()}, wire.data(), tuning);
}

void pack(const Package& package, const LocalPart& part, Order order, std::size_t element_bytes,
          std::span<const std::byte> local, std::span<std::byte> wire) {
  pack(package, part, order, element_bytes, whole(package), local, wire);
}

void unpack(const Package& package, const LocalPart& part, Order order, std::size_t element_bytes,
            Stretch stretch, std::span<const std::byte> wire, std::span<std::byte> local,
            const CopyTuning& tuning) {
  move(package, order, stretch, {Whose::wire, nullptr, element_bytes, wire.size()}, wire.data(),
       {Whose::mine, &part, element_bytes, local.size()}, local.data(), tuning);
}

void unpack(const Package& package, const LocalPart& part, Order order, std::size_t element_bytes,
            std::span<const std::byte> wire, std::span<std::byte> local) {
  unpack(package, part, order, element_bytes, whole(package), wire, local);
}

void copy_from_peer(const Package& package, const LocalPart& mine, const LocalPart& theirs,
                    Order order, std::size_t element_bytes, Stretch stretch,
                    std::span<const std::byte> their_local, std::span<std::byte> my_local,
                    const CopyTuning& tuning) {
  move(package, order, stretch, {Whose::peer, &theirs, element_bytes, their_local.size()},
       their_local.data(), {Whose::mine, &mine, element_bytes, my_local.size()}, my_local.data(),
       tuning);
}

void copy_from_peer(const Package& package, const LocalPart& mine, const LocalPart& theirs,
                    std::size_t element_bytes, std::span<const std::byte> their_local,
                    std::span<std::byte> my_local) {
  copy_from_peer(package, mine, theirs, Order::row, element_bytes, whole(package), their_local,
                 my_local);
}

void copy_to_peer(const Package& package, const LocalPart& mine, const LocalPart& theirs,
                  Order order, std::size_t element_bytes, Stretch stretch,
                  std::span<const std::byte> my_local, std::span<std::byte> their_local,
                  const CopyTuning& tuning) {
  move(package, order, stretch, {Whose::mine, &mine, element_bytes, my_local.size()},
       my_local.data(), {Whose::peer, &theirs, element_bytes, their_local.size()},
       their_local.data(), tuning);
}

void copy_to_peer(const Package& package, const LocalPart& mine, const LocalPart& theirs,
                  std::size_t element_bytes, std::span<const std::byte> my_local,
                  std::span<std::byte> their_local) {
  copy_to_peer(package, mine, theirs, Order::row, element_bytes, whole(package), my_local,
               their_local);
}

void list_common_runs(const Package& package, const LocalPart& mine, const LocalPart& theirs,
                      Order order, std::size_t element_bytes, Stretch stretch,
                      std::span<const std::byte> my_local, std::vector<CommonRun>& runs) {
  // Their buffer is in another address space, so only its length is used.
  std::size_t their_bytes = 0;
  if (theirs.allocated < 0 || __builtin_mul_overflow(static_cast<std::size_t>(theirs.allocated),
                                                     element_bytes, &their_bytes))
    throw core::Error(core::Errc::invalid_argument,
                      fmt::format("pack: expected a peer's buffer of 0 to 2^64 - 1 bytes, found "
                                  "{} elements of {} bytes",
                                  theirs.allocated, element_bytes));
  for_each_walk(package, order, stretch, {Whose::peer, &theirs, element_bytes, their_bytes},
                {Whose::mine, &mine, element_bytes, my_local.size()}, [&](const Walk& walk) {
                  for_each_run(
                      {walk.axes.data(), walk.depth}, walk.to_unit, walk.from, walk.to,
                      [&](auto from, auto to, auto length) { add_run(runs, from, to, length); });
                });
}

}  // namespace tremula::index_calc
