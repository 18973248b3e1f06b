// SPDX-License-Identifier: Apache-2.0
// The index calculation of one rank: the experiment of the ASPEN paper (Figs. 3 and 4) with all
// algorithms in one run, and how the cost grows with the ranks of the other side and with the
// extent. Prints tables; writes every figure as CSV.
//
//     tremula_index_bench FILE.csv
//
// Three figures for each algorithm: `bare`, the algorithm alone into memory that is there before
// the clock starts, as in the paper; `lists`, the same with one list for each peer, which plans are
// made of, in memory that is used again; `fresh`, such lists in memory that is allocated. Times are
// medians.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "index_calc/aspen.hpp"
#include "index_calc/overlap_builder.hpp"
#include "index_calc/plan.hpp"
#include "scalapack.hpp"

namespace tremula::bench {

namespace {

using namespace index_calc;

/// Median seconds of one call.
double seconds_of(const std::function<void()>& call) {
  using Clock = std::chrono::steady_clock;
  const auto time = [&](int calls) {
    const auto began = Clock::now();
    for (int i = 0; i < calls; ++i) call();
    return std::chrono::duration<double>(Clock::now() - began).count() / calls;
  };
  const double once = std::min(time(1), time(1));
  const int calls = std::clamp(static_cast<int>(100e-6 / once), 1, 10'000);
  std::vector<double> turns(once > 1e-3 ? 5 : 15);
  for (double& seconds : turns) seconds = time(calls);
  std::ranges::nth_element(turns, turns.begin() + static_cast<std::ptrdiff_t>(turns.size() / 2));
  return turns[turns.size() / 2];
}

/// One dimension of the experiment.
struct Dimension {
  BlockCyclic mine, theirs;
};
/// All that a rank has to calculate: coordinate 0 in each dimension.
using Case = std::vector<Dimension>;

/// Cut to the first period.
Dimension in_period(Dimension d) {
  const Index period = std::lcm(d.mine.block * d.mine.grid, d.theirs.block * d.theirs.grid);
  d.mine.extent = d.theirs.extent = std::min(d.mine.extent, period);
  return d;
}

struct Write {
  Piece* next;
  void put(Index peer, Index begin, Index peer_begin, Index length, Index count) {
    *next++ = {peer, {{{begin}, {peer_begin}, length}, count}};
  }
  void put_if(bool is_there, Index peer, Index begin, Index peer_begin, Index length, Index count) {
    *next = {peer, {{{begin}, {peer_begin}, length}, count}};
    next += is_there ? 1 : 0;
  }
};

struct Figures {
  double bare = 0, lists = 0, fresh = 0;  ///< seconds
  std::size_t pieces = 0;
  Index steps = 0;
};

class Bench {
public:
  Bench(const std::string& csv, std::optional<Scalapack> scalapack)
      : csv_(csv), scalapack_(scalapack), pieces_(1 << 22), intervals_(1 << 22) {
    if (!csv_) throw std::runtime_error(fmt::format("{}: cannot be written", csv));
    csv_ << "experiment,from,to,x,algorithm,bare_ns,lists_ns,fresh_ns,pieces,steps\n";
  }

  bool has_scalapack() const { return scalapack_.has_value(); }

  Figures aspen(const Case& dimensions) {
    Figures f = lists(dimensions, Algorithm::aspen);
    Case periods;
    for (const Dimension& d : dimensions) periods.push_back(in_period(d));
    f.bare = seconds_of([&] {
      Write write{pieces_.data()};
      for (const Dimension& d : periods) aspen::pass(d.mine, 0, d.theirs, write);
      f.pieces = static_cast<std::size_t>(write.next - pieces_.data());
    });
    return f;
  }
  Figures falls(const Case& dimensions) {
    Figures f = lists(dimensions, Algorithm::falls);
    Case periods;
    for (const Dimension& d : dimensions) periods.push_back(in_period(d));
    f.bare = bare(periods, index_calc::falls, f.pieces);
    return f;
  }
  Figures classical(const Case& dimensions) {
    Figures f = lists(dimensions, Algorithm::classical);
    f.bare = bare(dimensions, index_calc::classical, f.pieces);
    return f;
  }
  /// Its intervals know my indices alone; they are checked against ours once.
  Figures scalapack(const Case& dimensions) {
    Figures f;
    f.bare = seconds_of([&] {
      Interval* next = intervals_.data();
      for (const Dimension& d : dimensions)
        for (Index peer = 0; peer < d.theirs.grid; ++peer)
          next += scalapack_->scan(d.mine, 0, d.theirs, peer, next);
      f.pieces = static_cast<std::size_t>(next - intervals_.data());
    });
    check_scalapack(dimensions);
    return f;
  }

  void write(const std::string& experiment, const std::string& from, const std::string& to,
             double x, const std::string& algorithm, const Figures& f) {
    csv_ << fmt::format("{},{},{},{},{},{:.1f},{:.1f},{:.1f},{},{}\n", experiment, from, to, x,
                        algorithm, f.bare * 1e9, f.lists * 1e9, f.fresh * 1e9, f.pieces, f.steps);
  }

private:
  Figures lists(const Case& dimensions, Algorithm algorithm) {
    Figures f;
    f.fresh = seconds_of([&] {
      for (const Dimension& d : dimensions) overlaps(d.mine, {0}, d.theirs, algorithm);
    });
    f.lists = seconds_of([&] {
      f.steps = 0;
      for (const Dimension& d : dimensions)
        f.steps += finder_.find(d.mine, {0}, d.theirs, algorithm).steps();
    });
    return f;
  }
  template <class Algorithm>
  double bare(const Case& dimensions, Algorithm&& algorithm, std::size_t& found) {
    return seconds_of([&] {
      pieces_.clear();  // keeps its memory
      for (const Dimension& d : dimensions) algorithm(d.mine, 0, d.theirs, pieces_, Scan::onward);
      found = pieces_.size();
    });
  }
  void check_scalapack(const Case& dimensions) {
    for (const Dimension& d : dimensions)
      for (Index peer = 0; peer < d.theirs.grid; ++peer) {
        const int count = scalapack_->scan(d.mine, 0, d.theirs, peer, intervals_.data());
        Index elements = 0;
        for (int i = 0; i < count; ++i) elements += intervals_[static_cast<std::size_t>(i)].length;
        const Overlaps ours = overlap_with(d.mine, {0}, d.theirs, {peer});
        if (elements != (ours.size() == 0 ? 0 : ours.elements(0)))
          throw std::runtime_error("ScaLAPACK and ASPEN differ");
      }
  }

  std::ofstream csv_;
  std::optional<Scalapack> scalapack_;
  std::vector<Piece> pieces_;
  std::vector<Interval> intervals_;
  OverlapFinder finder_;
};

struct Tile {
  Index rows, columns;
  std::string text() const { return fmt::format("{}x{}", rows, columns); }
};

/// 10,000 x 10,000 elements, all pairs of block sizes, square and other grids.
/// @return false if ASPEN was slower than another anywhere
bool paper(Bench& bench) {
  const std::vector<Tile> blocks{{1024, 1024}, {256, 256}, {30, 50}, {654, 321}};
  struct Grids {
    Tile mine, theirs;
  };
  const std::vector<Grids> square{{{2, 2}, {3, 3}},     {{4, 4}, {5, 5}},     {{8, 8}, {7, 7}},
                                  {{16, 16}, {15, 15}}, {{24, 24}, {25, 25}}, {{32, 32}, {31, 31}}};
  const std::vector<Grids> other{{{2, 4}, {3, 5}},
                                 {{4, 8}, {5, 6}},
                                 {{8, 16}, {7, 12}},
                                 {{16, 32}, {15, 24}},
                                 {{32, 16}, {31, 24}}};
  bool is_fastest = true;
  for (const auto& [name, grids] : {std::pair("square", square), std::pair("other", other)}) {
    fmt::print(
        "\n10,000 x 10,000 elements, {} grids, one rank; microseconds bare, in brackets "
        "times ASPEN\n",
        name);
    fmt::print("{:>10} {:>10} {:>7} {:>7} {:>8} {:>16} {:>16} {:>16} {:>9} {:>9}\n", "block",
               "to block", "grid", "to grid", "ASPEN", "FALLS", "classical", "ScaLAPACK", "lists",
               "fresh");
    for (const Tile& from : blocks)
      for (const Tile& to : blocks)
        for (const auto& [mine, theirs] : grids) {
          const Case dimensions{
              {{10'000, from.rows, mine.rows, 0}, {10'000, to.rows, theirs.rows, 0}},
              {{10'000, from.columns, mine.columns, 0}, {10'000, to.columns, theirs.columns, 0}}};
          const auto record = [&, &name = name](const std::string& algorithm, const Figures& f) {
            bench.write(fmt::format("paper_{}", name), from.text(), to.text(),
                        static_cast<double>(mine.rows * mine.columns), algorithm, f);
            return f;
          };
          const Figures aspen = record("ASPEN", bench.aspen(dimensions));
          std::string row = fmt::format("{:>10} {:>10} {:>7} {:>7} {:8.3f}", from.text(), to.text(),
                                        mine.text(), theirs.text(), aspen.bare * 1e6);
          const auto beside = [&](const Figures& f) {
            is_fastest = is_fastest && aspen.bare <= f.bare;
            row += fmt::format(" {:8.3f} ({:5.1f})", f.bare * 1e6, f.bare / aspen.bare);
          };
          beside(record("FALLS", bench.falls(dimensions)));
          beside(record("classical", bench.classical(dimensions)));
          if (bench.has_scalapack())
            beside(record("ScaLAPACK", bench.scalapack(dimensions)));
          else
            row += fmt::format(" {:>16}", "not installed");
          fmt::print("{} {:9.3f} {:9.3f}\n", row, aspen.lists * 1e6, aspen.fresh * 1e6);
        }
  }
  return is_fastest;
}

/// The same blocks and pieces, more and more ranks on the other side. Bare, no other algorithm
/// could be shown: they grow with the ranks.
void remote_ranks(Bench& bench) {
  fmt::print(
      "\nGrowth with the ranks of the other side: 40,000 blocks of 30011 on 16 coordinates "
      "against blocks of 40009\n{:>10} {:>9} {:>9} {:>13} {:>9} {:>13} {:>10}\n",
      "remote", "blocks", "pieces", "ns a piece", "ratio", "lists, ns/p.", "peers");
  double first = 0;
  for (const Index remote : {2, 4, 8, 16, 100, 1000, 10'000, 100'000, 1'000'000}) {
    const Index extent = Index{30011} * 16 * 40'000;
    const Case one{{{extent, 30011, 16, 0}, {extent, 40009, remote, 0}}};
    const Figures f = bench.aspen(one);
    bench.write("remote_ranks", "30011", "40009", static_cast<double>(remote), "ASPEN", f);
    const auto pieces = static_cast<double>(f.pieces);
    if (first == 0) first = f.bare;
    fmt::print("{:>10} {:>9} {:>9} {:9.2f} {:9.3f} {:9.2f} {:9.2f} {:>10}\n", remote, f.steps,
               f.pieces, f.bare / pieces * 1e9, f.bare / first, f.lists / pieces * 1e9,
               f.fresh / pieces * 1e9, overlaps(one[0].mine, {0}, one[0].theirs).size());
  }
}

/// One rank's plan of two dimensions, longer and longer.
void extents(Bench& bench) {
  fmt::print(
      "\nGrowth with the extent: N x N elements, blocks 64x48 on 10x10 against 100x36 on "
      "9x11, one rank's whole plan\n{:>15} {:>12} {:>12} {:>12}\n",
      "N", "microseconds", "bytes", "peers");
  for (Index n = 10'000; n <= 3'000'000'000; n *= 10) {
    const std::string shape = fmt::format("shape={}x{}", n, n);
    const Layout mine = Layout::parse(shape + " grid=10x10 block=64x48");
    const Layout theirs = Layout::parse(shape + " grid=9x11 block=100x36");
    Figures f;
    f.fresh = seconds_of([&] { f.pieces = make_plan(mine, theirs, 0).memory_bytes(); });
    bench.write("extents", "64x48", "100x36", static_cast<double>(n), "ASPEN", f);
    fmt::print("{:>15} {:12.2f} {:>12} {:>12}\n", n, f.fresh * 1e6, f.pieces,
               make_plan(mine, theirs, 0).size());
  }
  const Layout mine = Layout::parse("shape=1000000000000x1000000 grid=1000x1000 block=64x48");
  const Layout theirs = Layout::parse("shape=1000000000000x1000000 grid=999x1001 block=100x36");
  Figures f;
  f.fresh = seconds_of([&] { f.pieces = make_plan(mine, theirs, 0).memory_bytes(); });
  bench.write("extents", "64x48", "100x36", 1e12, "ASPEN", f);
  fmt::print("10^12 x 10^6 on 1000x1000 against 999x1001: {:.2f} microseconds, {} bytes\n",
             f.fresh * 1e6, f.pieces);
}

}  // namespace

}  // namespace tremula::bench

int main(int argc, char** argv) {
  using namespace tremula::bench;
  if (argc != 2) {
    fmt::print(stderr, "usage: tremula_index_bench FILE.csv\n");
    return 2;
  }
  try {
    Bench bench(argv[1], Scalapack::load());
    const bool is_fastest = paper(bench);
    remote_ranks(bench);
    extents(bench);
    fmt::print("\nASPEN was {} on every line of the paper's experiment.\n",
               is_fastest ? "the fastest" : "NOT the fastest");
  } catch (const std::exception& error) {
    fmt::print(stderr, "tremula_index_bench: {}\n", error.what());
    return 1;
  }
}
