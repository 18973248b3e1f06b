// SPDX-License-Identifier: Apache-2.0
#include "index_calc/view/view.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/error.hpp"
#include "index_calc/pack/pack.hpp"
#include "tests/index_calc/cells.hpp"
#include "tests/index_calc/lists/random_lists.hpp"
#include "tests/index_calc/oracle.hpp"
#include "tests/index_calc/random.hpp"
#include "tests/rounds.hpp"

namespace tremula::index_calc {
namespace {

using testing::buffer_of, testing::deal, testing::Dealt, testing::Random, testing::World;
using Axes = std::vector<std::size_t>;
using Numbers = std::vector<Index>;

Numbers small_shape(Random& random) {
  Numbers shape;
  for (Index d = random.in(1, 4); d > 0; --d)
    shape.push_back(random.one_in(20) ? 0 : random.in(1, 9));
  return shape;
}

Selection random_selection(Random& random, const Numbers& shape) {
  Selection s;
  for (const Index n : shape) {
    s.origin.push_back(random.in(0, n));
    s.extents.push_back(random.one_in(9) ? 0 : random.in(0, n - s.origin.back()));
  }
  return s;
}

Axes random_axes(Random& random, std::size_t dimensions) {
  Axes axes(dimensions);
  std::iota(axes.begin(), axes.end(), std::size_t{0});
  for (std::size_t d = dimensions; d-- > 1;)
    std::swap(axes[d], axes[static_cast<std::size_t>(random.in(0, static_cast<Index>(d)))]);
  return axes;
}

template <class Values>
Values permuted_values(const Values& values, const Axes& axes) {
  Values result = values;
  for (std::size_t d = 0; d < axes.size(); ++d) result[d] = values[axes[d]];
  return result;
}

/// Returns the row-major number of an element.
Index number_of(const Numbers& at, const Numbers& shape) {
  Index number = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) number = number * shape[d] + at[d];
  return number;
}

/// An array that is a view of another: the numbers of its elements in both arrays, and their places
/// according to the view.
struct Viewed {
  std::vector<Index> here, there, offset;
  std::map<Rank, Index> elements;  ///< of each rank
};

/// @param in_array  returns the element of the array for an element of the view
/// @param part_of   returns the part of a rank
template <class InArray, class PartOf>
Viewed viewed(const Layout& view, const Numbers& array_shape, InArray&& in_array,
              PartOf&& part_of) {
  const World world(view);
  std::vector<Dealt> dealt;
  for (const Distribution& d : view.grid()->dims) dealt.push_back(deal(d));
  Viewed result;
  World::for_each_index(world.shape, Order::row, [&](const Numbers& at) {
    const Index here = number_of(at, world.shape);
    const LocalPart part = part_of(world.owner.at(here));
    Index offset = part.first;
    for (std::size_t d = 0; d < at.size(); ++d)
      offset += part.stride[d] * dealt[d].local[static_cast<std::size_t>(at[d])];
    result.here.push_back(here);
    result.there.push_back(number_of(in_array(at), array_shape));
    result.offset.push_back(offset);
    ++result.elements[world.owner.at(here)];
  });
  return result;
}

/// Checks that every element of the view has the same rank and the same place as in the array.
void expect_same_memory(const Viewed& v, const World& view, const World& array) {
  for (std::size_t i = 0; i < v.here.size(); ++i) {
    ASSERT_EQ(view.owner.at(v.here[i]), array.owner.at(v.there[i]));
    ASSERT_EQ(v.offset[i], array.offset.at(v.there[i]));
  }
}

TEST(Selected, IsThePartOfTheArrayElementByElement) {
  Random random;
  for (int round = 0; round < testing_only::rounds(1500); ++round) {
    const Numbers shape = small_shape(random);
    const Layout layout = random.layout(shape, 3);
    const Selection selection = random_selection(random, shape);
    SCOPED_TRACE(to_string(layout) + ", selected " + ::testing::PrintToString(selection.origin) +
                 " " + ::testing::PrintToString(selection.extents));
    const Layout part = selected(layout, selection);
    ASSERT_EQ(Layout::parse(to_string(part)), part);
    ASSERT_EQ(index_calc::shape(part), selection.extents);
    const World array(layout), view(part);
    const auto in_array = [&](Numbers at) {
      for (std::size_t d = 0; d < at.size(); ++d) at[d] += selection.origin[d];
      return at;
    };
    Viewed v = viewed(part, shape, in_array,
                      [&](Rank rank) { return selected_part(layout, selection, rank); });
    expect_same_memory(v, view, array);
    if (HasFatalFailure()) return;
    for (const Rank rank : all_ranks(30)) {
      const LocalPart all = local_part(layout, rank), some = selected_part(layout, selection, rank);
      ASSERT_EQ(some.dimensions, all.dimensions);
      ASSERT_EQ(some.stride, all.stride);
      ASSERT_EQ(some.allocated, all.allocated);
      ASSERT_EQ(some.extent, local_part(part, rank).extent);
      ASSERT_EQ(some.elements, v.elements[rank]);
      if (some.elements == 0) {
        ASSERT_EQ(some.first, all.first);
      }
    }
  }
}

TEST(Selected, ComposesWithAnotherSelection) {
  Random random;
  for (int round = 0; round < testing_only::rounds(1000); ++round) {
    const Numbers shape = small_shape(random);
    const Layout layout = random.layout(shape, 4);
    const Selection outer = random_selection(random, shape),
                    inner = random_selection(random, outer.extents);
    Selection both = inner;
    for (std::size_t d = 0; d < shape.size(); ++d) both.origin[d] += outer.origin[d];
    SCOPED_TRACE(to_string(layout));
    ASSERT_EQ(selected(selected(layout, outer), inner), selected(layout, both));
    const Axes axes = random_axes(random, shape.size());
    const Selection turned{permuted_values(both.origin, axes), permuted_values(both.extents, axes)};
    ASSERT_EQ(permuted(selected(layout, both), axes).grid()->dims,
              selected(permuted(layout, axes), turned).grid()->dims);
    for (const Rank rank : all_ranks(30)) {
      const LocalPart a = permuted(selected_part(layout, both, rank), axes);
      ASSERT_EQ(a.elements, local_part(selected(permuted(layout, axes), turned), rank).elements);
    }
  }
}

TEST(Selected, MatchesTheTableOfCases) {
  const struct {
    const char* layout;
    Selection selection;
    const char* expected;
  } rows[] = {
      {"shape=10x9 grid=2x3 block=4x2 source=1x0",
       {{5, 3}, {4, 5}},
       "shape=4x5 grid=2x3 block=4x2 source=0x1 cut=1x1"},
      {"shape=10x9 grid=2x3 block=4x2 ghost=1x1 leading=20 store=column ranks=column",
       {{0, 0}, {10, 9}},
       "shape=10x9 grid=2x3 block=4x2 store=column ranks=column"},
      {"shape=9 grid=2 block=3 cut=2", {{1}, {8}}, "shape=8 grid=2 block=3 source=1"},
      {"shape=9 grid=2 block=3 cut=2", {{9}, {0}}, "shape=0 grid=2 block=3 source=1 cut=2"},
      {"shape=9 grid=1", {{4}, {2}}, "shape=2 grid=1 block=9 cut=4"},
      {"shape=10 grid=3 splits0=0/3/5/10 owners0=2/0/1 members=4-6",
       {{4}, {3}},
       "shape=3 grid=3 splits0=0/1/3 owners0=0/1 members=4-6"},
      {"shape=10 grid=3 splits0=0/3/5/10 owners0=2/0/1", {{3}, {2}}, "shape=2 grid=3 splits0=0/2"},
      {"shape=10 grid=3 splits0=0/3/5/10 owners0=2/0/1", {{5}, {0}}, "shape=0 grid=3 splits0=0"},
  };
  for (const auto& row : rows)
    EXPECT_EQ(to_string(selected(Layout::parse(row.layout), row.selection)),
              to_string(Layout::parse(row.expected)));
}

TEST(Selected, IsExactAtTheLargestExtent) {
  constexpr Index most = std::numeric_limits<Index>::max();
  const Layout layout(Grid(
      {BlockCyclic{.extent = most, .block = most - 1, .grid = 2, .source = 1, .cut = most - 3}}));
  // Blocks [0, 2) and [2, 2^63 - 1).
  const BlockCyclic tail{.extent = 1, .block = most - 1, .grid = 2, .source = 0, .cut = most - 3};
  EXPECT_EQ(selected(layout, {{most - 1}, {1}}).grid()->dims[0], Distribution(tail));
  const LocalPart part = selected_part(layout, {{most - 1}, {1}}, Rank{0});
  EXPECT_EQ(part.first, most - 3);
  EXPECT_EQ(part.elements, 1);
  EXPECT_EQ(part.allocated, most - 2);
}

TEST(Selected, IsEmptyForAnIdleRank) {
  const Layout layout = Layout::parse("shape=8x8 grid=2x1 members=1/3");
  const LocalPart part = selected_part(layout, {{1, 1}, {3, 3}}, Rank{2});
  EXPECT_EQ(part.dimensions, 0U);
  EXPECT_EQ(part.elements, 0);
  EXPECT_EQ(part.allocated, 0);
}

/// Returns the error text; expects the code invalid_argument.
template <class Call>
std::string refusal(Call&& call) {
  try {
    call();
  } catch (const core::Error& e) {
    EXPECT_EQ(e.code(), core::Errc::invalid_argument);
    return e.what();
  }
  return "none";
}

TEST(Selected, RefusesASkewedLayout) {
  const Layout skewed = Layout::parse("shape=8x8 mesh=2x2 block=2x2 owner0=b0 owner1=b1-b0");
  const Selection selection{.origin = {0, 0}, .extents = {4, 8}};
  EXPECT_THROW(selected(skewed, selection), core::Error);
  EXPECT_THROW(selected_part(skewed, selection, Rank{0}), core::Error);
}

TEST(Selected, RefusesElementsOutsideTheArray) {
  const Layout layout = Layout::parse("shape=10x9 grid=2x3");
  constexpr Index most = std::numeric_limits<Index>::max();
  const struct {
    Selection selection;
    const char* text;
  } rows[] = {
      {{{0, 0}, {10}},
       "selection: expected an origin and an extent for each of the 2 dimensions, found 2 and 1"},
      {{{}, {}},
       "selection: expected an origin and an extent for each of the 2 dimensions, found 0 and 0"},
      {{{0, 3}, {10, 7}},
       "selection, dimension 1: expected elements of the array's 9, found 7 elements beginning "
       "with 3"},
      {{{-1, 0}, {1, 1}},
       "selection, dimension 0: expected elements of the array's 10, found 1 elements beginning "
       "with -1"},
      {{{11, 0}, {0, 1}},
       "selection, dimension 0: expected elements of the array's 10, found 0 elements beginning "
       "with 11"},
      {{{0, 0}, {1, -1}},
       "selection, dimension 1: expected elements of the array's 9, found -1 elements beginning "
       "with 0"},
      {{{most, 0}, {most, 1}},
       "selection, dimension 0: expected elements of the array's 10, found"},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(refusal([&] { selected(layout, row.selection); }).find(row.text), 0U);
    EXPECT_EQ(refusal([&] { selected_part(layout, row.selection, Rank{0}); }).find(row.text), 0U);
  }
}

TEST(Permuted, IsTheArrayElementByElement) {
  Random random;
  for (int round = 0; round < testing_only::rounds(1500); ++round) {
    const Numbers shape = small_shape(random);
    const Layout layout = random.layout(shape, 3);
    const Axes axes = random_axes(random, shape.size());
    SCOPED_TRACE(to_string(layout) + ", axes " + ::testing::PrintToString(axes));
    const Layout turned = permuted(layout, axes);
    ASSERT_EQ(Layout::parse(to_string(turned)), turned);
    ASSERT_EQ(index_calc::shape(turned), permuted_values(shape, axes));
    const World array(layout), view(turned);
    const auto in_array = [&](const Numbers& at) {
      Numbers result(at.size());
      for (std::size_t d = 0; d < at.size(); ++d) result[axes[d]] = at[d];
      return result;
    };
    const Viewed v = viewed(turned, shape, in_array,
                            [&](Rank rank) { return permuted(local_part(layout, rank), axes); });
    expect_same_memory(v, view, array);
    if (HasFatalFailure()) return;
    const bool keeps = std::ranges::is_sorted(axes),
               reverses = std::ranges::is_sorted(axes, std::ranges::greater{});
    for (const Rank rank : all_ranks(30)) {
      const LocalPart given = permuted(local_part(layout, rank), axes),
                      own = local_part(turned, rank);
      ASSERT_EQ(own.extent, given.extent);
      ASSERT_EQ(own.elements, given.elements);
      if (!keeps && !reverses) continue;
      ASSERT_EQ(own.stride, given.stride);
      ASSERT_EQ(own.first, given.first);
      ASSERT_EQ(own.allocated, given.allocated);
    }
    if (keeps) {
      ASSERT_EQ(turned, layout);
    }
    Axes back(axes.size());
    for (std::size_t d = 0; d < axes.size(); ++d) back[axes[d]] = d;
    const Layout again = permuted(turned, back);
    ASSERT_EQ(again.grid()->dims, layout.grid()->dims);
    ASSERT_EQ(World(again).owner, array.owner);
    if (layout.ranks().members.empty()) {
      ASSERT_TRUE(again.ranks().members.empty());
    }
  }
}

TEST(Permuted, MatchesTheTableOfCases) {
  const struct {
    const char* layout;
    Axes axes;
    const char* expected;
  } rows[] = {
      {"shape=4x6 grid=2x3 block=2x1 source=1x2 cut=1x0 ghost=1x2 leading=9",
       {1, 0},
       "shape=6x4 grid=3x2 block=1x2 source=2x1 cut=0x1 ghost=2x1 leading=9 ranks=column "
       "store=column"},
      {"shape=4x6 grid=2x3 ghost=1x2 leading=9 members=3-8",
       {0, 1},
       "shape=4x6 grid=2x3 ghost=1x2 leading=9 members=3-8"},
      // Only dimensions 0 and 2 of the grid have more than one coordinate.
      {"shape=4x6x6 grid=2x1x3 ghost=1x1x1 leading=20",
       {2, 0, 1},
       "shape=6x4x6 grid=3x2x1 ranks=column"},
      {"shape=4x6x6 grid=2x1x3 ranks=column store=column",
       {1, 0, 2},
       "shape=6x4x6 grid=1x2x3 ranks=column store=column"},
      {"shape=4x6x8 grid=2x3x4", {1, 0, 2}, "shape=6x4x8 mesh=2x3x4 axes0=1 axes1=0 axes2=2"},
      {"shape=6x4x8 mesh=5x2x3x4 axes0=2 axes1=1 axes2=3",
       {1, 0, 2},
       "shape=4x6x8 mesh=5x2x3x4 axes0=1 axes1=2 axes2=3"},
      {"shape=4x6x2 grid=2x2x2 members=10/9/8/7/6/5/4/3",
       {0, 2, 1},
       "shape=4x2x6 mesh=2x2x2 axes0=0 axes1=2 axes2=1 members=10/9/8/7/6/5/4/3"},
      {"shape=9 grid=3 splits0=0/1/5/9", {0}, "shape=9 grid=3 splits0=0/1/5/9"},
  };
  for (const auto& row : rows)
    EXPECT_EQ(to_string(permuted(Layout::parse(row.layout), row.axes)),
              to_string(Layout::parse(row.expected)));
}

TEST(Permuted, RefusesInvalidPermutations) {
  const Layout layout = Layout::parse("shape=4x6x8 grid=2x3x4");
  const struct {
    Axes axes;
    const char* found;
  } rows[] = {{{0, 1}, "0, 1"},
              {{}, ""},
              {{0, 1, 1}, "0, 1, 1"},
              {{0, 1, 3}, "0, 1, 3"},
              {{0, 1, 2, 3}, "0, 1, 2, 3"}};
  for (const auto& row : rows) {
    const std::string text =
        std::string("axes: expected each of the 3 dimensions once, counted from 0, found ") +
        row.found;
    EXPECT_EQ(refusal([&] { permuted(layout, row.axes); }), text);
    EXPECT_EQ(refusal([&] { permuted(local_part(layout, Rank{0}), row.axes); }), text);
  }
  EXPECT_EQ(permuted(local_part(layout, Rank{24}), Axes{2, 1, 0}).dimensions, 0U) << "an idle rank";
}

/// A selection of an array, with its dimensions permuted.
struct View {
  Layout array, layout;
  Selection selection;  ///< of the array
  Axes axes;            ///< of the selection
  LocalPart part(Rank rank) const { return permuted(selected_part(array, selection, rank), axes); }
};

/// Returns a view with shape `shape` of a random array.
View random_view(Random& random, const Numbers& shape) {
  View view;
  view.axes = random_axes(random, shape.size());
  Numbers whole(shape.size());
  view.selection = {whole, whole};
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const std::size_t axis = view.axes[d];
    view.selection.origin[axis] = random.in(0, 3);
    view.selection.extents[axis] = shape[d];
    whole[axis] = view.selection.origin[axis] + shape[d] + random.in(0, 3);
  }
  view.array = random.layout(whole, 3);
  view.layout = permuted(selected(view.array, view.selection), view.axes);
  return view;
}

TEST(Layer, IsAnArrayOfItsRanks) {
  const struct {
    const char* sums;
    RankCount number;
    const char* layer;
  } rows[] = {
      {"shape=9 mesh=2x3 axes0=1 sum=0", 0, "shape=9 mesh=3 axes0=0 members=0-2"},
      {"shape=9 mesh=2x3 axes0=1 sum=0", 1, "shape=9 mesh=3 axes0=0 members=3-5"},
      {"shape=9 mesh=2x3 axes0=1 sum=0 ranks=column", 1,
       "shape=9 mesh=3 axes0=0 ranks=column members=1/3/5"},
      {"shape=9 mesh=2x3 axes0=0 sum=1 members=6-11", 2, "shape=9 mesh=2 axes0=0 members=8/11"},
      {"shape=9 mesh=2x2x3 sum=0/2", 4,
       "shape=9 mesh=2 members=7/10"},  // the other axis holds copies
      {"shape=9 mesh=4 sum=0", 3, "shape=9 grid=1 members=3"},
      {"shape=9x8 mesh=2x1x3 owner0=b1 owner2=b0-b1 sum=1 block=2x3", 0,
       "shape=9x8 mesh=2x3 block=2x3 owner0=b1 owner1=b0-b1 members=0-5"},
      {"shape=9 grid=3", 0, "shape=9 grid=3"},
  };
  for (const auto& row : rows) {
    const Layout sums = Layout::parse(row.sums), wanted = Layout::parse(row.layer);
    const Layout found = layer(sums, row.number);
    EXPECT_EQ(to_string(found), to_string(wanted));
    EXPECT_EQ(found, wanted);
    for (const Rank rank : ranks_of(found)) {
      const LocalPart part = local_part(found, rank), whole = local_part(sums, rank);
      EXPECT_EQ(part.stride, whole.stride);
      EXPECT_EQ(part.extent, whole.extent);
      EXPECT_EQ(part.allocated, whole.allocated);
    }
  }
  EXPECT_EQ(layer_count(Layout::parse("shape=9 mesh=2x2x3 sum=0/2")), 6);
  EXPECT_EQ(layer_count(Layout::parse("shape=9 mesh=2x2x3")), 1);
}

/// Returns the number of the element at each place of the buffer of a rank that lists its elements; -1 if
/// there is none.
Numbers places_of(const Layout& listed) {
  Numbers places(static_cast<std::size_t>(listed.listed()->allocated), -1);
  for (const ListRun& run : listed.listed()->mine->runs())
    for (Index i = 0; i < run.length; ++i)
      places[static_cast<std::size_t>(run.local + i)] = run.global + i;
  return places;
}

Numbers index_of(Index number, const Numbers& shape) {
  Numbers at(shape.size());
  for (std::size_t d = shape.size(); d-- > 0; number /= shape[d]) at[d] = number % shape[d];
  return at;
}

TEST(View, NamesTheElementInEachPlaceOfAList) {
  Random random;
  for (int round = 0; round < testing_only::rounds(1000); ++round) {
    const Numbers shape = testing::random_shape(random);
    const testing::Side side = testing::random_side(random, shape, false, true);
    const Selection selection = random_selection(random, shape);
    const Axes axes = random_axes(random, shape.size());
    for (std::size_t rank = 0; rank < side.layout.size(); ++rank) {
      SCOPED_TRACE(to_string(side.layout[rank]) + ", from " +
                   ::testing::PrintToString(selection.origin) + ", extents " +
                   ::testing::PrintToString(selection.extents) + ", axes " +
                   ::testing::PrintToString(axes));
      const Layout part = selected(side.layout[rank], selection), turned = permuted(part, axes);
      const Numbers after = permuted_values(selection.extents, axes);
      ASSERT_EQ(index_calc::shape(part), selection.extents);
      ASSERT_EQ(index_calc::shape(turned), after);
      Numbers in_part, in_turned;
      Index elements = 0;
      for (const Index number : side.numbers[rank]) {
        Numbers at = number < 0 ? Numbers() : index_of(number, shape);
        bool is_chosen = number >= 0;
        for (std::size_t d = 0; d < at.size(); ++d) {
          at[d] -= selection.origin[d];
          is_chosen = is_chosen && at[d] >= 0 && at[d] < selection.extents[d];
        }
        elements += is_chosen ? 1 : 0;
        in_part.push_back(is_chosen ? number_of(at, selection.extents) : -1);
        in_turned.push_back(is_chosen ? number_of(permuted_values(at, axes), after) : -1);
      }
      ASSERT_EQ(places_of(part), in_part);
      ASSERT_EQ(places_of(turned), in_turned);
      ASSERT_EQ(local_part(turned, Rank{0}).elements, elements);
    }
  }
}

/// Elements move from one submatrix into another, as with pdgemr2d.
TEST(View, MovesIntoAViewOfAnotherArray) {
  Random random;
  constexpr std::size_t width = 4;
  for (int round = 0; round < testing_only::rounds(300); ++round) {
    Numbers shape;
    for (Index d = random.in(1, 3); d > 0; --d) shape.push_back(random.in(1, 7));
    const View from = random_view(random, shape), to = random_view(random, shape);
    SCOPED_TRACE(to_string(from.array) + " to " + to_string(to.array));
    const World source(from.array), target(to.array);
    std::map<Rank, Numbers> expected;
    std::map<Rank, std::vector<std::byte>> received;
    for (const auto& [rank, numbers] : target.buffers) {
      expected[rank] = Numbers(numbers.size(), -1);
      received[rank] = buffer_of(expected[rank], width);
    }
    World::for_each_index(shape, Order::row, [&](const Numbers& at) {
      const auto in = [&](const View& view, const World& world) {
        Numbers there(at.size());
        for (std::size_t d = 0; d < at.size(); ++d)
          there[view.axes[d]] = at[d] + view.selection.origin[view.axes[d]];
        return number_of(there, world.shape);
      };
      const Index place = in(to, target);
      expected[target.owner.at(place)][static_cast<std::size_t>(target.offset.at(place))] =
          in(from, source);
    });
    for (const auto& [me, numbers] : source.buffers) {
      const Plan plan = make_validated_plan(from.layout, to.layout, me);
      plan.for_each_package([&](const Package& package) {
        std::vector<std::byte> wire(static_cast<std::size_t>(package.elements) * width);
        pack(package, from.part(me), Order::row, width, buffer_of(numbers, width), wire);
        const Plan other = make_plan(to.layout, from.layout, package.peer);
        unpack(*other.package_for(me), to.part(package.peer), Order::row, width, wire,
               received[package.peer]);
      });
    }
    for (const auto& [rank, numbers] : expected)
      ASSERT_EQ(received[rank], buffer_of(numbers, width)) << "rank " << rank.value;
  }
}

}  // namespace
}  // namespace tremula::index_calc
