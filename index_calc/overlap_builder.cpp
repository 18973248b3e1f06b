// SPDX-License-Identifier: Apache-2.0
#include "index_calc/overlap_builder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "core/error.hpp"

namespace tremula::index_calc {
namespace {

struct Key {
  Index peer;
  std::uint32_t piece;  ///< number of the piece, below most_pieces
};

/// The pieces by peer, those of one peer in the order in which they came: radix sort with a digit
/// that never has more values than there are pieces, so that neither time nor memory knows how many
/// peers there could be.
std::vector<Key> by_peer(const std::vector<Piece>& pieces, Index peers) {
  std::vector<Key> keys;
  keys.reserve(pieces.size());
  for (const Piece& p : pieces) keys.push_back({p.peer, static_cast<std::uint32_t>(keys.size())});
  if (std::is_sorted(keys.begin(), keys.end(), [](auto& a, auto& b) { return a.peer < b.peer; }))
    return keys;
  const int digit = std::clamp(static_cast<int>(std::bit_width(keys.size())) - 1, 1, 11);
  const std::size_t mask = (std::size_t{1} << digit) - 1;
  std::vector<Key> sorted(keys.size());
  std::vector<std::size_t> place(mask + 1);
  for (int shift = 0; shift < 63 && (peers - 1) >> shift != 0; shift += digit) {
    const auto digit_of = [&](const Key& k) {
      return static_cast<std::size_t>(k.peer) >> shift & mask;
    };
    std::fill(place.begin(), place.end(), std::size_t{0});
    for (const Key& k : keys) ++place[digit_of(k)];
    std::size_t before = 0;
    for (std::size_t& n : place) before += std::exchange(n, before);
    for (const Key& k : keys) sorted[place[digit_of(k)]++] = k;
    keys.swap(sorted);
  }
  return keys;
}

}  // namespace

void grow(std::vector<Piece>& pieces, std::size_t most) {
  if (pieces.size() >= most)
    throw core::Error(
        core::Errc::unsupported,
        fmt::format(
            "expected at most {} segments along one dimension of one rank, found more: the blocks "
            "of the two layouts fall together too rarely; choose blocks for which the smallest "
            "common multiple of block x grid of both sides is smaller",
            most));
  pieces.reserve(std::min(most, std::max<std::size_t>(64, 2 * pieces.size())));
}

Overlaps OverlapsBuilder::build(const std::vector<Piece>& pieces, const Repetition& r) {
  Overlaps result;
  result.family_stride_ = r.family_stride;
  result.family_peer_stride_ = r.family_peer_stride;
  result.repeat_ = r.repeat;
  result.stride_ = r.stride;
  result.peer_stride_ = r.peer_stride;
  result.families_.reserve(pieces.size());

  const auto add_list = [&](std::span<const Key> of_one_peer, Index coordinate) {
    Overlaps::List list{.begin = result.families_.size()};
    Index in_period = 0, in_tail = 0;
    for (const Key& k : of_one_peer) {
      const Family& f = pieces[k.piece].family;
      const Index begin = f.first.begin.value, length = f.first.length;
      result.families_.push_back(f);
      in_period += f.count * length;
      if (begin >= r.rest) continue;
      const Index last_begin = begin + (f.count - 1) * r.family_stride;
      ++list.tail;
      list.tail_count = last_begin < r.rest ? f.count : (r.rest - begin - 1) / r.family_stride + 1;
      list.tail_length =
          std::min(length, r.rest - (begin + (list.tail_count - 1) * r.family_stride));
      in_tail += (list.tail_count - 1) * length + list.tail_length;
    }
    list.elements = in_period * r.repeat + in_tail;
    result.peers_.push_back({coordinate});
    result.lists_.push_back(list);
  };
  const auto add_lists = [&](std::span<const Key> sorted, Index shift) {
    for (std::size_t begin = 0, end = 0; begin < sorted.size(); begin = end) {
      while (end < sorted.size() && sorted[end].peer == sorted[begin].peer) ++end;
      add_list(sorted.subspan(begin, end - begin), sorted[begin].peer + shift);
    }
  };
  // Dealing order becomes coordinates by a rotation: the peers that wrap around come first.
  const std::vector<Key> keys = by_peer(pieces, r.peers);
  const auto wraps = std::partition_point(
      keys.begin(), keys.end(), [&](const Key& k) { return k.peer < r.peers - r.source; });
  add_lists({wraps, keys.end()}, r.source - r.peers);
  add_lists({keys.begin(), wraps}, r.source);
  return result;
}

}  // namespace tremula::index_calc
