// SPDX-License-Identifier: Apache-2.0
// ASPEN yields the pieces of all peers in mixed order. If there are about as many pieces as peers,
// or more, the pass is made twice: the first counts the pieces of each peer, and the second writes
// each piece to its final place. If there are far more peers, the pieces are sorted, so neither
// time nor memory depends on how many peers there could be.
#include "index_calc/overlap/overlap_builder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

#include "core/error.hpp"
#include "index_calc/overlap/aspen_sinks.hpp"

namespace tremula::index_calc {
namespace {

/// Estimates how many pieces a pass yields.
double estimated_pieces(const Prepared& p) {
  const auto* mine = std::get_if<BlockCyclic>(&p.mine);
  const auto* theirs = std::get_if<BlockCyclic>(&p.theirs);
  const auto intervals = [](const Distribution& d) {
    const auto* splits = std::get_if<Splits>(&d);
    return splits == nullptr ? 0.0 : static_cast<double>(splits->owner.size());
  };
  if (mine == nullptr || theirs == nullptr) return intervals(p.mine) + intervals(p.theirs);
  const auto extent = static_cast<double>(mine->extent);
  const auto block = static_cast<double>(mine->block),
             their_block = static_cast<double>(theirs->block);
  const double round = block * static_cast<double>(mine->grid);
  if (round < their_block) return extent / their_block;
  return extent / round * (std::min(block / their_block, static_cast<double>(theirs->grid)) + 1);
}

}  // namespace

void refuse_more_than(std::size_t most) {
  throw core::Error(
      core::Errc::unsupported,
      fmt::format("expected at most {} families of segments along one dimension of one rank, found "
                  "more: the "
                  "two layouts share too many before their pattern repeats; choose coarser grids, "
                  "or blocks "
                  "for which the least common multiple of block x grid of both sides is smaller",
                  most));
}

void refuse_pairs(double pairs, std::string_view why) {
  constexpr double most = 1 << 30;
  if (pairs > most)
    throw core::Error(core::Errc::unsupported,
                      fmt::format("expected at most 2^30 pairs of a block and a coordinate along "
                                  "one dimension, found about {:.2g}: {}",
                                  pairs, why));
}

void grow(std::vector<Piece>& pieces, std::size_t most) {
  if (pieces.size() >= most) refuse_more_than(most);
  pieces.reserve(std::min(most, std::max<std::size_t>(64, 2 * pieces.size())));
}

void OverlapsBuilder::begin(const Repetition& r) {
  repetition_ = r;
  result_.family_stride_ = r.family_stride;
  result_.family_peer_stride_ = r.family_peer_stride;
  result_.repeat_ = r.repeat;
  result_.stride_ = r.stride;
  result_.peer_stride_ = r.peer_stride;
  result_.peers_.clear();
  result_.lists_.clear();
}

void OverlapsBuilder::build(const Prepared& prepared) {
  begin(prepared.repetition);
  const double most_dense =
      64 + 2 * std::min(estimated_pieces(prepared), static_cast<double>(most_pieces));
  if (static_cast<double>(repetition_.peers) <= most_dense)
    build_dense(prepared);
  else
    build_sparse(prepared);
}

void OverlapsBuilder::build_dense(const Prepared& p) {
  const auto peers = static_cast<std::size_t>(repetition_.peers);
  const auto source = static_cast<std::size_t>(repetition_.source);
  // A rotation turns round-robin order into coordinates.
  const auto turn_of = [&](std::size_t coordinate) {
    return coordinate < source ? coordinate + peers - source : coordinate - source;
  };
  places_.assign(peers, 0);
  CountByPeer count{places_.data()};
  result_.steps_ = aspen::pass(p.mine, p.me, p.theirs, count);
  std::uint32_t before = 0;
  std::size_t lists = 0;
  for (std::size_t c = 0; c < peers; ++c) {
    const std::uint32_t here = std::exchange(places_[turn_of(c)], before);
    before += here;
    lists += here > 0 ? 1 : 0;
  }
  reserve(before, lists);
  result_.families_.resize(before);
  WriteByPeer write{places_.data(), result_.families_.data()};
  aspen::pass(p.mine, p.me, p.theirs, write);
  std::size_t begin = 0;
  for (std::size_t c = 0; c < peers; ++c) {
    const std::size_t end = places_[turn_of(c)];
    if (end > begin) add_list(static_cast<Index>(c), begin, end);
    begin = end;
  }
}

void OverlapsBuilder::build_sparse(const Prepared& p) {
  Count count;
  result_.steps_ = aspen::pass(p.mine, p.me, p.theirs, count);
  pieces_.resize(count.all + 1);
  Write write{pieces_.data()};
  aspen::pass(p.mine, p.me, p.theirs, write);
  pieces_.pop_back();
  sort_keys(repetition_.peers);
  group(keys_, [&](const Key& k) -> const Piece& { return pieces_[k.piece]; });
}

void OverlapsBuilder::build_from_pieces(const Repetition& repetition, Index steps) {
  begin(repetition);
  result_.steps_ = steps;
  group(pieces_, std::identity());
}

/// Fills keys_ with the keys of pieces_, sorted by peer, and in the order of pieces_ within a peer.
/// The digit of this radix sort never has more values than there are pieces.
void OverlapsBuilder::sort_keys(Index peers) {
  keys_.clear();
  for (const Piece& p : pieces_)
    keys_.push_back({p.peer, static_cast<std::uint32_t>(keys_.size())});
  other_keys_.resize(keys_.size());
  const int digit = std::clamp(static_cast<int>(std::bit_width(keys_.size())) - 1, 1, 11);
  const std::size_t mask = (std::size_t{1} << digit) - 1;
  for (int shift = 0; shift < 63 && (peers - 1) >> shift != 0; shift += digit) {
    const auto digit_of = [&](const Key& k) {
      return static_cast<std::size_t>(k.peer) >> shift & mask;
    };
    places_.assign(mask + 1, 0);
    for (const Key& k : keys_) ++places_[digit_of(k)];
    std::uint32_t before = 0;
    for (std::uint32_t& n : places_) before += std::exchange(n, before);
    for (const Key& k : keys_) other_keys_[places_[digit_of(k)]++] = k;
    keys_.swap(other_keys_);
  }
}

/// Adds one list for each peer.
/// @param sorted    pieces or keys of pieces, with ascending peers
/// @param piece_of  returns the piece of an entry of `sorted`
template <class Keys, class PieceOf>
void OverlapsBuilder::group(const Keys& sorted, PieceOf&& piece_of) {
  const Repetition& r = repetition_;
  std::size_t lists = 0;
  for (std::size_t i = 0; i < sorted.size(); ++i)
    if (i == 0 || sorted[i].peer != sorted[i - 1].peer) ++lists;
  reserve(sorted.size(), lists);
  result_.families_.clear();
  const auto add_lists = [&](auto from, auto to, Index shift) {
    while (from != to) {
      const Index peer = from->peer;
      const std::size_t begin = result_.families_.size();
      for (; from != to && from->peer == peer; ++from)
        result_.families_.push_back(piece_of(*from).family);
      add_list(peer + shift, begin, result_.families_.size());
    }
  };
  // A rotation turns round-robin order into coordinates: the peers that wrap around come first.
  const auto wraps = std::partition_point(
      sorted.begin(), sorted.end(), [&](const auto& key) { return key.peer < r.peers - r.source; });
  add_lists(wraps, sorted.end(), r.source - r.peers);
  add_lists(sorted.begin(), wraps, r.source);
}

void OverlapsBuilder::reserve(std::size_t families, std::size_t lists) {
  if (result_.families_.capacity() < families) result_.families_ = {};  // no old contents to move
  result_.families_.reserve(families);
  result_.lists_.reserve(lists);
  result_.peers_.reserve(lists);
}

void OverlapsBuilder::add_list(Index coordinate, std::size_t begin, std::size_t end) {
  const Repetition& r = repetition_;
  Overlaps::List list{.begin = begin};
  Index in_period = 0, in_tail = 0;
  for (std::size_t i = begin; i < end; ++i) {
    const Family& f = result_.families_[i];
    in_period += f.count * f.first.length;
    const Index left = r.rest - f.first.begin.value;
    if (left <= 0) continue;
    const Index span = (f.count - 1) * r.family_stride;
    ++list.tail;
    list.tail_count = span < left ? f.count : (left - 1) / r.family_stride + 1;
    list.tail_length = std::min(f.first.length, left - (list.tail_count - 1) * r.family_stride);
    in_tail += (list.tail_count - 1) * f.first.length + list.tail_length;
  }
  list.elements = in_period * r.repeat + in_tail;
  result_.peers_.push_back({coordinate});
  result_.lists_.push_back(list);
}

}  // namespace tremula::index_calc
