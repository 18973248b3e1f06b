// SPDX-License-Identifier: Apache-2.0
#pragma once
// The list of paths, and the chooser: the one place where it is decided how a part gets across.
//
//   path        good for                                          copies  moved by
//   inlined     messages of a few KiB: they carry their parts     2       source, at once
//   lent        near; an array that the other side maps           1       the side that maps it
//   rma         far; long runs of an array that is lent           0       the sink's reads
//   shared      near; steps in a queue                            2       source packs, sink unpacks
//   staged      far; steps in a queue                             2       source, while it packs
//   ring        near; an array that is lent and cannot be mapped  2       both, chunk by chunk, in the cache
//   on_demand   far; an array that is lent                        0 to 2  source, chunk by chunk, when asked
#include <span>

#include "client/exchange/path/path.hpp"

namespace tremula::client {

using Paths = std::span<const Path* const>;

/// Every path of this build, the best first.
Paths all_paths();

/// The first path that is good for a part, else the first that is possible.
/// @throws core::Error unsupported if there is none
const Path& choose(Paths paths, const PartFacts& facts);

/// A stream that is not open yet, as far as paths depend on it.
struct Prospect {
  bool is_near = true;        ///< both ranks are on one host
  int queue_depth = 2;        ///< of the producer
  bool is_lent = false;       ///< put_async
  bool is_allocated = false;  ///< both arrays lie in memory that peers can map

  bool is_queued() const noexcept { return queue_depth > 0; }
};

/// The path by which a part will go that is copied as it is and alone in its message.
/// @param is_short    it is no longer than ExchangePlan::inlined_bytes
/// @param reads_suit  it has so few and long runs that reading them one by one is worth it
const Path& foresee(Paths paths, const Prospect& prospect, bool is_short, bool reads_suit);

/// @throws core::Error protocol if the other side named a path that is not in the list
const Path& find_path(Paths paths, proto::PartPlace::Kind kind);

}  // namespace tremula::client
