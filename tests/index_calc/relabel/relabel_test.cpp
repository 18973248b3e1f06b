// SPDX-License-Identifier: Apache-2.0
#include "index_calc/relabel/relabel.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "core/error.hpp"
#include "index_calc/plan/plan.hpp"
#include "tests/index_calc/cells.hpp"
#include "tests/index_calc/oracle.hpp"
#include "tests/index_calc/random.hpp"

namespace tremula::index_calc {
namespace {

using testing::Random, testing::World;

/// Bytes between producers and labels, counted from the owner of every element, without zeros.
using Bytes = std::map<std::pair<Rank, Rank>, Index>;

Bytes counted(const std::vector<Transfer>& arrays) {
  Bytes bytes;
  for (const Transfer& array : arrays) {
    const World from(array.from), to(array.to);
    for (const auto& [element, owner] : from.owner)
      bytes[{owner, to.owner.at(element)}] += array.element_bytes;
  }
  return bytes;
}

/// Returns the cost by its definition.
template <class Cost, class W>
Cost cost(const Bytes& bytes, const std::vector<Rank>& process, W&& w) {
  Cost sum{};
  for (const auto& [pair, sent] : bytes) sum += w(pair.first, process[at(pair.second)], sent);
  return sum;
}

std::vector<Rank> unchanged(RankCount size) {
  const auto all = all_ranks(size);
  return {all.begin(), all.end()};
}

/// Returns the cost of each label at each process. Shape: [label][process]
template <class Cost, class W>
std::vector<std::vector<Cost>> costs(const Bytes& bytes, RankCount consumers, W&& w) {
  const auto n = static_cast<std::size_t>(consumers);
  std::vector of(n, std::vector<Cost>(n));
  for (const auto& [pair, sent] : bytes)
    for (const Rank j : all_ranks(consumers)) of[at(pair.second)][at(j)] += w(pair.first, j, sent);
  return of;
}

/// Returns the least cost of all permutations.
template <class Cost>
Cost least_cost(const std::vector<std::vector<Cost>>& of) {
  auto process = unchanged(static_cast<RankCount>(of.size()));
  auto least = std::numeric_limits<Cost>::max();
  do {
    Cost sum{};
    for (std::size_t r = 0; r < of.size(); ++r) sum += of[r][at(process[r])];
    least = std::min(least, sum);
  } while (std::ranges::next_permutation(process).found);
  return least;
}

/// Returns the cost with each label at its worst process.
template <class Cost>
Cost worst_cost(const std::vector<std::vector<Cost>>& of) {
  Cost sum{};
  for (const auto& label : of) sum += std::ranges::max(label);
  return sum;
}

RankCount group_size(const Layout& layout) { return std::ranges::max(ranks_of(layout)).value + 1; }

struct Case {
  std::vector<Transfer> arrays;
  RankCount producers = 0, consumers = 0;
};

/// Returns one or two arrays for up to 12 producers and 8 consumers, some of them idle.
Case random_case(Random& random) {
  Case result;
  for (Index arrays = random.one_in(3) ? 2 : 1; arrays > 0;) {
    std::vector<Index> shape;
    for (Index d = random.in(1, 3); d > 0; --d)
      shape.push_back(random.one_in(20) ? 0 : random.in(1, 10));
    const Index most = shape.size() == 1 ? 8 : 3;
    const Transfer array{random.layout(shape, most), random.layout(shape, most), random.in(1, 9)};
    if (group_size(array.from) > 12 || group_size(array.to) > 8) continue;
    result.producers = std::max(result.producers, group_size(array.from));
    result.consumers = std::max(result.consumers, group_size(array.to));
    result.arrays.push_back(array);
    --arrays;
  }
  return result;
}

std::string text(const Case& c) {
  std::string result;
  for (const Transfer& array : c.arrays)
    result += to_string(array.from) + "  to  " + to_string(array.to) + "\n";
  return result;
}

std::vector<RankCount> random_places(Random& random, RankCount count, RankCount places) {
  std::vector<RankCount> result;
  for (RankCount r = 0; r < count; ++r)
    result.push_back(static_cast<RankCount>(random.in(0, places - 1)));
  return result;
}

/// Checks that the relabelings are permutations, that their costs are those of the definition, that
/// the exact relabeling is the best of all, and that the greedy one saves at least half as much as
/// the exact one, both compared with the worst one.
template <class Cost, class W>
void expect_right(const Bytes& bytes, RankCount consumers, const Relabeling<Cost>& exact,
                  const Relabeling<Cost>& greedy, W&& w) {
  for (const Relabeling<Cost>& found : {exact, greedy}) {
    ASSERT_TRUE(std::ranges::is_permutation(found.process, unchanged(consumers)));
    ASSERT_EQ(found.before, cost<Cost>(bytes, unchanged(consumers), w));
    ASSERT_EQ(found.after, cost<Cost>(bytes, found.process, w));
    ASSERT_LE(found.after, found.before);
  }
  const auto of = costs<Cost>(bytes, consumers, w);
  ASSERT_EQ(exact.after, least_cost(of));
  ASSERT_GE(worst_cost(of) - greedy.after, (worst_cost(of) - exact.after) / 2);
}

/// Returns the bytes that packages carry between different places, rank by rank.
Index moved_bytes(const Case& c, const Places& places, const std::vector<Rank>& process) {
  Index moved = 0;
  for (const Transfer& array : c.arrays) {
    const Layout to = relabeled(array.to, process);
    for (const Rank p : all_ranks(c.producers)) {
      make_plan(array.from, to, p).for_each_package([&](const Package& package) {
        if (places.producers[at(p)] != places.consumers[at(package.peer)])
          moved += package.elements * array.element_bytes;
      });
    }
  }
  return moved;
}

/// Checks relabelings by places, and that with the greedy one at least half as many bytes stay in
/// their places as with the exact one.
void expect_right(const Bytes& bytes, const Places& places, const Relabeling<Index>& exact,
                  const Relabeling<Index>& greedy) {
  const auto w = [&](Rank p, Rank j, Index sent) {
    const bool is_local = places.producers[at(p)] == places.consumers[at(j)];
    return is_local ? Index{0} : sent;
  };
  expect_right<Index>(bytes, static_cast<RankCount>(places.consumers.size()), exact, greedy, w);
  Index total = 0;
  for (const auto& [pair, sent] : bytes) total += sent;
  EXPECT_GE(total - greedy.after, (total - exact.after) / 2);
}

void expect_right(const Case& c, const Places& places) {
  const auto exact = relabel(c.arrays, places), greedy = relabel(c.arrays, places, Method::greedy);
  expect_right(counted(c.arrays), places, exact, greedy);
  for (const auto& found : {exact, greedy}) {
    ASSERT_EQ(moved_bytes(c, places, found.process), found.after);
    ASSERT_EQ(moved_bytes(c, places, unchanged(c.consumers)), found.before);
    std::vector<Transfer> arrays;
    for (const Transfer& array : c.arrays)
      arrays.push_back({array.from, relabeled(array.to, found.process), array.element_bytes});
    ASSERT_EQ(remote_bytes(arrays, places), found.after);
  }
}

TEST(Relabel, MovesTheFewestBytesInOneJob) {
  Random random;
  for (int round = 0; round < 300; ++round) {
    Case c = random_case(random);
    c.producers = c.consumers = std::max(c.producers, c.consumers);
    if (c.consumers > 8) continue;
    SCOPED_TRACE(text(c));
    expect_right(c, one_job(c.consumers));
    if (HasFailure()) return;
  }
}

TEST(Relabel, MovesTheFewestBytesBetweenHosts) {
  Random random;
  for (int round = 0; round < 300; ++round) {
    const Case c = random_case(random);
    SCOPED_TRACE(text(c));
    const auto hosts = static_cast<RankCount>(random.in(1, 6));
    expect_right(
        c, {random_places(random, c.producers, hosts), random_places(random, c.consumers, hosts)});
    if (HasFailure()) return;
  }
}

// Costs are multiples of a quarter, so that all sums are exact.
TEST(Relabel, FindsTheLeastCostByATable) {
  Random random;
  for (int round = 0; round < 300; ++round) {
    const Case c = random_case(random);
    SCOPED_TRACE(text(c));
    CostTable table;
    table.places = static_cast<RankCount>(random.in(1, 8));
    table.at = {random_places(random, c.producers, table.places),
                random_places(random, c.consumers, table.places)};
    const Index most = random.one_in(3) ? 2 : 1'000'000;
    for (RankCount pair = 0; pair < table.places * table.places; ++pair) {
      table.latency.push_back(static_cast<double>(random.in(-most, most)));
      table.per_byte.push_back(static_cast<double>(random.in(0, most)) / 4);
    }
    const auto w = [&](Rank p, Rank j, Index bytes) {
      const auto from = static_cast<std::size_t>(table.at.producers[at(p)]);
      const auto to = static_cast<std::size_t>(table.at.consumers[at(j)]);
      const std::size_t pair = from * static_cast<std::size_t>(table.places) + to;
      return table.latency[pair] + table.per_byte[pair] * static_cast<double>(bytes);
    };
    const Bytes bytes = counted(c.arrays);
    expect_right<double>(bytes, c.consumers, relabel(c.arrays, table),
                         relabel(c.arrays, table, Method::greedy), w);
    if (HasFailure()) return;
  }
}

/// Returns layouts of one dimension with an interval for each pair: every matrix of volumes has
/// such layouts.
Transfer transfer_of(const std::vector<std::vector<Index>>& bytes) {
  Splits from{.bounds = {0}, .owner = {}, .grid = static_cast<Index>(bytes.size())}, to = from;
  for (std::size_t p = 0; p < bytes.size(); ++p)
    for (std::size_t r = 0; r < bytes[p].size(); ++r) {
      if (bytes[p][r] == 0) continue;
      from.bounds.push_back(from.bounds.back() + bytes[p][r]);
      from.owner.push_back(static_cast<Index>(p));
      to.owner.push_back(static_cast<Index>(r));
    }
  to.bounds = from.bounds;
  to.grid = static_cast<Index>(bytes.front().size());
  return {.from = Layout(Grid({from})), .to = Layout(Grid({to}))};
}

TEST(Relabel, MovesTheLeastOfAnyVolumes) {
  Random random;
  for (int round = 0; round < 400; ++round) {
    const auto producers = static_cast<RankCount>(random.in(1, 10)),
               consumers = static_cast<RankCount>(random.in(1, 8));
    const Index most = std::vector<Index>{1, 2, 1000, Index{1} << 33, (Index{1} << 61) / 80}.at(
        static_cast<std::size_t>(random.in(0, 4)));
    const Index zeros = random.in(0, 3);  // of four
    std::vector<std::vector<Index>> volumes(static_cast<std::size_t>(producers));
    Bytes bytes;
    for (const Rank p : all_ranks(producers))
      for (const Rank r : all_ranks(consumers)) {
        auto& row = volumes[at(p)];
        row.push_back(random.in(1, 4) <= zeros ? 0 : most - random.in(0, most / 2));
        if (row.back() > 0) bytes[{p, r}] = row.back();
      }
    SCOPED_TRACE(::testing::PrintToString(volumes));
    const Transfer transfer = transfer_of(volumes);
    Places places = one_job(std::max(producers, consumers));
    places.consumers.resize(static_cast<std::size_t>(consumers));
    if (random.one_in(2))
      places = {random_places(random, producers, 3), random_places(random, consumers, 3)};
    expect_right(bytes, places, relabel({&transfer, 1}, places),
                 relabel({&transfer, 1}, places, Method::greedy));
    if (HasFailure()) return;
  }
}

/// Returns an array whose layouts fit groups of `size` ranks, in most cases with copies.
Transfer with_copies(Random& random, RankCount size) {
  for (;;) {
    const auto shape = testing::random_shape(random, static_cast<std::size_t>(random.in(1, 2)));
    Transfer array{random.layout(shape, size, true), random.layout(shape, size, true), 4};
    if (group_size(array.from) > size || group_size(array.to) > size) continue;
    for (Layout* const layout : {&array.from, &array.to})
      *layout = layout->dense();  // relabeled parts may be longer
    if (copy_count(array.from) > 1 || random.one_in(4)) return array;
  }
}

/// Returns the bytes that ranks need but do not have themselves.
Index missing_bytes(const Transfer& array) {
  const World from(array.from), to(array.to);
  Index elements = 0;
  for (const auto& [rank, numbers] : to.buffers)
    for (const Index number : numbers) {
      const auto own = from.buffers.find(rank);
      if (number >= 0 &&
          (own == from.buffers.end() || std::ranges::count(own->second, number) == 0))
        ++elements;
    }
  return elements * array.element_bytes;
}

/// Returns the bytes that the plans of the consumer fetch from other hosts.
Index bytes_between_hosts(const Transfer& array, const Places& places) {
  const std::vector<std::uint32_t> producers(places.producers.begin(), places.producers.end()),
      consumers(places.consumers.begin(), places.consumers.end());
  const Hosts hosts{.of_mine = consumers, .of_theirs = producers};
  Index elements = 0;
  for (const Rank rank : ranks_of(array.to))
    make_plan(array.to, array.from, rank, Role::sink, Algorithm::aspen, hosts)
        .for_each_package([&](const Package& package) {
          if (consumers[at(rank)] != producers[at(package.peer)]) elements += package.elements;
        });
  return elements * array.element_bytes;
}

TEST(Relabel, CountsCopiesThatRanksHaveInOneJob) {
  Random random;
  for (int round = 0; round < 100; ++round) {
    const RankCount size = 4;
    const Transfer transfer = with_copies(random, size);
    SCOPED_TRACE(to_string(transfer.from) + "  to  " + to_string(transfer.to));
    Index least = std::numeric_limits<Index>::max();
    std::vector<Rank> process = unchanged(size);
    const auto moved = [&](const std::vector<Rank>& by) {
      return missing_bytes({transfer.from, relabeled(transfer.to, by), 4});
    };
    do least = std::min(least, moved(process));
    while (std::ranges::next_permutation(process).found);
    for (const Method method : {Method::exact, Method::greedy}) {
      const auto found = relabel({&transfer, 1}, one_job(size), method);
      EXPECT_EQ(found.before, missing_bytes(transfer));
      EXPECT_EQ(found.after, moved(found.process));
      EXPECT_LE(found.after, found.before);
      if (method == Method::exact) {
        EXPECT_EQ(found.after, least);
      }
      const Transfer after{transfer.from, relabeled(transfer.to, found.process), 4};
      EXPECT_EQ(remote_bytes({&after, 1}, one_job(size)), found.after);
    }
    if (HasFailure()) return;
  }
}

TEST(Relabel, CountsTheBytesOfCopiesBetweenHosts) {
  Random random;
  int saved = 0;
  for (int round = 0; round < 400; ++round) {
    const RankCount size = 6;
    const Transfer transfer = with_copies(random, size);
    const Places places{random_places(random, size, 3), random_places(random, size, 3)};
    SCOPED_TRACE(to_string(transfer.from) + "  to  " + to_string(transfer.to) + "  on  " +
                 ::testing::PrintToString(places.producers) +
                 ::testing::PrintToString(places.consumers));
    CostTable table{.at = places,
                    .places = 3,
                    .latency = std::vector<double>(9),
                    .per_byte = std::vector<double>(9, 1)};
    for (std::size_t host = 0; host < 3; ++host) table.per_byte[4 * host] = 0;
    const auto found = relabel({&transfer, 1}, places);
    EXPECT_EQ(found.before, bytes_between_hosts(transfer, places));
    EXPECT_EQ(found.after, bytes_between_hosts(
                               {transfer.from, relabeled(transfer.to, found.process), 4}, places));
    EXPECT_LE(found.after, found.before);
    const auto by_table = relabel({&transfer, 1}, table);
    EXPECT_EQ(by_table.before, static_cast<double>(found.before));
    EXPECT_EQ(by_table.after,
              static_cast<double>(bytes_between_hosts(
                  {transfer.from, relabeled(transfer.to, by_table.process), 4}, places)));
    saved += found.after < found.before ? 1 : 0;
    if (HasFailure()) return;
  }
  EXPECT_GT(saved, 10);
}

TEST(Relabel, CountsIn61Bits) {
  constexpr Index huge = (Index{1} << 60) - 10;
  const Transfer transfer = transfer_of({{0, huge, 3}, {huge - 9, 0, 0}, {2, 0, 0}});
  const auto found = relabel({&transfer, 1}, one_job(3));
  EXPECT_EQ(found.process, (std::vector<Rank>{{1}, {0}, {2}}));
  EXPECT_EQ(found.before, 2 * huge - 4);
  EXPECT_EQ(found.after, 5);
  // With 32 bits, only the differences would be right.
  const Transfer close = transfer_of({{huge, huge - 1}, {3, 0}});
  EXPECT_EQ(relabel({&close, 1}, one_job(2)).after, huge);
}

/// Returns a transfer of 10^5 x 10^5 elements on a 10 x 10 grid, from ranks in row order to ranks in
/// column order: COSTA, Fig. 3.
Transfer figure_3(Index block) {
  const std::string text = "shape=100000x100000 grid=10x10 block=";
  return {Layout::parse(text + std::to_string(block) + "x" + std::to_string(block)),
          Layout::parse(text + "10000x10000 ranks=column"), 8};
}

TEST(Relabel, FindsAPermutationOfProcesses) {
  const Transfer transfer = figure_3(10'000);
  for (const Method method : {Method::exact, Method::greedy}) {
    const auto found = relabel({&transfer, 1}, one_job(100), method);
    EXPECT_EQ(found.before, Index{80'000'000'000} / 100 * 90);  // the diagonal does not move
    EXPECT_EQ(found.after, 0);
    for (const Rank r : all_ranks(100))
      EXPECT_EQ(found.process[at(r)].value, r.value % 10 * 10 + r.value / 10);
    Layout rows = relabeled(transfer.to, found.process);
    for (const Rank r : all_ranks(100)) EXPECT_EQ(coords_of(rows, r), coords_of(transfer.from, r));
  }
}

TEST(Relabel, IsNeverWorseThanGreedyOrNothing) {
  for (const Index block : {1, 7, 30, 999, 1000, 3333, 5000, 9999}) {
    const Transfer transfer = figure_3(block);
    const auto exact = relabel({&transfer, 1}, one_job(100)),
               greedy = relabel({&transfer, 1}, one_job(100), Method::greedy);
    EXPECT_LE(exact.after, greedy.after) << block;
    EXPECT_LE(greedy.after, greedy.before) << block;
  }
}

TEST(Relabel, KeepsLabelsIfNothingIsSaved) {
  const Transfer same{Layout::parse("shape=12x12 grid=2x2 block=1x1"),
                      Layout::parse("shape=12x12 grid=2x2"), 8};
  EXPECT_EQ(relabel({&same, 1}, one_job(4)).process, unchanged(4));
  EXPECT_EQ(relabel({&same, 1}, Places{{0, 0, 0, 0}, {1, 1, 2, 2}}).process, unchanged(4));
  EXPECT_TRUE(relabel({}, one_job(0)).process.empty());
  EXPECT_EQ(relabel({}, one_job(3)).process, unchanged(3));
}

TEST(Relabel, LetsProcessesKeepTheirLabelWithinAHost) {
  // Labels 0 and 2 belong to host 1, where processes 1 and 2 run.
  const Transfer transfer = transfer_of({{5, 0, 5}, {0, 5, 0}});
  const auto found = relabel({&transfer, 1}, Places{{1, 0}, {0, 1, 1}});
  EXPECT_EQ(found.process, (std::vector<Rank>{{1}, {0}, {2}}));
  EXPECT_EQ(found.after, 0);
}

TEST(Relabel, GivesIdleRanksALabel) {
  const Transfer transfer{Layout::parse("shape=8 grid=2 members=4-5"),
                          Layout::parse("shape=8 grid=2 members=1/3"), 1};
  const auto found = relabel({&transfer, 1}, one_job(6));
  EXPECT_EQ(found.after, 0);
  EXPECT_EQ(to_string(relabeled(transfer.to, found.process)), "shape=8 grid=2 members=4-5");
}

TEST(Relabel, MakesALayoutOfTheSameKind) {
  const Layout layout = Layout::parse("shape=6x6 grid=2x2 block=1x2 ranks=column ghost=1x1");
  const std::vector<Rank> process{{0}, {1}, {4}, {2}, {3}};
  const Layout found = relabeled(layout, process);
  EXPECT_EQ(to_string(found),
            "shape=6x6 grid=2x2 block=1x2 ranks=column ghost=1x1 members=0-1/4/2");
  EXPECT_EQ(Layout::parse(to_string(found)), found);
  EXPECT_NE(fingerprint(found), fingerprint(layout));
  EXPECT_EQ(relabeled(layout, unchanged(4)), layout);
  const Layout members = Layout::parse("shape=4 grid=4 members=0-1/2-3");
  EXPECT_EQ(relabeled(members, unchanged(4)), members);
  const Layout back = relabeled(found, std::vector<Rank>{{0}, {1}, {3}, {4}, {2}});
  EXPECT_EQ(to_string(back), "shape=6x6 grid=2x2 block=1x2 ranks=column ghost=1x1 members=0-3");
  EXPECT_NO_THROW(validate_for_group(back, 5));  // rank 4 of the group is idle
  EXPECT_EQ(to_string(relabeled(Layout::parse("shape=4 grid=4 members=3/0-2"),
                                std::vector<Rank>{{1}, {2}, {3}, {0}})),
            "shape=4 grid=4");
}

template <class Action>
std::string complaint(Action&& action) {
  try {
    action();
  } catch (const core::Error& error) {
    return error.what();
  }
  return "none";
}

TEST(Relabel, NamesTheValuesThatItRefuses) {
  const std::vector<Transfer> one{
      {Layout::parse("shape=8 grid=4"), Layout::parse("shape=8 grid=2"), 1}};
  EXPECT_EQ(complaint([&] { relabel(one, one_job(3)); }),
            "expected a place for each producer that takes part, found 3 places and producer 3");
  EXPECT_EQ(complaint([&] {
              relabel(one, Places{{0, 1, 2, 3}, {0}});
            }),
            "expected a place for each consumer that takes part, found 1 places and consumer 1");
  EXPECT_EQ(complaint([&] {
              relabel(one, Places{{0, 1, 2, -3}, {0, 1}});
            }),
            "expected places of at least 0, found a negative one");
  const Layout large = Layout::parse("shape=1152921504606846976 grid=1");
  const std::string too_large =
      "expected arrays of at most 2^61 - 1 bytes in total, each as often as the consumer has "
      "copies of it, found more; relabel for fewer arrays";
  EXPECT_EQ(complaint([&] {
              relabel(std::vector<Transfer>{{large, large, 2}}, one_job(1));
            }),
            too_large);
  EXPECT_EQ(complaint([&] {
              relabel(std::vector(2, Transfer{large, large, 1}), one_job(1));
            }),
            too_large);
  EXPECT_EQ(complaint([&] {
              const Layout copies = Layout::parse("shape=1152921504606846976 mesh=2");
              relabel(std::vector<Transfer>{{large, copies, 1}}, one_job(2));
            }),
            too_large);
  EXPECT_NE(complaint([&] {
              relabel(std::vector<Transfer>{{large, large, 8}}, one_job(1));
            }),
            "none");
  EXPECT_EQ(complaint([&] {
              relabel(one, CostTable{one_job(4), 4, {}, {}});
            }),
            "expected 4 x 4 latencies and costs per byte, found 0 and 0");
  const std::vector<double> four(4, 1), no_numbers(16, std::log(-1.0));
  EXPECT_EQ(complaint([&] {
              relabel(one, CostTable{one_job(4), 2, four, four});
            }),
            "expected places from 0 to 1, those of the table");
  EXPECT_EQ(complaint([&] {
              relabel(one, CostTable{one_job(4), 4, no_numbers, std::vector<double>(16, 1)});
            }),
            "expected costs that are finite, found one that is not");
  EXPECT_EQ(complaint([&] { relabeled(one[0].from, unchanged(3)); }),
            "expected a process for rank 3 of \"shape=8 grid=4\", found processes for 3 labels");
}

}  // namespace
}  // namespace tremula::index_calc
