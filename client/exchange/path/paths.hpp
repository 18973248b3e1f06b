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

/// Returns every path of this build, the best first.
Paths all_paths();

/// Returns the first path that is good for a part, or else the first that is possible.
/// @throws core::Error unsupported if there is none
const Path& choose(Paths paths, const PartFacts& facts);

/// Properties of a stream, not open yet, on which the choice of paths depends.
struct Prospect {
  bool is_near = true;        ///< both ranks are on one host
  int queue_depth = 2;        ///< of the producer
  bool is_lent = false;       ///< put_async
  bool is_allocated = false;  ///< both arrays are in memory that peers can map

  bool is_queued() const noexcept { return queue_depth > 0; }
};

/// Returns the path that a part will take if it is copied unchanged and is the only one in its
/// message.
/// @param is_short    it has at most ExchangePlan::inlined_bytes
/// @param reads_suit  its runs are few and long enough to be worth reading one by one
const Path& foresee(Paths paths, const Prospect& prospect, bool is_short, bool reads_suit);

/// Returns the path of a kind that the other side has named.
/// @throws core::Error protocol if it is not in the list
const Path& find_path(Paths paths, proto::PartPlace::Kind kind);

}  // namespace tremula::client
