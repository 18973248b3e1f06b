// SPDX-License-Identifier: Apache-2.0
#pragma once
// What each rank owes to each other one, where ranks list what they own: found by a directory that is
// spread over the ranks of the sink. Sink rank s keeps slice s of the numbers; no rank gets all lists.
//
//     1  every sink sends its runs of slice s to source s mod M, which passes them to sink s
//     2  every source sends its runs of slice s to sink s
//     3  sink s merges both, checks them, and tells every source which runs which sink wants of it
//     4  source and sink tell each other where the runs lie in their buffers
//
// The detour of step 1 is there because the ranks of one side of a link do not reach each other. All is
// pure: the caller moves the bytes. Runs go in ascending order of their numbers, and so do the elements
// on the wire.
//
// Source: distributed directories as in the Zoltan library (Pinar & Hendrickson 2001) and YAXT.
#include <span>
#include <vector>

#include "core/types.hpp"
#include "index_calc/lists/index_list.hpp"
#include "index_calc/overlap/overlap.hpp"

namespace tremula::index_calc {

using core::Bytes;

/// What both sides know.
struct MatchedSides {
  /// What a side may do beside giving every element to one rank.
  struct Rules {
    bool is_partial = false;  ///< elements may be on no rank
    bool has_copies = false;  ///< elements may be on several ranks
  };
  std::vector<Index> shape;
  Rank sources = 0, sinks = 0;  ///< ranks of the groups
  Rules source{}, sink{};
};
/// @param source, sink  layouts, one at least of which lists what its ranks own
MatchedSides matched_sides(const Layout& source, Rank sources, const Layout& sink, Rank sinks);

/// All that goes between this rank and a peer, in wire order.
struct PeerSegments {
  Rank peer = 0;
  std::vector<Segment> segments;
};

/// A rank of the source. The calls in their order.
class SourceMatch {
public:
  /// @param list  must outlive this object
  SourceMatch(const MatchedSides& sides, const IndexList& list, Rank me);
  /// @param from_sinks  SinkMatch::to_sources of each, of step 1
  /// @return what goes to each sink, of steps 1 and 2
  std::vector<Bytes> to_directory(std::span<const Bytes> from_sinks);
  /// @param from_directory  SinkMatch::overlaps of each sink
  /// @return what goes to each sink, of step 4
  std::vector<Bytes> places(std::span<const Bytes> from_directory);
  /// @param from_sinks  SinkMatch::places of each
  /// @throws core::Error protocol, as all of these
  std::vector<PeerSegments> segments(std::span<const Bytes> from_sinks) const;

private:
  MatchedSides sides_;
  const IndexList& list_;
  Rank me_;
  std::vector<std::vector<ListRun>> wanted_;  // shape: [sink]
};

/// A rank of the sink, with its slice of the directory. The calls in their order.
class SinkMatch {
public:
  SinkMatch(const MatchedSides& sides, const IndexList& list, Rank me);
  /// @return what goes to each source, of step 1
  std::vector<Bytes> to_sources() const;
  /// @param from_sources  SourceMatch::to_directory of each
  /// @return what goes to each source, of step 3
  /// @throws core::Error mismatch naming an element that is on no rank or on two ranks of a side
  std::vector<Bytes> overlaps(std::span<const Bytes> from_sources) const;
  /// @param from_sources  SourceMatch::places of each
  /// @return what goes to each source, of step 4
  std::vector<Bytes> places(std::span<const Bytes> from_sources);
  std::vector<PeerSegments> segments() { return std::move(segments_); }

private:
  MatchedSides sides_;
  const IndexList& list_;
  Rank me_;
  std::vector<PeerSegments> segments_;
};

/// Brings what the ranks of one side tell to those of the other.
class ListMover {
public:
  virtual ~ListMover() = default;
  /// @param of_source  for each sink; of a rank that is no source, nothing
  /// @return           from each source; for a rank that is no sink, nothing
  virtual std::vector<Bytes> forth(std::vector<Bytes> of_source) = 0;
  /// The other way.
  virtual std::vector<Bytes> back(std::vector<Bytes> of_sink) = 0;
};

/// What goes between this rank and each peer, in each role that it has.
struct MatchedLists {
  std::vector<PeerSegments> as_source, as_sink;
};

/// Collective over both sides.
/// @param source, sink  what this rank owns there; null: it is no rank of that side
/// @throws core::Error mismatch on one rank alone, protocol, and what the mover throws
MatchedLists match_lists(const MatchedSides& sides, const IndexList* source, const IndexList* sink,
                         Rank me, ListMover& mover);

}  // namespace tremula::index_calc
