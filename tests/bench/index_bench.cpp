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

/// Median seconds of one call of each. They take turns, so that a disturbance meets all.
std::vector<double> seconds_of(const std::vector<std::function<void()>>& calls) {
  using Clock = std::chrono::steady_clock;
  const auto time = [](const std::function<void()>& call, int times) {
    const auto began = Clock::now();
    for (int i = 0; i < times; ++i) call();
    return std::chrono::duration<double>(Clock::now() - began).count() / times;
  };
  std::vector<int> times;
  for (const auto& call : calls) {
    const double once = std::min(time(call, 1), time(call, 1));
    times.push_back(std::clamp(static_cast<int>(50e-6 / once), 1, 10'000));
  }
  std::vector<std::vector<double>> turns(calls.size());
  for (int turn = 0; turn < 25; ++turn)
    for (std::size_t i = 0; i < calls.size(); ++i) turns[i].push_back(time(calls[i], times[i]));
  std::vector<double> medians;
  for (auto& of_one : turns) {
    std::ranges::nth_element(of_one, of_one.begin() + 12);
    medians.push_back(of_one[12]);
  }
  return medians;
}

/// One dimension of the experiment.
struct Dimension {
  BlockCyclic mine, theirs;
};
/// All that a rank has to calculate: coordinate 0 in each dimension.
using Case = std::vector<Dimension>;

/// Cut to the first period, as overlaps() does it.
Dimension in_period(Dimension d) {
  const Index a = d.mine.block * d.mine.grid, b = d.theirs.block * d.theirs.grid;
  if (std::max(a, b) < d.mine.extent)
    d.mine.extent = d.theirs.extent = std::min(d.mine.extent, std::lcm(a, b));
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
  std::string algorithm;
  double bare = 0, lists = 0, fresh = 0;  ///< seconds
  double limit = 0;                       ///< of writing as many pieces of which all is known
  std::size_t pieces = 0;
  Index steps = 0;
};

class Bench {
public:
  Bench(const std::string& csv, std::optional<Scalapack> scalapack)
      : csv_(csv), scalapack_(scalapack), pieces_(1 << 22), intervals_(1 << 20) {
    if (!csv_) throw std::runtime_error(fmt::format("{}: cannot be written", csv));
    csv_ << "experiment,from,to,x,algorithm,bare_ns,lists_ns,fresh_ns,pieces,steps\n";
  }

  bool has_scalapack() const { return scalapack_.has_value(); }

  Figures aspen(const Case& dimensions) {
    Figures f = in_lists(dimensions, Algorithm::aspen);
    const auto seconds =
        seconds_of({[&] { f.pieces = aspen_alone(dimensions); }, [&] { write_pieces(f.pieces); }});
    f.bare = seconds[0];
    f.limit = seconds[1];
    return f;
  }

  /// ASPEN, FALLS, classical and, if it is there, ScaLAPACK.
  std::vector<Figures> all(const Case& dimensions) {
    std::vector<Figures> figures{in_lists(dimensions, Algorithm::aspen),
                                 in_lists(dimensions, Algorithm::falls),
                                 in_lists(dimensions, Algorithm::classical)};
    std::vector<std::function<void()>> alone{
        [&] { figures[0].pieces = aspen_alone(dimensions); },
        [&] { figures[1].pieces = falls_alone(dimensions); },
        [&] { figures[2].pieces = classical_alone(dimensions); }};
    if (scalapack_) {
      check_scalapack(dimensions);
      figures.push_back({.algorithm = "ScaLAPACK"});
      alone.push_back([&] { figures[3].pieces = scalapack_alone(dimensions); });
    }
    const auto seconds = seconds_of(alone);
    for (std::size_t i = 0; i < figures.size(); ++i) figures[i].bare = seconds[i];
    return figures;
  }

  void write(const std::string& experiment, const std::string& from, const std::string& to,
             double x, const Figures& f) {
    csv_ << fmt::format("{},{},{},{},{},{:.1f},{:.1f},{:.1f},{},{}\n", experiment, from, to, x,
                        f.algorithm, f.bare * 1e9, f.lists * 1e9, f.fresh * 1e9, f.pieces, f.steps);
  }

private:
  Figures in_lists(const Case& dimensions, Algorithm algorithm) {
    Figures f{.algorithm = algorithm == Algorithm::aspen   ? "ASPEN"
                           : algorithm == Algorithm::falls ? "FALLS"
                                                           : "classical"};
    const auto seconds = seconds_of({[&] {
                                       f.steps = 0;
                                       for (const Dimension& d : dimensions)
                                         f.steps +=
                                             finder_.find(d.mine, {0}, d.theirs, algorithm).steps();
                                     },
                                     [&] {
                                       for (const Dimension& d : dimensions)
                                         overlaps(d.mine, {0}, d.theirs, algorithm);
                                     }});
    f.lists = seconds[0];
    f.fresh = seconds[1];
    return f;
  }
  std::size_t aspen_alone(const Case& dimensions) {
    Write write{pieces_.data()};
    for (const Dimension& whole : dimensions) {
      const Dimension d = in_period(whole);
      aspen::pass(d.mine, 0, d.theirs, write);
    }
    return static_cast<std::size_t>(write.next - pieces_.data());
  }
  void write_pieces(std::size_t count) {
    Write write{pieces_.data()};
    for (std::size_t i = 0; i < count; ++i) {
      const auto at = static_cast<Index>(i);
      write.put(at, at, at, 1, 1);
    }
  }
  std::size_t falls_alone(const Case& dimensions) {
    pieces_.clear();  // keeps its memory
    for (const Dimension& whole : dimensions) {
      const Dimension d = in_period(whole);
      falls(d.mine, 0, d.theirs, pieces_);
    }
    return pieces_.size();
  }
  std::size_t classical_alone(const Case& dimensions) {
    pieces_.clear();
    for (const Dimension& d : dimensions) classical(d.mine, 0, d.theirs, pieces_);
    return pieces_.size();
  }
  /// Its intervals know my indices alone.
  std::size_t scalapack_alone(const Case& dimensions) {
    Interval* next = intervals_.data();
    for (const Dimension& d : dimensions)
      for (Index peer = 0; peer < d.theirs.grid; ++peer)
        next += scalapack_->scan(d.mine, 0, d.theirs, peer, next);
    return static_cast<std::size_t>(next - intervals_.data());
  }
  void check_scalapack(const Case& dimensions) {
    for (const Dimension& d : dimensions)
      for (Index peer = 0; peer < d.theirs.grid; ++peer) {
        const int count = scalapack_->scan(d.mine, 0, d.theirs, peer, intervals_.data());
        const Interval* interval = intervals_.data();
        const Overlaps ours = overlap_with(d.mine, {0}, d.theirs, {peer});
        bool is_equal = true;
        if (ours.size() > 0)
          ours[0].for_each([&](const Segment& s) {
            is_equal = is_equal && interval < intervals_.data() + count &&
                       interval->begin == s.begin.value && interval->length == s.length;
            ++interval;
          });
        if (!is_equal || interval != intervals_.data() + count)
          throw std::runtime_error(
              "expected the same intervals of ScaLAPACK and ASPEN, found others");
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
/// @return the least ratio of another algorithm to ASPEN, of all lines
double paper(Bench& bench) {
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
  double least = 1e9;
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
          const auto figures = bench.all(dimensions);
          const Figures& aspen = figures[0];
          std::string row = fmt::format("{:>10} {:>10} {:>7} {:>7} {:8.3f}", from.text(), to.text(),
                                        mine.text(), theirs.text(), aspen.bare * 1e6);
          for (const Figures& f : figures) {
            bench.write(fmt::format("paper_{}", name), from.text(), to.text(),
                        static_cast<double>(mine.rows * mine.columns), f);
            if (f.algorithm == aspen.algorithm) continue;
            least = std::min(least, f.bare / aspen.bare);
            row += fmt::format(" {:8.3f} ({:5.1f})", f.bare * 1e6, f.bare / aspen.bare);
          }
          if (!bench.has_scalapack()) row += fmt::format(" {:>16}", "not installed");
          fmt::print("{} {:9.3f} {:9.3f}\n", row, aspen.lists * 1e6, aspen.fresh * 1e6);
        }
  }
  return least;
}

constexpr Index block = 30'011, their_block = 40'009;  // primes: no period within the extent

/// `blocks` blocks of mine on 16 coordinates.
Case long_list(Index blocks, Index remote) {
  const Index extent = block * 16 * blocks;
  return {{{extent, block, 16, 0}, {extent, their_block, remote, 0}}};
}

std::string row_of(const Figures& f) {
  const auto pieces = static_cast<double>(f.pieces);
  return fmt::format("{:>9} {:>9} {:9.2f} {:9.2f} {:9.2f} {:9.2f}", f.steps, f.pieces,
                     f.limit / pieces * 1e9, f.bare / pieces * 1e9, f.lists / pieces * 1e9,
                     f.fresh / pieces * 1e9);
}

constexpr const char* long_list_head =
    "blocks of 30011 on 16 coordinates against blocks of 40009; ns a piece\n";

/// The same blocks and pieces, more and more ranks on the other side.
void remote_ranks(Bench& bench) {
  fmt::print(
      "\nGrowth with the ranks of the other side: {}{:>10} {:>9} {:>9} {:>9} {:>9} {:>9} "
      "{:>9}\n",
      long_list_head, "remote", "blocks", "pieces", "bare", "lists", "fresh", "bare, x");
  double first = 0;
  for (const Index remote : {2, 4, 8, 16, 100, 1000, 10'000, 100'000, 1'000'000}) {
    const Figures f = bench.aspen(long_list(20'000, remote));
    bench.write("remote_ranks", "30011", "40009", static_cast<double>(remote), f);
    if (first == 0) first = f.bare;
    fmt::print("{:>10} {} {:9.3f}\n", remote, row_of(f), f.bare / first);
  }
}

/// Longer and longer lists: where they leave the caches.
void list_lengths(Bench& bench) {
  fmt::print("\nGrowth with the list: {}{:>10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}\n",
             long_list_head, "remote", "blocks", "pieces", "limit", "bare", "lists", "fresh");
  for (const Index blocks : {100, 1000, 10'000, 100'000, 600'000}) {
    const Figures f = bench.aspen(long_list(blocks, 60));
    bench.write("list_lengths", "30011", "40009", static_cast<double>(blocks), f);
    fmt::print("{:>10} {}\n", 60, row_of(f));
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
    Figures f{.algorithm = "ASPEN"};
    f.fresh = seconds_of({[&] { f.pieces = make_plan(mine, theirs, 0).memory_bytes(); }})[0];
    bench.write("extents", "64x48", "100x36", static_cast<double>(n), f);
    fmt::print("{:>15} {:12.2f} {:>12} {:>12}\n", n, f.fresh * 1e6, f.pieces,
               make_plan(mine, theirs, 0).size());
  }
  const Layout mine = Layout::parse("shape=1000000000000x1000000 grid=1000x1000 block=64x48");
  const Layout theirs = Layout::parse("shape=1000000000000x1000000 grid=999x1001 block=100x36");
  Figures f{.algorithm = "ASPEN"};
  f.fresh = seconds_of({[&] { f.pieces = make_plan(mine, theirs, 0).memory_bytes(); }})[0];
  bench.write("extents", "64x48", "100x36", 1e12, f);
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
    const double least = paper(bench);
    remote_ranks(bench);
    list_lengths(bench);
    extents(bench);
    fmt::print(
        "\nThe paper's experiment: on every line the fastest other algorithm took at least "
        "{:.2f} times as long as ASPEN.\n",
        least);
  } catch (const std::exception& error) {
    fmt::print(stderr, "tremula_index_bench: {}\n", error.what());
    return 1;
  }
}
