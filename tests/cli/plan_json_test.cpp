// SPDX-License-Identifier: Apache-2.0
// Parses the JSON and compares it with the blocks dealt out like cards.
#include "cli/plan/plan_json.hpp"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/index_calc/oracle.hpp"
#include "tests/index_calc/random.hpp"

namespace tremula::cli {
namespace {

using index_calc::Layout;
using index_calc::testing::deal, index_calc::testing::Dealt, index_calc::testing::Random,
    index_calc::testing::World;
using Json = google::protobuf::Value;
using Indices = std::vector<Index>;

std::string json_of(const Redistribution& r, const std::vector<Rank>& ranks) {
  std::string out = plan_json_begin(r);
  for (const Rank rank : ranks)
    plan_json_rank(r,
                   {.rank = rank,
                    .plan = index_calc::make_plan(r.mine(), r.theirs(), rank,
                                                  index_calc::Role::source, r.algorithm),
                    .part = index_calc::local_part(r.mine(), rank),
                    .seconds = 0.25},
                   rank == ranks.front(), [&out](std::string_view text) { out += text; });
  return out + plan_json_end();
}

const Json& at(const Json& object, const std::string& key) {
  return object.struct_value().fields().at(key);
}
Index number(const Json& object, const std::string& key) {
  return static_cast<Index>(at(object, key).number_value());
}
const auto& list(const Json& object, const std::string& key) {
  return at(object, key).list_value().values();
}

Json parsed(const std::string& text) {
  Json json;
  EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(text, &json).ok()) << text;
  return json;
}

/// Returns the grid coordinates of every rank that takes part, computed from the definition.
std::map<Rank, Indices> grid_of(const Layout& layout) {
  const auto& [dims, axes] = *layout.grid();
  std::vector<Rank> members;
  for (const auto& m : layout.ranks().members)
    for (RankCount k = 0; k < m.count; ++k) members.push_back(Rank{m.first.value + k});
  std::vector<Indices> cells;
  World::for_each_index(World::ranks_along(axes), layout.ranks().order,
                        [&](const Indices& cell) { cells.push_back(cell); });
  std::map<Rank, Indices> grid;
  for (std::size_t n = 0; n < cells.size(); ++n)
    grid[members.empty() ? core::to_rank(n) : members[n]] =
        World::coordinates_at(cells[n], axes, dims.size());
  return grid;
}

/// Returns the global index of the element that `coordinate` stores at `local`; -1 if none.
Index global(const Dealt& dealt, Index coordinate, Index local) {
  for (std::size_t i = 0; i < dealt.owner.size(); ++i)
    if (dealt.owner[i] == coordinate && dealt.local[i] == local) return static_cast<Index>(i);
  return -1;
}

/// Returns the local indices of a package along one dimension; checks them against the peer's.
Indices along(const Json& dimension, const Dealt& mine, Index me, const Dealt& theirs, Index peer) {
  Indices result;
  for (const Json& s : list(dimension, "segments"))
    for (Index i = 0; i < number(s, "repeat"); ++i)
      for (Index k = 0; k < number(s, "length"); ++k) {
        const Index local = number(s, "begin") + i * number(s, "stride") + k;
        const Index remote = number(s, "peer_begin") + i * number(s, "peer_stride") + k;
        const Index element = global(mine, me, local);
        EXPECT_GE(element, 0) << local << " is not an element of this rank";
        EXPECT_EQ(element, global(theirs, peer, remote));
        result.push_back(local);
      }
  return result;
}

struct CountedRuns {
  Index count = 0, longest = 0, shortest = 0;
};

CountedRuns runs_of(const Indices& offsets) {
  CountedRuns runs;
  for (std::size_t i = 0, begin = 0; i < offsets.size(); ++i) {
    if (i + 1 < offsets.size() && offsets[i + 1] == offsets[i] + 1) continue;
    const auto length = static_cast<Index>(i + 1 - begin);
    runs.shortest = runs.count == 0 ? length : std::min(runs.shortest, length);
    runs.longest = std::max(runs.longest, length);
    ++runs.count;
    begin = i + 1;
  }
  return runs;
}

void expect_as_dealt(const Redistribution& r) {
  SCOPED_TRACE(to_string(r.from) + " to " + to_string(r.to) + " by " +
               std::string(to_string(r.side)));
  const World mine(r.mine()), theirs(r.theirs());
  const auto my_grid = grid_of(r.mine()), their_grid = grid_of(r.theirs());
  std::vector<Dealt> my_dims, their_dims;
  for (const auto& d : r.mine().grid()->dims) my_dims.push_back(deal(d));
  for (const auto& d : r.theirs().grid()->dims) their_dims.push_back(deal(d));
  std::vector<Rank> ranks;
  for (const auto& [rank, cell] : my_grid) ranks.push_back(rank);

  const Json json = parsed(json_of(r, ranks));
  ASSERT_EQ(list(json, "ranks").size(), static_cast<int>(ranks.size()));
  std::size_t i = 0;
  for (const Json& of : list(json, "ranks")) {
    const Rank me = ranks[i++];
    ASSERT_EQ(number(of, "rank"), me.value);
    std::set<Indices> seen;
    std::set<Index> peers;
    for (const Json& package : list(of, "packages")) {
      const Rank peer{static_cast<std::int32_t>(number(package, "peer"))};
      EXPECT_TRUE(peers.insert(peer.value).second) << "peer " << peer.value << " twice";
      std::vector<Indices> locals;
      Indices box;
      std::size_t d = 0;
      for (const Json& dimension : list(package, "dimensions")) {
        locals.push_back(
            along(dimension, my_dims[d], my_grid.at(me)[d], their_dims[d], their_grid.at(peer)[d]));
        box.push_back(static_cast<Index>(locals.back().size()));
        ++d;
      }
      ASSERT_EQ(d, my_dims.size());
      Index elements = 0;
      World::for_each_index(box, index_calc::Order::row, [&](const Indices& k) {
        Indices element;
        for (std::size_t e = 0; e < k.size(); ++e)
          element.push_back(locals[e][static_cast<std::size_t>(k[e])]);
        EXPECT_TRUE(seen.insert(element).second) << "an element twice, peer " << peer.value;
        ++elements;
      });
      const auto common = mine.common(theirs, me, peer, r.from.storage().order);
      EXPECT_EQ(number(package, "elements"), elements);
      EXPECT_EQ(static_cast<Index>(common.size()), elements);
      EXPECT_EQ(number(package, "bytes"), elements * r.element_bytes);
      Indices offsets;
      for (const Index g : common) offsets.push_back(mine.offset.at(g));
      const CountedRuns runs = runs_of(offsets);
      EXPECT_EQ(number(package, "runs"), runs.count);
      EXPECT_EQ(number(package, "longest_run"), runs.longest);
      EXPECT_EQ(number(package, "shortest_run"), runs.shortest);
      EXPECT_EQ(at(package, "packing").string_value(), runs.count == 1 ? "direct" : "packed");
    }
    std::size_t owned = 1;
    for (std::size_t d = 0; d < my_dims.size(); ++d)
      owned *=
          static_cast<std::size_t>(my_dims[d].count[static_cast<std::size_t>(my_grid.at(me)[d])]);
    EXPECT_EQ(seen.size(), owned) << "rank " << me.value;
  }
}

TEST(PlanJson, HasAFixedForm) {
  Redistribution r{.from = Layout::parse("shape=6 grid=2 block=1"),
                   .to = Layout::parse("shape=6 grid=1"),
                   .element_bytes = 4};
  const auto bytes = index_calc::make_plan(r.from, r.to, Rank{0}).memory_bytes();
  std::string expected =
      R"({
  "from": "shape=6 grid=2 block=1",
  "to": "shape=6 grid=1",
  "algorithm": "aspen",
  "element_bytes": 4,
  "far": false,
  "queue_depth": 2,
  "allocated": false,
  "async": false,
  "ranks": [
    {"rank": 0, "plan_seconds": 0.250000000, "plan_bytes": BYTES, "packages": [
      {"peer": 0, "elements": 3, "bytes": 12, "runs": 1, "longest_run": 3, "shortest_run": 3, "packing": "direct", "path": "inlined", "dimensions": [{"segments": [{"begin": 0, "peer_begin": 0, "length": 1, "repeat": 3, "stride": 1, "peer_stride": 2}]}]}], "queue_bytes": 0},
    {"rank": 1, "plan_seconds": 0.250000000, "plan_bytes": BYTES, "packages": [
      {"peer": 0, "elements": 3, "bytes": 12, "runs": 1, "longest_run": 3, "shortest_run": 3, "packing": "direct", "path": "inlined", "dimensions": [{"segments": [{"begin": 0, "peer_begin": 1, "length": 1, "repeat": 3, "stride": 1, "peer_stride": 2}]}]}], "queue_bytes": 0}
  ]
}
)";
  for (std::size_t i = 0; (i = expected.find("BYTES")) != std::string::npos;)
    expected.replace(i, 5, std::to_string(bytes));
  EXPECT_EQ(json_of(r, {Rank{0}, Rank{1}}), expected);
}

TEST(PlanJson, HasNoPackagesForARankWithoutElements) {
  const Redistribution r{.from = Layout::parse("shape=3 grid=2 block=3"),
                         .to = Layout::parse("shape=3 grid=1")};
  const Json json = parsed(json_of(r, {Rank{1}}));
  EXPECT_EQ(list(list(json, "ranks").Get(0), "packages").size(), 0);
}

TEST(PlanJson, NamesTheAlgorithm) {
  Redistribution r{.from = Layout::parse("shape=3 grid=2"), .to = Layout::parse("shape=3 grid=1")};
  r.algorithm = index_calc::Algorithm::falls;
  EXPECT_EQ(at(parsed(json_of(r, {Rank{0}})), "algorithm").string_value(), "falls");
}

// The example of SegmentList: a family of 3 segments, twice.
TEST(Flattened, TakesTheShorterOfSegmentsAndTurns) {
  const auto entries = [](const std::string& from, const std::string& to, Index peer) {
    const Layout mine = Layout::parse(from), theirs = Layout::parse(to);
    const auto overlaps = index_calc::overlaps(mine.grid()->dims[0], {0}, theirs.grid()->dims[0]);
    std::vector<Indices> result;
    for (const RepeatedSegment& s : flattened(overlaps[static_cast<std::size_t>(peer)]))
      result.push_back({s.begin, s.peer_begin, s.length, s.repeat, s.stride, s.peer_stride});
    return result;
  };
  using Entries = std::vector<Indices>;
  EXPECT_EQ(entries("shape=24 grid=2 block=1", "shape=24 grid=2 block=6", 0),
            (Entries{{0, 0, 1, 3, 1, 2}, {6, 6, 1, 3, 1, 2}}));
  // Four turns of the family, and two more segments.
  EXPECT_EQ(
      entries("shape=52 grid=2 block=1", "shape=52 grid=2 block=6", 0),
      (Entries{{0, 0, 1, 4, 6, 6}, {1, 2, 1, 4, 6, 6}, {2, 4, 1, 4, 6, 6}, {24, 24, 1, 2, 1, 2}}));
  // The last segment is shortened.
  EXPECT_EQ(entries("shape=18 grid=2 block=4", "shape=18 grid=1", 0),
            (Entries{{0, 0, 4, 2, 4, 8}, {8, 16, 2, 1, 0, 0}}));
}

TEST(PlanJson, EqualsDealingTheBlocks) {
  Random random;
  for (int i = 0; i < 120; ++i) {
    const auto dimensions = static_cast<std::size_t>(random.in(1, 3));
    const Index most = dimensions == 1 ? 60 : dimensions == 2 ? 12 : 6;
    Indices shape;
    for (std::size_t d = 0; d < dimensions; ++d) shape.push_back(random.in(1, most));
    const Index grid = dimensions == 1 ? 5 : 3;
    const auto algorithm = static_cast<index_calc::Algorithm>(random.in(0, 2));
    for (const Side side : {Side::producer, Side::consumer})
      expect_as_dealt({.from = random.layout(shape, grid),
                       .to = random.layout(shape, grid),
                       .side = side,
                       .algorithm = algorithm,
                       .element_bytes = 4});
    if (HasFailure()) return;
  }
}

// Cases that random layouts seldom cover: families of several segments over several turns, with and
// without a tail.
TEST(PlanJson, EqualsDealingForBlocksInBlocks) {
  for (const Index extent : {48, 52, 55, 71, 72})
    for (const auto& [inner, outer] :
         {std::pair{"grid=2 block=1", "grid=2 block=6"}, {"grid=3 block=2", "grid=2 block=18"}})
      for (const Side side : {Side::producer, Side::consumer})
        expect_as_dealt(
            {.from = Layout::parse("shape=" + std::to_string(extent) + " " + inner),
             .to = Layout::parse("shape=" + std::to_string(extent) + " " + outer + " source=1"),
             .side = side});
}

}  // namespace
}  // namespace tremula::cli
