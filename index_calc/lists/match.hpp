// SPDX-License-Identifier: Apache-2.0
#pragma once
// The match of ranks that list what they own. It finds which elements each rank owes to every other
// rank, with a directory distributed over the ranks of the sink. Sink rank s keeps slice s of the
// numbers; no rank gets all lists. M is the number of sources.
//
//     1  every sink sends its runs of slice s to source s mod M, which passes them to sink s
//     2  every source sends its runs of slice s to sink s
//     3  sink s merges and checks both, and sends every source what each sink wants from it
//     4  source and sink send each other the places of the runs in their buffers
//
// Step 1 takes a detour because the ranks on one side of a link cannot reach each other. All
// functions are pure: the caller moves the bytes. Runs are sent in ascending order of their
// numbers, and so are the elements on the wire. An element that a sink lists several times counts
// once until step 4 and is sent to each of its places.
//
// Source: distributed directories as in the Zoltan library (Pinar & Hendrickson 2001) and YAXT.
#include <span>
#include <vector>

#include "core/types.hpp"
#include "index_calc/lists/index_list.hpp"
#include "index_calc/overlap/overlap.hpp"

namespace tremula::index_calc {

using core::Bytes;

/// The facts that both sides know.
struct MatchedSides {
  /// The exceptions that a side may make to "every element is on exactly one rank".
  struct Rules {
    bool is_partial = false;  ///< elements may be on no rank
    bool has_copies = false;  ///< elements may be on several ranks
  };
  std::vector<Index> shape;
  RankCount sources = 0, sinks = 0;  ///< ranks of the groups
  Rules source{}, sink{};
};
/// Returns the facts of two layouts, at least one of which lists what its ranks own.
MatchedSides matched_sides(const Layout& source, RankCount sources, const Layout& sink,
                           RankCount sinks);

/// All elements that this rank and a peer exchange, in wire order.
struct PeerSegments {
  Rank peer{};
  std::vector<Segment> segments;
};

/// The match on a rank of the source. Call the functions in the order of their declarations.
class SourceMatch {
public:
  /// @param list  must outlive this object
  SourceMatch(const MatchedSides& sides, const IndexList& list, Rank me);
  /// Makes the messages of steps 1 and 2.
  /// @param from_sinks  SinkMatch::to_sources of each sink
  /// @return one for each sink
  std::vector<Bytes> to_directory(std::span<const Bytes> from_sinks);
  /// Makes the source's messages of step 4.
  /// @param from_directory  SinkMatch::overlaps of each sink
  /// @return one for each sink
  std::vector<Bytes> places(std::span<const Bytes> from_directory);
  /// Returns the segments that this rank sends.
  /// @param from_sinks  SinkMatch::places of each sink
  /// @throws core::Error protocol if a message is malformed, as do the functions above
  std::vector<PeerSegments> segments(std::span<const Bytes> from_sinks) const;

private:
  MatchedSides sides_;
  const IndexList& list_;
  Rank me_;
  std::vector<std::vector<ListRun>> wanted_;  // shape: [sink]
};

/// The match on a rank of the sink, with its slice of the directory. Call the functions in the
/// order of their declarations.
class SinkMatch {
public:
  /// @param list  must outlive this object
  SinkMatch(const MatchedSides& sides, const IndexList& list, Rank me);
  /// Makes the messages of step 1.
  /// @return one for each source
  std::vector<Bytes> to_sources() const;
  /// Makes the messages of step 3.
  /// @param from_sources  SourceMatch::to_directory of each source
  /// @return one for each source
  /// @throws core::Error mismatch naming an element that is on no rank or on two ranks of a side
  std::vector<Bytes> overlaps(std::span<const Bytes> from_sources) const;
  /// Makes the sink's messages of step 4.
  /// @param from_sources  SourceMatch::places of each source
  /// @return one for each source
  std::vector<Bytes> places(std::span<const Bytes> from_sources);
  std::vector<PeerSegments> segments() { return std::move(segments_); }

private:
  MatchedSides sides_;
  const IndexList& list_;
  Rank me_;
  std::vector<PeerSegments> segments_;
};

/// Carries messages between the ranks of the two sides.
class ListMover {
public:
  virtual ~ListMover() = default;
  /// Carries messages from every source to every sink.
  /// @param of_source  one for each sink; empty if this rank is not a source
  /// @return           one from each source; empty if this rank is not a sink
  virtual std::vector<Bytes> forth(std::vector<Bytes> of_source) = 0;
  /// Carries messages from every sink to every source, as forth() does with the sides swapped.
  virtual std::vector<Bytes> back(std::vector<Bytes> of_sink) = 0;
};

/// The segments that this rank exchanges with each peer, in each role that it has.
struct MatchedLists {
  std::vector<PeerSegments> as_source, as_sink;
};

/// Matches the lists of both sides. Collective over both sides.
/// @param source, sink  what this rank owns on that side; null if the rank is not on that side
/// @throws core::Error mismatch on one rank only, protocol, and what the mover throws
MatchedLists match_lists(const MatchedSides& sides, const IndexList* source, const IndexList* sink,
                         Rank me, ListMover& mover);

}  // namespace tremula::index_calc
