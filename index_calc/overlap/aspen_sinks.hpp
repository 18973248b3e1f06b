// SPDX-License-Identifier: Apache-2.0
#pragma once
// The sinks of a pass, which count its pieces or write them. Private to this room.
#include "index_calc/overlap/aspen.hpp"
#include "index_calc/overlap/overlap_builder.hpp"

namespace tremula::index_calc {

inline Family family_of(Index begin, Index peer_begin, Index length, Index count) {
  return {{{begin}, {peer_begin}, length}, count};
}

struct Count {
  std::size_t all = 0;
  void put(Index, Index, Index, Index, Index) { put_if(true, 0, 0, 0, 0, 0); }
  void put_if(bool is_there, Index, Index, Index, Index, Index) {
    all += is_there ? 1 : 0;
    if (all > most_pieces) refuse_more_than(most_pieces);
  }
};

struct CountByPeer {
  std::uint32_t* places;
  Count count{};
  void put(Index peer, Index, Index, Index, Index) { put_if(true, peer, 0, 0, 0, 0); }
  void put_if(bool is_there, Index peer, Index, Index, Index, Index) {
    places[peer] += is_there ? 1 : 0;
    count.put_if(is_there, 0, 0, 0, 0, 0);
  }
};

struct WriteByPeer {
  std::uint32_t* places;
  Family* families;
  Family spare{};  ///< written if put_if has no piece to write
  void put(Index peer, Index begin, Index peer_begin, Index length, Index count) {
    families[places[peer]++] = family_of(begin, peer_begin, length, count);
  }
  void put_if(bool is_there, Index peer, Index begin, Index peer_begin, Index length, Index count) {
    const std::uint32_t place = places[peer];
    *(is_there ? families + place : &spare) = family_of(begin, peer_begin, length, count);
    places[peer] = place + (is_there ? 1 : 0);
  }
};

/// Writes the pieces in the order of the pass.
/// @pre there is room for one more piece than the pass yields
struct Write {
  Piece* next;
  void put(Index peer, Index begin, Index peer_begin, Index length, Index count) {
    *next++ = {peer, family_of(begin, peer_begin, length, count)};
  }
  void put_if(bool is_there, Index peer, Index begin, Index peer_begin, Index length, Index count) {
    *next = {peer, family_of(begin, peer_begin, length, count)};
    next += is_there ? 1 : 0;
  }
};

}  // namespace tremula::index_calc
