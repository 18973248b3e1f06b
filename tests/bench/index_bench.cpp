// SPDX-License-Identifier: Apache-2.0
// Measures the index calculation of one rank: repeats the experiment of the ASPEN paper (Figs. 3
// and 4) with all algorithms in one run, and shows how the cost grows with the number of ranks on
// the other side and with the extent. Prints tables; writes every figure as CSV.
//
//     tremula_index_bench FILE.csv
//
// Figures of each algorithm, all medians:
//
//     bare     the algorithm alone, into memory allocated before the clock starts, as in the
//              paper. ASPEN writes pieces in mixed order, each with its peer; the other algorithms
//              write them peer by peer.
//     grouped  like bare, but ASPEN also groups by peer: it runs twice, to count and to write
//     lists    the lists that plans are made of (checks, tails, repetition), in reused memory
//     fresh    the same lists in newly allocated memory
//     limit    writing the same number of pieces with values known in advance
//
// ScaLAPACK's intervals hold the indices of one side; the pieces of the other algorithms hold those
// of both sides.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "index_calc/overlap/aspen_sinks.hpp"
#include "index_calc/overlap/overlap_builder.hpp"
#include "index_calc/plan/plan.hpp"
#include "scalapack.hpp"

namespace tremula::bench {

namespace {

using namespace index_calc;

/// Returns the median seconds per call, for each of `calls`. The calls take turns, so a disturbance
/// affects all of them.
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
/// The work of one rank: coordinate 0 in each dimension.
using Case = std::vector<Dimension>;

/// Cuts a dimension to its first period, as overlaps() does.
Dimension in_period(Dimension d) {
  const Index a = d.mine.block * d.mine.grid, b = d.theirs.block * d.theirs.grid;
  if (std::max(a, b) < d.mine.extent)
    d.mine.extent = d.theirs.extent = std::min(d.mine.extent, std::lcm(a, b));
  return d;
}

struct Figures {
  std::string algorithm;
  double bare = 0, grouped = 0, lists = 0, fresh = 0, limit = 0;  ///< seconds; 0 = not measured
  std::size_t pieces = 0;
  Index steps = 0;
  std::size_t bytes = 0;  ///< size of a plan
};

class Bench {
public:
  Bench(const std::string& csv, std::optional<Scalapack> scalapack)
      : csv_(csv), scalapack_(scalapack), pieces_(1 << 22), intervals_(1 << 20) {
    if (!csv_) throw std::runtime_error(fmt::format("{}: cannot be written", csv));
    csv_ << "experiment,from,to,x,algorithm,bare_ns,grouped_ns,lists_ns,fresh_ns,limit_ns,pieces,"
            "steps,bytes\n";
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

  /// Measures ASPEN, FALLS, classical and, if it is installed, ScaLAPACK.
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
    alone.push_back([&] { aspen_grouped(dimensions); });
    const auto seconds = seconds_of(alone);
    for (std::size_t i = 0; i < figures.size(); ++i)
      figures[i].bare = figures[i].grouped = seconds[i];
    figures[0].grouped = seconds.back();
    return figures;
  }

  void write(const std::string& experiment, const std::string& from, const std::string& to,
             double x, const Figures& f) {
    const auto ns = [](double seconds) {
      return seconds == 0 ? std::string() : fmt::format("{:.1f}", seconds * 1e9);
    };
    const auto count = [](auto n) { return n == 0 ? std::string() : fmt::format("{}", n); };
    csv_ << fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{}\n", experiment, from, to, x,
                        f.algorithm, ns(f.bare), ns(f.grouped), ns(f.lists), ns(f.fresh),
                        ns(f.limit), count(f.pieces), count(f.steps), count(f.bytes));
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
  void aspen_grouped(const Case& dimensions) {
    Family* families = families_.data();
    for (const Dimension& whole : dimensions) {
      const Dimension d = in_period(whole);
      const auto peers = static_cast<std::size_t>(d.theirs.grid);
      std::fill_n(places_.begin(), peers, 0U);
      CountByPeer count{places_.data()};
      aspen::pass(d.mine, 0, d.theirs, count);
      std::uint32_t before = 0;
      for (std::size_t peer = 0; peer < peers; ++peer)
        before += std::exchange(places_[peer], before);
      WriteByPeer write{places_.data(), families};
      aspen::pass(d.mine, 0, d.theirs, write);
      families += before;
    }
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
  /// ScaLAPACK's intervals hold my indices only.
  std::size_t scalapack_alone(const Case& dimensions) {
    Interval* next = intervals_.data();
    for (const Dimension& d : dimensions)
      for (Index peer = 0; peer < d.theirs.grid; ++peer)
        next += scalapack_->scan(d.mine, 0, d.theirs, peer, next);
    return static_cast<std::size_t>(next - intervals_.data());
  }
  void check_scalapack(const Case& dimensions) {
    for (const Dimension& d : dimensions) {
      const Overlaps ours = overlaps(d.mine, {0}, d.theirs);
      std::size_t next = 0;  // index of the peer in our list
      for (Index peer = 0; peer < d.theirs.grid; ++peer) {
        const int count = scalapack_->scan(d.mine, 0, d.theirs, peer, intervals_.data());
        const Interval* interval = intervals_.data();
        bool is_equal = true;
        if (next < ours.size() && ours.peers()[next].value == peer)
          ours[next++].for_each([&](const Segment& s) {
            is_equal = is_equal && interval < intervals_.data() + count &&
                       interval->begin == s.begin.value && interval->length == s.length;
            ++interval;
          });
        if (!is_equal || interval != intervals_.data() + count)
          throw std::runtime_error(
              "expected the same intervals from ScaLAPACK and ASPEN, found others");
      }
    }
  }

  std::ofstream csv_;
  std::optional<Scalapack> scalapack_;
  std::vector<Piece> pieces_;
  std::vector<Interval> intervals_;
  std::vector<Family> families_ = std::vector<Family>(1 << 20);
  std::vector<std::uint32_t> places_ = std::vector<std::uint32_t>(1024);
  OverlapFinder finder_;
};

struct Tile {
  Index rows, columns;
  std::string text() const { return fmt::format("{}x{}", rows, columns); }
};

/// The smallest ratio of another algorithm's time to ASPEN's over all lines of the table.
struct Least {
  double bare = 1e9, grouped = 1e9;
  /// slower: number of lines on which another algorithm is faster than ASPEN grouped.
  int slower = 0, lines = 0;
};
/// Runs the paper's case: 10,000 x 10,000 elements, all pairs of block sizes, square and non-square grids.
Least paper(Bench& bench) {
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
  Least least;
  for (const auto& [name, grids] : {std::pair("square", square), std::pair("other", other)}) {
    fmt::print(
        "\n10,000 x 10,000 elements, {} grids, one rank; bare microseconds; in "
        "parentheses, relative to ASPEN\n",
        name);
    fmt::print("{:>10} {:>10} {:>7} {:>7} {:>8} {:>16} {:>16} {:>16} {:>9} {:>9} {:>9}\n", "block",
               "to block", "grid", "to grid", "ASPEN", "FALLS", "classical", "ScaLAPACK", "grouped",
               "lists", "fresh");
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
          double fastest = 1e9;
          for (const Figures& f : figures) {
            bench.write(fmt::format("paper_{}", name), from.text(), to.text(),
                        static_cast<double>(mine.rows * mine.columns), f);
            if (f.algorithm == aspen.algorithm) continue;
            least.bare = std::min(least.bare, f.bare / aspen.bare);
            fastest = std::min(fastest, f.grouped);
            row += fmt::format(" {:8.3f} ({:5.1f})", f.bare * 1e6, f.bare / aspen.bare);
          }
          least.grouped = std::min(least.grouped, fastest / aspen.grouped);
          least.slower += fastest < aspen.grouped ? 1 : 0;
          ++least.lines;
          if (!bench.has_scalapack()) row += fmt::format(" {:>16}", "not installed");
          fmt::print("{} {:9.3f} {:9.3f} {:9.3f}\n", row, aspen.grouped * 1e6, aspen.lists * 1e6,
                     aspen.fresh * 1e6);
        }
  }
  return least;
}

constexpr Index block = 30'011, their_block = 40'009;  // primes: no period within the extent

/// Returns a case in which this side has `blocks` blocks on each of 16 coordinates.
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
    "blocks of 30011 on 16 coordinates against blocks of 40009; ns per piece\n";

/// Measures how the cost grows with the number of ranks on the other side. The numbers of blocks and
/// pieces stay the same.
void remote_ranks(Bench& bench) {
  fmt::print(
      "\nGrowth with the ranks on the other side: {}{:>10} {:>9} {:>9} {:>9} {:>9} {:>9} "
      "{:>9} {:>9}\n",
      long_list_head, "remote", "blocks", "pieces", "limit", "bare", "lists", "fresh", "bare, x");
  double first = 0;
  for (const Index remote : {2, 4, 8, 16, 100, 1000, 10'000, 100'000, 1'000'000}) {
    const Figures f = bench.aspen(long_list(20'000, remote));
    bench.write("remote_ranks", "30011", "40009", static_cast<double>(remote), f);
    if (first == 0) first = f.bare;
    fmt::print("{:>10} {} {:9.3f}\n", remote, row_of(f), f.bare / first);
  }
}

/// Measures lists of increasing length, to show where they outgrow the caches.
void list_lengths(Bench& bench) {
  fmt::print("\nGrowth with the list: {}{:>10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}\n",
             long_list_head, "remote", "blocks", "pieces", "limit", "bare", "lists", "fresh");
  for (const Index blocks : {100, 1000, 10'000, 100'000, 600'000}) {
    const Figures f = bench.aspen(long_list(blocks, 60));
    bench.write("list_lengths", "30011", "40009", static_cast<double>(blocks), f);
    fmt::print("{:>10} {}\n", 60, row_of(f));
  }
}

/// Measures the whole two-dimensional plan of one rank, in the middle of the grid.
void plan_of(Bench& bench, const std::string& experiment, Index n, const std::string& from,
             const std::string& to, core::Rank me) {
  const std::string shape = fmt::format("shape={}x1000000 ", n);
  const Layout mine = Layout::parse(shape + from), theirs = Layout::parse(shape + to);
  Figures f{.algorithm = "ASPEN"};
  f.fresh = seconds_of({[&] { f.bytes = make_plan(mine, theirs, me).memory_bytes(); }})[0];
  f.pieces = make_plan(mine, theirs, me).size();
  bench.write(experiment, from, to, static_cast<double>(n), f);
  fmt::print("{:>15} {:12.2f} {:>12} {:>12}\n", n, f.fresh * 1e6, f.bytes, f.pieces);
}

void extents(Bench& bench) {
  const auto head = [](const char* grids) {
    fmt::print(
        "\nGrowth with the extent: N x 1,000,000 elements, blocks 64x48 against 100x36, {}; "
        "the complete plan of one rank\n{:>15} {:>12} {:>12} {:>12}\n",
        grids, "N", "microseconds", "bytes", "peers");
  };
  head("10x10 ranks to 9x11");
  for (Index n = 10'000; n <= 1'000'000'000'000; n *= 10)
    plan_of(bench, "extents", n, "grid=10x10 block=64x48", "grid=9x11 block=100x36",
            core::Rank{45});
  head("1000x1000 ranks to 999x1001");
  for (Index n = 10'000; n <= 1'000'000'000'000; n *= 100)
    plan_of(bench, "extents_of_a_million_ranks", n, "grid=1000x1000 block=64x48",
            "grid=999x1001 block=100x36", core::Rank{499'500});
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
    const Least least = paper(bench);
    remote_ranks(bench);
    list_lengths(bench);
    extents(bench);
    fmt::print(
        "\nThe paper's experiment, {} lines, ASPEN and the fastest of FALLS, classical{}: "
        "the fastest takes at least {:.2f} times as long as ASPEN bare, at least {:.2f} times as "
        "long as ASPEN grouped by peer, and is faster than ASPEN grouped on {} lines.\n",
        least.lines, bench.has_scalapack() ? " and ScaLAPACK" : " (no ScaLAPACK here)", least.bare,
        least.grouped, least.slower);
  } catch (const std::exception& error) {
    fmt::print(stderr, "tremula_index_bench: {}\n", error.what());
    return 1;
  }
}
