// SPDX-License-Identifier: Apache-2.0
// Measures how long the three algorithms take to find the overlaps of coordinate 0, for the same
// pairs of distributions, and to make a complete plan.
#include <benchmark/benchmark.h>

#include <string>

#include "index_calc/overlap/overlap.hpp"
#include "index_calc/plan/plan.hpp"

namespace {

using namespace tremula::index_calc;

struct Pair {
  const char* name;
  BlockCyclic mine;
  BlockCyclic theirs;
};
constexpr Pair pairs[] = {
    {"blocks_30_on_4_to_64_on_6/1e4", {10'000, 30, 4, 0}, {10'000, 64, 6, 0}},
    {"blocks_30_on_4_to_64_on_6/1e6", {1'000'000, 30, 4, 0}, {1'000'000, 64, 6, 0}},
    {"blocks_30_on_4_to_64_on_6/1e8", {100'000'000, 30, 4, 0}, {100'000'000, 64, 6, 0}},
    {"blocks_31_on_16_to_37_on_64/1e6", {1'000'000, 31, 16, 0}, {1'000'000, 37, 64, 0}},
    {"plain_on_4_to_cyclic_on_6/1e6", {1'000'000, 250'000, 4, 0}, {1'000'000, 1, 6, 0}},
    {"plain_on_4_to_plain_on_1024/1e6", {1'000'000, 250'000, 4, 0}, {1'000'000, 977, 1024, 0}},
};

void overlap(benchmark::State& state, const Pair& pair, Algorithm algorithm) {
  std::size_t bytes = 0;
  for (auto _ : state) {
    const Overlaps found = overlaps(pair.mine, {0}, pair.theirs, algorithm);
    bytes = found.memory_bytes();
    benchmark::DoNotOptimize(bytes);
  }
  state.counters["plan_bytes"] = static_cast<double>(bytes);
}

void plan_of_two_dimensions(benchmark::State& state, Algorithm algorithm) {
  const Layout mine = Layout::parse("shape=10000x10000 grid=4x4 block=30x50");
  const Layout theirs = Layout::parse("shape=10000x10000 grid=6x6 block=64x64");
  for (auto _ : state)
    benchmark::DoNotOptimize(make_plan(mine, theirs, Rank{0}, Role::source, algorithm).elements());
}

const bool registered = [] {
  constexpr Algorithm algorithms[] = {Algorithm::aspen, Algorithm::falls, Algorithm::classical};
  for (const Pair& pair : pairs)
    for (const Algorithm algorithm : algorithms)
      benchmark::RegisterBenchmark(
          ("overlap/" + std::string(pair.name) + "/" + std::string(to_string(algorithm))).c_str(),
          [&pair, algorithm](benchmark::State& state) { overlap(state, pair, algorithm); })
          ->Unit(benchmark::kMicrosecond);
  for (const Algorithm algorithm : algorithms)
    benchmark::RegisterBenchmark(
        ("plan/10000x10000_4x4_to_6x6/" + std::string(to_string(algorithm))).c_str(),
        [algorithm](benchmark::State& state) { plan_of_two_dimensions(state, algorithm); })
        ->Unit(benchmark::kMicrosecond);
  return true;
}();

}  // namespace
