// SPDX-License-Identifier: Apache-2.0
// Checks plans of arrays whose ranks list their elements, at every place of every buffer.
#include "index_calc/lists/match.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "core/error.hpp"
#include "index_calc/lists/run_code.hpp"
#include "index_calc/pack/pack.hpp"
#include "index_calc/plan/plan.hpp"
#include "tests/index_calc/lists/random_lists.hpp"
#include "tests/rounds.hpp"

namespace tremula::index_calc {
namespace {

using testing::Random, testing::Side;

IndexList list_of(const Side& side, Rank rank) {
  const Layout& layout = side.layout[at(rank)];
  return layout.listed() ? *layout.listed()->mine
                         : IndexList::of_layout(layout, rank, local_part(layout, rank));
}

/// Returns the messages of out[from][to] that arrive at `to`.
std::vector<Bytes> column(const std::vector<std::vector<Bytes>>& out, Rank to) {
  std::vector<Bytes> in;
  for (const auto& of_rank : out) in.push_back(of_rank[at(to)]);
  return in;
}

/// The match of all ranks of both sides, step by step.
struct Matched {
  std::vector<std::vector<PeerSegments>> of_source, of_sink;  // shape: [rank]

  Matched(const Side& source, const Side& sink) {
    const auto sides =
        matched_sides(source.layout[0], source.ranks(), sink.layout[0], sink.ranks());
    std::vector<IndexList> source_lists, sink_lists;
    for (const Rank r : all_ranks(source.ranks())) source_lists.push_back(list_of(source, r));
    for (const Rank r : all_ranks(sink.ranks())) sink_lists.push_back(list_of(sink, r));
    std::vector<SourceMatch> sources;
    std::vector<SinkMatch> sinks;
    for (const Rank r : all_ranks(source.ranks()))
      sources.emplace_back(sides, source_lists[at(r)], r);
    for (const Rank r : all_ranks(sink.ranks())) sinks.emplace_back(sides, sink_lists[at(r)], r);
    const auto forth = [&](auto&& messages_of, const std::vector<std::vector<Bytes>>& came) {
      std::vector<std::vector<Bytes>> out;
      for (const Rank r : all_ranks(source.ranks()))
        out.push_back(messages_of(sources[at(r)], column(came, r)));
      return out;
    };
    const auto back = [&](auto&& messages_of, const std::vector<std::vector<Bytes>>& came) {
      std::vector<std::vector<Bytes>> out;
      for (const Rank r : all_ranks(sink.ranks()))
        out.push_back(messages_of(sinks[at(r)], column(came, r)));
      return out;
    };
    auto out = back([](SinkMatch& s, const auto&) { return s.to_sources(); }, {});
    out = forth([](SourceMatch& s, const auto& in) { return s.to_directory(in); }, out);
    out = back([](SinkMatch& s, const auto& in) { return s.overlaps(in); }, out);
    out = forth([](SourceMatch& s, const auto& in) { return s.places(in); }, out);
    out = back([](SinkMatch& s, const auto& in) { return s.places(in); }, out);
    for (const Rank r : all_ranks(source.ranks()))
      of_source.push_back(sources[at(r)].segments(column(out, r)));
    for (auto& s : sinks) of_sink.push_back(s.segments());
  }
};

std::span<const std::byte> bytes_of(const std::vector<Index>& values) {
  return std::as_bytes(std::span(values));
}

/// Returns a local part that covers the whole buffer of a rank.
LocalPart flat(const std::vector<Index>& buffer, Index elements) {
  LocalPart part;
  part.dimensions = 2;
  part.extent = {1, static_cast<Index>(buffer.size())};
  part.stride = {1, 1};
  part.allocated = static_cast<Index>(buffer.size());
  part.elements = elements;
  return part;
}

Index elements_in(const std::vector<Index>& buffer) {
  return static_cast<Index>(buffer.size()) - std::ranges::count(buffer, -1);
}

void expect_moves_all(Random& random, const Side& source, const Side& sink) {
  Matched matched(source, sink);
  std::vector<Plan> source_plans, sink_plans;
  for (std::size_t r = 0; r < source.numbers.size(); ++r)
    source_plans.push_back(
        make_listed_plan(source.layout[r], sink.layout[0], std::move(matched.of_source[r])));
  for (std::size_t r = 0; r < sink.numbers.size(); ++r)
    sink_plans.push_back(
        make_listed_plan(sink.layout[r], source.layout[0], std::move(matched.of_sink[r])));
  std::set<Index> offered;
  for (const auto& buffer : source.numbers) offered.insert(buffer.begin(), buffer.end());
  for (std::size_t r = 0; r < sink.numbers.size(); ++r) {
    const auto& expected = sink.numbers[r];
    std::vector<Index> by_wire(expected.size(), -1), from_peer = by_wire, to_peer = by_wire;
    const auto part = flat(expected, elements_in(expected));
    sink_plans[r].for_each_package([&](const Package& package) {
      const auto peer = at(package.peer);
      const auto& theirs = source.numbers[peer];
      const auto their_part = flat(theirs, elements_in(theirs));
      const auto opposite = source_plans[peer].package_for(to_rank(r));
      ASSERT_TRUE(opposite);
      ASSERT_EQ(opposite->elements, package.elements);
      std::vector<Index> wire(static_cast<std::size_t>(package.elements));
      const Index cut = random.in(0, package.elements);
      for (const auto& [first, count] : {std::pair{Index{0}, cut}, {cut, package.elements - cut}}) {
        const auto bytes = std::as_writable_bytes(std::span(wire).subspan(
            static_cast<std::size_t>(first), static_cast<std::size_t>(count)));
        pack(*opposite, their_part, Order::row, sizeof(Index), {first, count}, bytes_of(theirs),
             bytes);
      }
      const std::set<Index> different(wire.begin(), wire.end());
      EXPECT_TRUE(std::ranges::is_sorted(wire) || different.size() < wire.size());
      for (const auto& [first, count] : {std::pair{Index{0}, cut}, {cut, package.elements - cut}}) {
        const auto bytes = std::as_bytes(std::span(wire).subspan(static_cast<std::size_t>(first),
                                                                 static_cast<std::size_t>(count)));
        unpack(package, part, Order::row, sizeof(Index), {first, count}, bytes,
               std::as_writable_bytes(std::span(by_wire)));
      }
      copy_from_peer(package, part, their_part, sizeof(Index), bytes_of(theirs),
                     std::as_writable_bytes(std::span(from_peer)));
      copy_to_peer(*opposite, their_part, part, sizeof(Index), bytes_of(theirs),
                   std::as_writable_bytes(std::span(to_peer)));
    });
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const Index want = offered.contains(expected[i]) ? expected[i] : -1;
      ASSERT_EQ(by_wire[i], want) << "rank " << r << ", place " << i;
      ASSERT_EQ(from_peer[i], want) << "rank " << r << ", place " << i;
      ASSERT_EQ(to_peer[i], want) << "rank " << r << ", place " << i;
    }
  }
}

TEST(Lists, MoveEveryElementBetweenAnyKinds) {
  Random random;
  for (int i = 0; i < testing_only::rounds(2500) && !HasFatalFailure(); ++i) {
    const auto shape = testing::random_shape(random);
    const bool is_listed = random.one_in(2);
    const Side source = testing::random_side(random, shape, !is_listed);
    const Side sink = testing::random_side(random, shape, is_listed, true);
    if (!source.layout[0].listed() && !sink.layout[0].listed()) continue;
    SCOPED_TRACE(to_string(source.layout[0]) + " to " + to_string(sink.layout[0]));
    expect_moves_all(random, source, sink);
  }
}

/// Returns a side of 2 ranks of an array of 3x4.
Side two_ranks(std::vector<Index> a, std::vector<Index> b, bool is_partial = false,
               bool has_copies = false) {
  const std::vector<Index> shape{3, 4};
  Side side{.numbers = {std::move(a), std::move(b)}};
  for (const auto& points : side.numbers)
    side.layout.push_back(
        listed_layout(shape, 2, is_partial, has_copies, IndexList::of_points(shape, points)));
  return side;
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const core::Error& e) {
    return std::string(core::to_string(e.code())) + ": " + e.what();
  }
  return "no error";
}

TEST(Lists, NameAMissingOrRepeatedElement) {
  const Side good = two_ranks({0, 1, 2, 3, 4, 5}, {11, 10, 9, 8, 7, 6});
  const Side lacks = two_ranks({0, 1, 2, 3, 4}, {11, 10, 9, 8, 7, 6});
  const Side twice = two_ranks({0, 1, 2, 3, 4, 5, 9}, {11, 10, 9, 8, 7, 6});
  const auto text = [](const Side& source, const Side& sink) {
    return error_of([&] { Matched(source, sink); });
  };
  EXPECT_EQ(text(good, good), "no error");
  EXPECT_EQ(
      text(lacks, good),
      "mismatch: index lists of the producer: expected every element on a rank; found element "
      "(1, 1) on none: list it, or declare the layout partial");
  EXPECT_EQ(
      text(good, twice),
      "mismatch: index lists of the consumer: expected every element on one rank; found element "
      "(2, 1) on ranks 1 and 0: list it once, or declare the layout to have copies");
  const auto of_source_list = [](std::vector<Index> points) {
    return error_of([&] { expect_source(two_ranks(std::move(points), {}).layout[0]); });
  };
  EXPECT_EQ(of_source_list({0, 1, 2}), "no error");
  EXPECT_EQ(
      of_source_list({7, 2, 7}),
      "invalid_argument: index list: expected each listed element once, and an element at every "
      "place of the buffer, on a rank that sends, found element (1, 3) at places 0 and 2: list "
      "each "
      "element once and leave no place without one");
  EXPECT_NE(of_source_list({7, -1, 2}).find("found no element at place 1:"), std::string::npos);
  EXPECT_NE(of_source_list({7, 2, -1}).find("found no element at place 2:"), std::string::npos);
  EXPECT_EQ(
      error_of([] {
        IndexList::of_points(std::vector<Index>{3, 4}, std::vector<Index>{12});
      }),
      "invalid_argument: index list: expected element numbers from 0 to 11 in an array of 3x4, "
      "found a run of 1 beginning with number 12: list elements of the array, or -1 for a place "
      "without an element");
  EXPECT_NE(error_of([] {
              IndexList::of_segments(std::vector<Index>{12}, std::vector<Index>{-1},
                                     std::vector<Index>{-1});
            }).find("found a run of -1 beginning with number -1"),
            std::string::npos);
  Random random;
  const Side partial = two_ranks({0, 1}, {11}, true),
             copies = two_ranks({0, 1, 2, 3, 4, 5, 9}, {11, 10, 9, 8, 7, 6}, false, true);
  expect_moves_all(random, good, partial);
  expect_moves_all(random, partial, good);
  expect_moves_all(random, copies, good);
  expect_moves_all(random, good, copies);
}

/// The halo of a periodic grid repeats elements, and a mask leaves places of the buffer without one. The
/// message has each element as often as the reader lists it.
TEST(Lists, TakeRepeatsAndPlacesWithoutAnElement) {
  Random random;
  const Side source = two_ranks({0, 1, 2, 3, 4, 5}, {6, 7, 8, 9, 10, 11}),
             sink = two_ranks({11, 0, 1, 2, -1, 3, 4, 5, 6}, {-1, 5, 6, 7, 8, 9, 10, 11, 0}, false,
                              true),
             halo = two_ranks({3, 0, 1, 2, 3, 0}, {7, 4, 5, 6, 7, 4}, true);
  expect_moves_all(random, source, sink);
  expect_moves_all(random, source, halo);
  Matched matched(source, halo);
  Index elements = 0;
  for (const Segment& s : matched.of_source[0].front().segments) elements += s.length;
  EXPECT_EQ(elements, 6);
}

/// Runs that overlap are cut only where they do: 100,000 places of two elements, between long runs that
/// stay whole, are as many runs.
TEST(Lists, TakeOneElementAtManyPlaces) {
  Random random;
  const std::vector<Index> shape{3, 4};
  Side sink;
  sink.numbers.emplace_back(100'000, Index{5});
  for (std::size_t i = 0; i < sink.numbers[0].size(); i += 3) sink.numbers[0][i] = 7;
  sink.layout.push_back(
      listed_layout(shape, 1, true, false, IndexList::of_points(shape, sink.numbers[0])));
  expect_moves_all(random, two_ranks({0, 1, 2, 3, 4, 5}, {6, 7, 8, 9, 10, 11}), sink);
  std::vector<Index> begins{0, 2'000'000}, lengths{1'000'000, 1'000'000};
  begins.insert(begins.end(), 100'000, 1'500'000);
  lengths.insert(lengths.end(), 100'000, 1);
  const auto list = IndexList::of_segments(std::vector<Index>{3'000'000}, begins, lengths);
  EXPECT_EQ(list.runs().size(), 100'002U);
  EXPECT_TRUE(list.has_repeats());
}

/// Three runs of which each overlaps the next are cut at each other's ends.
TEST(Lists, CutRunsThatOverlap) {
  const std::vector<Index> shape{20}, begins{6, 4, 0}, lengths{6, 4, 6};
  const auto list = IndexList::of_segments(shape, begins, lengths);
  EXPECT_EQ(
      std::vector(list.runs().begin(), list.runs().end()),
      (std::vector<ListRun>{{0, 10, 4}, {4, 6, 2}, {4, 14, 2}, {6, 0, 2}, {6, 8, 2}, {8, 2, 4}}));
  EXPECT_EQ(list.elements(), 16);
}

TEST(Lists, JoinRunsThatContinueEachOther) {
  // The buffer has a 3 x 2 array column by column: in the transposed array, one run.
  const std::vector<Index> shape{3, 2}, points{0, 2, 4, 1, 3, 5};
  const std::vector<std::size_t> axes{1, 0};
  const IndexList columns = IndexList::of_points(shape, points).permuted(shape, axes);
  ASSERT_EQ(columns.runs().size(), 1U);
  EXPECT_EQ(columns.runs().front(), (ListRun{0, 0, 6}));
}

TEST(Lists, CountElementsIn63Bits) {
  constexpr Index all = Index{1} << 62;
  using Numbers = std::vector<Index>;
  const std::string refusal =
      "invalid_argument: index list: expected a buffer of at most 2^63 - 1 places, found more for "
      "an "
      "array of 4611686018427387904: list fewer elements, or fewer places without one";
  EXPECT_EQ(error_of([&] {
              IndexList::of_segments(Numbers{all}, Numbers{0, 0}, Numbers{all, all});
            }),
            refusal);
  EXPECT_EQ(error_of([&] {
              IndexList::of_boxes(Numbers{all}, Numbers{0, 0}, Numbers{all, all});
            }),
            refusal);
  // The product of the first two extents has 80 bits.
  const Numbers empty{Index{1} << 40, Index{1} << 40, 0};
  EXPECT_EQ(IndexList::of_points(empty, {}).elements(), 0);
  const std::vector<std::size_t> axes{2, 0, 1};
  EXPECT_EQ(IndexList::of_points(empty, {}).permuted(empty, axes).elements(), 0);
  EXPECT_EQ(error_of([&] { IndexList::of_points(empty, Numbers{0}); }).substr(0, 30),
            "invalid_argument: index list: ");
}

/// Each of two ranks owns every second interval. Walking from the first interval for each element would take
/// 10^11 steps.
TEST(Lists, TakeOnePassOverManySplits) {
  constexpr Index intervals = 200'000, length = 10;
  Splits splits{.bounds = {0}, .owner = {}, .grid = 2};
  for (Index i = 0; i < intervals; ++i) {
    splits.bounds.push_back((i + 1) * length);
    splits.owner.push_back(i % 2);
  }
  const Layout layout(Grid({splits}));
  for (const Rank rank : all_ranks(2)) {
    const IndexList list = IndexList::of_layout(layout, rank, local_part(layout, rank));
    ASSERT_EQ(list.runs().size(), static_cast<std::size_t>(intervals / 2));
    for (Index i = 0; i < intervals / 2; ++i) {
      const ListRun& run = list.runs()[static_cast<std::size_t>(i)];
      ASSERT_EQ(run.global, (2 * i + rank.value) * length);
      ASSERT_EQ(run.local, i * length);
      ASSERT_EQ(run.length, length);
    }
  }
}

/// A plan of points that form runs, or are equally spaced, is short.
TEST(Lists, KeepRunsAndEqualDistancesOfPoints) {
  const std::vector<Index> shape{1000};
  std::vector<Index> even, odd, all(1000);
  std::iota(all.begin(), all.end(), 0);
  for (Index i = 0; i < 1000; ++i) (i % 2 == 0 ? even : odd).push_back(i);
  Side cyclic{.numbers = {even, odd}}, whole{.numbers = {all}};
  for (const auto& points : cyclic.numbers)
    cyclic.layout.push_back(
        listed_layout(shape, 2, false, false, IndexList::of_points(shape, points)));
  whole.layout.push_back(listed_layout(shape, 1, false, false, IndexList::of_points(shape, all)));
  EXPECT_EQ(whole.layout[0].listed()->mine->runs().size(), 1u);
  Matched matched(cyclic, whole);
  const Plan plan =
      make_listed_plan(whole.layout[0], cyclic.layout[0], std::move(matched.of_sink[0]));
  ASSERT_EQ(plan.size(), 2u);
  EXPECT_EQ(plan[0].along[0].elements(), 1);
  EXPECT_EQ(plan[0].along[1].period.size(), 1u);
  EXPECT_EQ(plan[0].along[1].period[0].count, 500);
}

/// Returns what each rank owns of a layout, as points in the order of its buffer.
Side as_points(const Layout& layout) {
  const std::vector<Index> shape = index_calc::shape(layout);
  Side side;
  for (const auto& [rank, buffer] : testing::World(layout).buffers) side.numbers.push_back(buffer);
  for (const auto& points : side.numbers)
    side.layout.push_back(
        listed_layout(shape, side.ranks(), false, false, IndexList::of_points(shape, points)));
  return side;
}

std::size_t segments_in(const SegmentList& list) {
  std::size_t count = 0;
  list.for_each([&](const Segment&) { ++count; });
  return count;
}

/// Blocks given as points make two short lists for each pair, as they do when given as layouts.
TEST(Lists, KeepOnePatternForTheRowsOfBlocks) {
  const Layout from = Layout::parse("shape=400x400 grid=2x2 block=32x32"),
               to = Layout::parse("shape=400x400 grid=1x3 block=48x48");
  const Side source = as_points(from), sink = as_points(to);
  Matched matched(source, sink);
  for (const Rank rank : all_ranks(4)) {
    SCOPED_TRACE(rank.value);
    const Plan plan =
        make_listed_plan(source.layout[0], sink.layout[0], std::move(matched.of_source[at(rank)]));
    const Plan of_layouts = make_plan(from, to, rank);
    ASSERT_EQ(plan.size(), of_layouts.size());
    for (std::size_t i = 0; i < plan.size(); ++i) {
      const Package package = plan[i], reference = of_layouts[i];
      EXPECT_EQ(package.peer, reference.peer);
      const auto rows = static_cast<std::size_t>(reference.along[0].elements());
      const std::size_t columns = segments_in(reference.along[1]), all = rows * columns;
      const auto of_rows = static_cast<std::size_t>(package.along[0].elements());
      EXPECT_EQ(of_rows * segments_in(package.along[1]), all);
      EXPECT_LE(of_rows + segments_in(package.along[1]), rows + columns);
    }
  }
  Random random;
  expect_moves_all(random, source, sink);
}

/// Blocks are given as points, in buffers that are reversed row by row, as a whole, or both.
TEST(Lists, MoveBlocksInAnyOrderOfTheBuffer) {
  Random random;
  for (int i = 0; i < 40 && !HasFatalFailure(); ++i) {
    const auto dealt = [&] {
      return as_points(
          Layout::parse(fmt::format("shape=36x30 grid={}x{} block={}x{}", random.in(1, 2),
                                    random.in(1, 3), random.in(1, 5), random.in(1, 5))));
    };
    Side source = dealt(), sink = dealt();
    for (Side* const side : {&source, &sink})
      for (std::size_t r = 0; r < side->numbers.size(); ++r) {
        auto& numbers = side->numbers[r];
        if (random.one_in(3)) std::ranges::reverse(numbers);
        if (random.one_in(2))  // within each row
          for (auto row = numbers.begin(); row != numbers.end();) {
            const auto end = std::find_if(row, numbers.end(),
                                          [&](Index number) { return number / 30 != *row / 30; });
            std::reverse(row, end);
            row = end;
          }
        side->layout[r] = listed_layout(std::vector<Index>{36, 30}, side->ranks(), false, false,
                                        IndexList::of_points(std::vector<Index>{36, 30}, numbers));
      }
    expect_moves_all(random, source, sink);
  }
}

/// Rows of a pattern are read and written run by run; strides of a peer that lead out of its buffer are
/// refused.
TEST(Lists, ReadRowsRunByRunInsideABuffer) {
  const std::vector<Index> shape{5, 10};
  std::vector<Index> mine,
      theirs;  // elements 9, 8, 6 and 3 of each row: mine in this order, theirs at their indices
  for (Index row = 0; row < 5; ++row)
    for (const Index column : {9, 8, 6, 3}) mine.push_back(10 * row + column);
  for (Index number = 0; number < 50; ++number) theirs.push_back(number);
  Side sink{.numbers = {mine}, .is_partial = true}, source{.numbers = {theirs}};
  sink.layout.push_back(listed_layout(shape, 1, true, false, IndexList::of_points(shape, mine)));
  source.layout.push_back(
      listed_layout(shape, 1, false, false, IndexList::of_points(shape, theirs)));
  Matched matched(source, sink);
  const Plan plan =
      make_listed_plan(sink.layout[0], source.layout[0], std::move(matched.of_sink[0]));
  const Package package = plan[0];
  EXPECT_EQ(package.along[0].elements(), 5);
  EXPECT_EQ(package.along[1].elements(), 4);
  package.along[1].for_each([](const Segment& s) {
    EXPECT_GE(s.begin.value, 0);
    EXPECT_GE(s.peer_begin.value, 0);
  });
  const LocalPart part = flat(mine, 20), their_part = flat(theirs, 50);
  std::vector<CommonRun> runs;
  list_common_runs(package, part, their_part, Order::row, sizeof(Index), {0, 20}, bytes_of(mine),
                   runs);
  EXPECT_EQ(runs.size(), 20u);  // single elements, in the order of the wire
  EXPECT_LT(runs[0].theirs, runs[1].theirs);
  LocalPart claimed = their_part;
  claimed.stride[1] = Index{1} << 20;
  std::vector<Index> found(mine.size());
  EXPECT_EQ(error_of([&] {
              copy_from_peer(package, part, claimed, sizeof(Index), bytes_of(theirs),
                             std::as_writable_bytes(std::span(found)));
            }).substr(0, 16),
            "invalid_argument");
  const Side blocks = as_points(Layout::parse("shape=400x400 grid=2x2 block=32x32")),
             others = as_points(Layout::parse("shape=400x400 grid=1x3 block=48x48"));
  Matched of_blocks(blocks, others);
  const auto segments = of_blocks.of_sink[0][0].segments.size();
  const Plan of_first =
      make_listed_plan(others.layout[0], blocks.layout[0], std::move(of_blocks.of_sink[0]));
  runs.clear();
  list_common_runs(of_first[0], flat(others.numbers[0], 0), flat(blocks.numbers[0], 0), Order::row,
                   sizeof(Index), {0, of_first[0].elements}, bytes_of(others.numbers[0]), runs);
  EXPECT_LE(runs.size(), segments);
}

TEST(Lists, HaveFingerprintsThatDependOnTheMatch) {
  const Side side = two_ranks({0, 1, 2, 3, 4, 5}, {11, 10, 9, 8, 7, 6});
  const auto fingerprint = [&](std::uint64_t match) {
    return make_listed_plan(side.layout[0], side.layout[1], {}, match).fingerprint();
  };
  EXPECT_EQ(fingerprint(1), fingerprint(1));
  EXPECT_NE(fingerprint(1), fingerprint(2));
}

/// Runs that a rank has written are read back unchanged; untrusted bytes give an error, or runs in ascending
/// order.
TEST(Lists, ReadOrRefuseForeignBytes) {
  Random random;
  for (int i = 0; i < testing_only::rounds(2000); ++i) {
    const bool has_places = random.one_in(2);
    RunWriter writer(has_places);
    std::vector<ListRun> runs;
    Index at = random.in(0, 3);
    for (Index left = random.in(0, 9); left > 0; --left) {
      runs.push_back({at, has_places ? random.in(0, 1 << 20) : 0, random.in(1, 300)});
      writer.add(runs.back());
      if (has_places && random.one_in(3)) {  // the elements again, elsewhere
        runs.push_back({at, (1 << 22) + random.in(0, 1 << 20), runs.back().length});
        writer.add(runs.back());
      }
      at += runs.back().length + random.in(1, 300);
    }
    Bytes bytes;
    writer.write_to(bytes);
    const bool may_repeat = has_places;
    EXPECT_EQ(RunReader(bytes).read(has_places, 0, at, may_repeat), runs);
    if (std::ranges::adjacent_find(runs, {}, &ListRun::global) != runs.end()) {
      EXPECT_NE(error_of([&] { RunReader(bytes).read(has_places, 0, at); }), "no error");
    }
    if (bytes.size() > 1) {
      const auto cut = std::span(bytes).first(bytes.size() - 1);
      EXPECT_NE(error_of([&] { RunReader(cut).read(has_places, 0, at, may_repeat); }), "no error");
    }
    if (!runs.empty()) {
      const Index end = runs.back().global;
      EXPECT_NE(error_of([&] { RunReader(bytes).read(has_places, 0, end, may_repeat); }),
                "no error");
    }
    bytes[static_cast<std::size_t>(random.in(0, static_cast<Index>(bytes.size()) - 1))] =
        static_cast<std::byte>(random.in(0, 255));
    try {
      Index before = 0;
      for (const ListRun& run : RunReader(bytes).read(has_places, 0, at, may_repeat)) {
        EXPECT_GE(run.global, before);
        EXPECT_GE(run.local, 0);
        before = has_places ? run.global : run.global + run.length;
        EXPECT_LE(run.global + run.length, at);
      }
    } catch (const core::Error& e) {
      EXPECT_EQ(e.code(), core::Errc::protocol);
    }
  }
}

TEST(ListedLayout, HasNoStrideWhereARankListsNothing) {
  const Side side = two_ranks({}, {0, 1, 2});
  EXPECT_EQ(local_part(side.layout[0], Rank{0}).stride[0], 0);
  EXPECT_EQ(local_part(side.layout[1], Rank{1}).stride[0], 1);
}

}  // namespace
}  // namespace tremula::index_calc
