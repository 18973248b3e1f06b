// SPDX-License-Identifier: Apache-2.0
// All packages of rank 0 packed and unpacked, each turn beside a memcpy of the same bytes. Counter
// `of_memcpy` is the part of memcpy's speed that is reached.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "core/buffer.hpp"
#include "index_calc/pack.hpp"
#include "index_calc/runs.hpp"

namespace {

using tremula::core::Buffer;
using namespace tremula::index_calc;

double seconds_of(const std::function<void()>& action) {
  const auto began = std::chrono::steady_clock::now();
  action();
  benchmark::ClobberMemory();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

enum class Direction { pack, unpack };

void move_packages(benchmark::State& state, Direction direction, const std::string& mine,
                   const std::string& theirs, std::size_t element_bytes) {
  const Layout layout = Layout::parse(mine);
  const Plan plan = make_plan(layout, Layout::parse(theirs), 0);
  const LocalPart part = local_part(layout, 0);
  Buffer local(static_cast<std::size_t>(part.allocated) * element_bytes);
  Buffer wire(static_cast<std::size_t>(plan.elements()) * element_bytes);
  std::memset(local.span().data(), 1, local.bytes());  // the system gives pages on first use
  std::memset(wire.span().data(), 2, wire.bytes());

  Index runs_in_all = 0;
  for (std::size_t i = 0; i < plan.size(); ++i)
    runs_in_all += runs(plan[i], part, layout.storage_order).count;

  const auto move = [&] {
    std::size_t at = 0;
    for (std::size_t i = 0; i < plan.size(); ++i) {
      const Package package = plan[i];
      const auto bytes = static_cast<std::size_t>(package.elements) * element_bytes;
      const auto piece = wire.span().subspan(at, bytes);
      if (direction == Direction::pack)
        pack(package, part, layout.storage_order, element_bytes, local.span(), piece);
      else
        unpack(package, part, layout.storage_order, element_bytes, piece, local.span());
      at += bytes;
    }
  };
  double moving = 0, copying = 0;
  for (auto _ : state) {
    copying +=
        seconds_of([&] { std::memcpy(wire.span().data(), local.span().data(), wire.bytes()); });
    const double turn = seconds_of(move);
    moving += turn;
    state.SetIterationTime(turn);
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(wire.bytes()));
  state.counters["of_memcpy"] = copying / moving;
  state.counters["run_bytes"] =
      static_cast<double>(wire.bytes()) / static_cast<double>(runs_in_all);
}

struct Redistribution {
  const char* name;
  const char* mine;
  const char* theirs;
};
constexpr Redistribution redistributions[] = {
    {"rows_to_rows", "shape=4096x4096 grid=4x1", "shape=4096x4096 grid=3x1"},
    {"tiles_to_columns", "shape=4096x4096 grid=2x2 block=64x64", "shape=4096x4096 grid=1x3"},
    {"tiles_to_tiles", "shape=4096x4096 grid=2x2 block=64x64",
     "shape=4096x4096 grid=3x3 block=30x50"},
    {"rows_to_cyclic_columns", "shape=4096x4096 grid=4x1", "shape=4096x4096 grid=1x3 block1=1"},
};

const bool registered = [] {
  for (const auto& r : redistributions)
    for (const std::size_t element_bytes : {4u, 8u})
      for (const auto direction : {Direction::pack, Direction::unpack}) {
        const std::string name = std::string(direction == Direction::pack ? "pack/" : "unpack/") +
                                 r.name + "/" + std::to_string(element_bytes) + "_bytes";
        benchmark::RegisterBenchmark(name.c_str(),
                                     [=](benchmark::State& state) {
                                       move_packages(state, direction, r.mine, r.theirs,
                                                     element_bytes);
                                     })
            ->UseManualTime()
            ->Unit(benchmark::kMillisecond);
      }
  return true;
}();

}  // namespace
