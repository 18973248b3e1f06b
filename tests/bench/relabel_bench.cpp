// SPDX-License-Identifier: Apache-2.0
// Measures the savings and the cost of relabeling for Fig. 3 of the COSTA paper (10^5 x 10^5
// elements, a 10 x 10 grid from row-major to column-major, target blocks of 10^4, source blocks from
// 1 to 10^4) and for large groups. Prints tables; writes the figure as CSV.
//
//     tremula_relabel_bench FILE.csv
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <functional>
#include <numeric>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "index_calc/plan/volumes.hpp"
#include "index_calc/relabel/assignment.hpp"
#include "index_calc/relabel/relabel.hpp"

namespace tremula::bench {

namespace {

using namespace index_calc;

double percent(Index part, Index whole) {
  return whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

/// Returns 1, 2, 5, 10, ... 10^4, and all multiples of `step`.
std::set<Index> source_blocks(Index step) {
  std::set<Index> blocks;
  for (const Index digit : {1, 2, 5})
    for (Index power = 1; digit * power <= 10'000; power *= 10) blocks.insert(digit * power);
  for (Index block = step; block <= 10'000; block += step) blocks.insert(block);
  return blocks;
}

void figure_3(const std::string& file) {
  std::ofstream csv(file);
  if (!csv) throw std::runtime_error(fmt::format("{}: cannot be written", file));
  csv << "block,bytes,before_bytes,greedy_bytes,optimal_bytes,greedy_percent,optimal_percent\n";
  fmt::print(
      "10^5 x 10^5 elements of 8 bytes, 10 x 10 grid, row-major to column-major, blocks to 10^4 x "
      "10^4 (COSTA, Fig. 3):\nGB between processes, and how much less than without relabeling\n"
      "{:>8} {:>10} {:>10} {:>10} {:>10} {:>10}\n",
      "block", "before", "greedy", "optimal", "greedy %", "optimal %");
  const std::set<Index> in_table = source_blocks(1000);
  const Places places = one_job(100);
  for (const Index block : source_blocks(50)) {
    const std::string shape = "shape=100000x100000 grid=10x10 block=";
    const Transfer array{Layout::parse(fmt::format("{}{}x{}", shape, block, block)),
                         Layout::parse(shape + "10000x10000 ranks=column"), 8};
    const auto optimal = relabel({&array, 1}, places),
               greedy = relabel({&array, 1}, places, Method::greedy);
    const double less_greedy = percent(greedy.before - greedy.after, greedy.before),
                 less_optimal = percent(optimal.before - optimal.after, optimal.before);
    csv << fmt::format("{},{},{},{},{},{:.4f},{:.4f}\n", block, bytes_of(array.from, 8),
                       optimal.before, greedy.after, optimal.after, less_greedy, less_optimal);
    if (in_table.contains(block))
      fmt::print("{:>8} {:>10.3f} {:>10.3f} {:>10.3f} {:>10.2f} {:>10.2f}\n", block,
                 static_cast<double>(optimal.before) * 1e-9,
                 static_cast<double>(greedy.after) * 1e-9,
                 static_cast<double>(optimal.after) * 1e-9, less_greedy, less_optimal);
  }
}

/// Returns the median seconds of three calls.
double seconds_of(const std::function<void()>& call) {
  std::vector<double> seconds;
  for (int i = 0; i < 3; ++i) {
    const auto began = std::chrono::steady_clock::now();
    call();
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
  }
  std::ranges::sort(seconds);
  return seconds[1];
}

void row(const std::string& name, double exact, double greedy, double less_exact,
         double less_greedy) {
  fmt::print("{:<58} {:>9.4f} {:>9.4f} {:>10.2f} {:>10.2f}\n", name, exact, greedy, less_exact,
             less_greedy);
}

/// Runs both methods on one matrix of gains; savings are relative to the sum of all gains.
void assignments(const std::string& name, const std::vector<RankCount>& seats,
                 const std::function<Index(Index, Index)>& gain) {
  Gains gains;
  gains.seats = seats;
  const auto rows = std::accumulate(seats.begin(), seats.end(), Index{0}),
             width = static_cast<Index>(seats.size());
  for (Index i = 0; i < rows; ++i) {
    for (Index k = 0; k < width; ++k) {
      gains.column.push_back(static_cast<RankCount>(k));
      gains.gain.push_back(gain(i, k));
    }
    gains.begin.push_back(gains.gain.size());
  }
  std::vector<RankCount> exact, greedy;
  const double exact_seconds = seconds_of([&] { exact = best_assignment(gains); }),
               greedy_seconds = seconds_of([&] { greedy = greedy_assignment(gains); });
  const auto sum = [&](const std::vector<RankCount>& columns) {
    double total = 0;
    for (std::size_t i = 0; i < columns.size(); ++i)
      total +=
          static_cast<double>(gains.gain[gains.begin[i] + static_cast<std::size_t>(columns[i])]);
    return total;
  };
  fmt::print("{:<58} {:>9.4f} {:>9.4f} {:>21}\n", name, exact_seconds, greedy_seconds,
             fmt::format("greedy gains {:.2f} %", 100 * sum(greedy) / sum(exact)));
}

/// Runs both methods on one pair of layouts; times include the volume matrix.
template <class Costs>
void relabelings(const std::string& name, const std::string& from, const std::string& to,
                 const Costs& costs) {
  const Transfer array{Layout::parse(from), Layout::parse(to), 8};
  Relabeling<decltype(relabel({&array, 1}, costs).after)> exact, greedy;
  const double exact_seconds = seconds_of([&] {
    exact = relabel({&array, 1}, costs);
  }),
               greedy_seconds = seconds_of([&] {
                 greedy = relabel({&array, 1}, costs, Method::greedy);
               });
  const auto less = [](const auto& found) {
    return 100 * (1 - static_cast<double>(found.after) / static_cast<double>(found.before));
  };
  row(name, exact_seconds, greedy_seconds, less(exact), less(greedy));
}

/// Returns the host of each rank: `per_host` consecutive ranks on each host.
std::vector<RankCount> on_hosts(RankCount ranks, RankCount per_host) {
  std::vector<RankCount> hosts;
  for (RankCount r = 0; r < ranks; ++r) hosts.push_back(r / per_host);
  return hosts;
}

void large_groups() {
  fmt::print("\nSeconds (medians of 3), and cost saved in %\n{:<58} {:>9} {:>9} {:>10} {:>10}\n",
             "", "exact", "greedy", "exact %", "greedy %");
  constexpr Index giant = Index{1} << 60;
  const std::vector<RankCount> one(4096, 1), two(2048, 2);
  std::vector<RankCount> some(4000, 1);
  std::fill_n(some.begin(), 96, 2);
  std::mt19937_64 random(1);
  const auto large = [&](Index, Index) { return static_cast<Index>(1 + (random() >> 24)); };
  const auto small = [&](Index, Index) { return static_cast<Index>(1 + random() % 999); };
  const auto product = [](Index i, Index k) { return (i + 1) * (k + 1); };
  const auto giants_too = [](const auto& gain) {
    return [gain](Index i, Index k) { return i == 5 && k == 7 ? giant : gain(i, k); };
  };
  assignments("4096 x 4096, random gains below 2^40", one, large);
  assignments("4096 x 4096, random gains below 1000", one, small);
  assignments("4096 x 4096, below 2^40 and below 1000 in turn", one,
              [&](Index i, Index k) { return i % 2 == 0 ? large(i, k) : small(i, k); });
  assignments("4096 x 4096, i * k: all want the same", one, product);
  assignments("4096 x 4096, below 2^40, and one gain of 2^60", one, giants_too(large));
  assignments("4096 x 4096, i * k, and one gain of 2^60", one, giants_too(product));
  assignments("4096 x 4000, i * k, two seats in 96 columns", some, product);
  assignments("4096 x 2048, i * k, two seats in all columns", two, product);
  const std::string square = "shape=100000x100000 ", vast = "shape=1000000x1000000 ";
  relabelings("one job of 4096, 64x64 to 64x64, all pairs overlap",
              square + "grid=64x64 block=97x89", square + "grid=64x64 block=101x83 ranks=column",
              one_job(4096));
  relabelings("one job of 4096, rows to columns, all pairs overlap", square + "grid=4096x1",
              square + "grid=1x4096", one_job(4096));
  relabelings("one job of 4096, 64x64 to 128x32, blocks, few overlap", vast + "grid=64x64",
              vast + "grid=128x32 ranks=column", one_job(4096));
  relabelings("one job of 65536, 256x256 to 128x512, blocks, few overlap", vast + "grid=256x256",
              vast + "grid=128x512 ranks=column", one_job(65536));
  relabelings("1024 to 1024 on 64 hosts, 32x32 to 32x32, all pairs overlap",
              square + "grid=32x32 block=97x89", square + "grid=32x32 block=101x83 ranks=column",
              Places{on_hosts(1024, 16), on_hosts(1024, 16)});
  relabelings("1536 to 1024 on 64 hosts, 48x32 to 64x16, blocks", square + "grid=48x32",
              square + "grid=64x16 ranks=column", Places{on_hosts(1536, 24), on_hosts(1024, 16)});
  CostTable table{{on_hosts(1536, 24), on_hosts(1024, 16)}, 64, {}, {}};
  for (int a = 0; a < 64; ++a)
    for (int b = 0; b < 64; ++b) {  // in switches of eight hosts
      const double far = a == b ? 0 : a / 8 == b / 8 ? 1 : 3;
      table.latency.push_back(far * 1e-6);
      table.per_byte.push_back(far * 1e-10);
    }
  relabelings("the same, by a table of switches and hosts", square + "grid=48x32",
              square + "grid=64x16 ranks=column", table);
}

}  // namespace

}  // namespace tremula::bench

int main(int argc, char** argv) {
  using namespace tremula::bench;
  if (argc != 2) {
    fmt::print(stderr, "usage: tremula_relabel_bench FILE.csv\n");
    return 2;
  }
  try {
    figure_3(argv[1]);
    large_groups();
  } catch (const std::exception& error) {
    fmt::print(stderr, "tremula_relabel_bench: {}\n", error.what());
    return 1;
  }
}
