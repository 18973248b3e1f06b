// SPDX-License-Identifier: Apache-2.0
// Copies runs of one length straight from the buffers of two peers, packs them and unpacks them.
// Compares each with its limits: a memcpy of the same number of bytes, and plain loops over the same
// runs with a memcpy or streaming stores per run. In each turn, each method moves a random slab of
// the array, so it seldom finds its data in the cache. Counters are ratios of median times:
// `of_memcpy` is the fraction of memcpy's speed reached, and so on.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "core/buffer.hpp"
#include "index_calc/pack/copy_lines.hpp"
#include "index_calc/pack/pack.hpp"

namespace {

using tremula::core::Buffer;
using namespace tremula::index_calc;

constexpr std::size_t element_bytes = 8;

double seconds_of(const std::function<void()>& action) {
  const auto began = std::chrono::steady_clock::now();
  action();
  benchmark::ClobberMemory();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

Buffer filled(std::size_t bytes) {
  Buffer result(bytes);
  std::memset(result.span().data(), 1, bytes);
  return result;
}

void copy(std::byte* to, const std::byte* from, std::size_t bytes) { std::memcpy(to, from, bytes); }
void stream(std::byte* to, const std::byte* from, std::size_t bytes) {
  copy_tuning().stream_lines(to, from, static_cast<std::ptrdiff_t>(bytes) / cache_line, from);
}

/// A square array in two layouts on two ranks: blocks of 32 whole rows, and blocks of whole
/// columns. Runs are as long as a block of columns is wide.
class Reblock {
public:
  Reblock(Index extent, Index run)
      : slabs(std::min<Index>(16, extent / 64)),
        extent_(extent),
        run_(run),
        rows_(Layout::parse(text("2x1", 32))),
        columns_(Layout::parse(text("1x2", run))),
        to_columns_(make_plan(rows_, columns_, Rank{0})),
        to_rows_(make_plan(columns_, rows_, Rank{0})),
        rows_part_(local_part(rows_, Rank{0})),
        columns_part_(local_part(columns_, Rank{0})) {
    for (Buffer& rows : of_rows_) rows = filled(bytes());
    of_columns_ = filled(bytes());
    other_ = filled(bytes());
  }

  /// Number of slabs that the array is cut into. Each consists of whole blocks of rows.
  const Index slabs;

  /// Returns the size of a rank's part in bytes, which is also the number of bytes
  /// moved with all slabs.
  std::size_t bytes() const {
    return static_cast<std::size_t>(extent_ * extent_ / 2) * element_bytes;
  }

  void copy_from_peers(Index slab) {
    for (std::size_t p = 0; p < to_rows_.size(); ++p) {
      const Index count = to_rows_[p].elements / slabs;
      copy_from_peer(to_rows_[p], columns_part_, rows_part_, Order::row, element_bytes,
                     {slab * count, count}, of_rows_[p].span(), of_columns_.span());
    }
  }
  void pack_for_peers(Index slab) {
    for (std::size_t p = 0; p < to_columns_.size(); ++p) {
      const Index count = to_columns_[p].elements / slabs;
      pack(to_columns_[p], rows_part_, Order::row, element_bytes, {slab * count, count},
           of_rows_[0].span(), message(p, slab));
    }
  }
  void unpack_from_peers(Index slab) {
    for (std::size_t p = 0; p < to_columns_.size(); ++p) {
      const Index count = to_columns_[p].elements / slabs;
      unpack(to_columns_[p], rows_part_, Order::row, element_bytes, {slab * count, count},
             message(p, slab), of_rows_[0].span());
    }
  }

  void copy_whole(Index slab) {
    const std::size_t part = bytes() / static_cast<std::size_t>(slabs),
                      at = static_cast<std::size_t>(slab) * part;
    std::memcpy(of_columns_.span().data() + at, other_.span().data() + at, part);
  }

  /// Moves the same runs as copy_from_peers.
  template <auto move>
  void loop_from_peers(Index slab) {
    std::byte* to = of_columns_.span().data() + in_bytes(slab * extent_ / slabs * extent_ / 2);
    for (Index row = slab * extent_ / slabs; row < (slab + 1) * extent_ / slabs; ++row) {
      const auto peer = static_cast<std::size_t>(row / 32 % 2);
      const std::byte* from =
          of_rows_[peer].span().data() + in_bytes((row / 64 * 32 + row % 32) * extent_);
      for (Index column = 0; column < extent_; column += 2 * run_, to += in_bytes(run_))
        move(to, from + in_bytes(column), in_bytes(run_));
    }
    end_streams();
  }
  /// Moves the same runs as pack_for_peers or, if not `packs`, unpack_from_peers.
  template <auto move, bool packs>
  void loop_over_message(Index slab) {
    for (std::size_t p = 0; p < 2; ++p) {
      std::byte* wire = message(p, slab).data();
      std::byte* local = of_rows_[0].span().data();
      for (Index row = slab * extent_ / 2 / slabs; row < (slab + 1) * extent_ / 2 / slabs; ++row)
        for (Index column = static_cast<Index>(p) * run_; column < extent_; column += 2 * run_) {
          std::byte* const at = local + in_bytes(row * extent_ + column);
          packs ? move(wire, at, in_bytes(run_)) : move(at, wire, in_bytes(run_));
          wire += in_bytes(run_);
        }
    }
    end_streams();
  }

private:
  std::string text(const std::string& grid, Index columns) const {
    const std::string extent = std::to_string(extent_);
    return "shape=" + extent + "x" + extent + " grid=" + grid + " block=32x" +
           std::to_string(columns);
  }
  static std::size_t in_bytes(Index elements) {
    return static_cast<std::size_t>(elements) * element_bytes;
  }
  /// Returns the slab's part of the message to `peer`.
  std::span<std::byte> message(std::size_t peer, Index slab) {
    const std::size_t part = bytes() / 2 / static_cast<std::size_t>(slabs);
    return other_.span().subspan(peer * bytes() / 2 + static_cast<std::size_t>(slab) * part, part);
  }

  Index extent_, run_;
  Layout rows_, columns_;
  Plan to_columns_, to_rows_;
  LocalPart rows_part_, columns_part_;
  std::array<Buffer, 2> of_rows_;
  Buffer of_columns_, other_;
};

using Move = void (Reblock::*)(Index slab);
struct Movement {
  const char* name;
  Move ours, copying_loop, streaming_loop;
};
constexpr Movement movements[] = {
    {"copy_from_peer", &Reblock::copy_from_peers, &Reblock::loop_from_peers<copy>,
     &Reblock::loop_from_peers<stream>},
    {"pack", &Reblock::pack_for_peers, &Reblock::loop_over_message<copy, true>,
     &Reblock::loop_over_message<stream, true>},
    {"unpack", &Reblock::unpack_from_peers, &Reblock::loop_over_message<copy, false>,
     &Reblock::loop_over_message<stream, false>},
};

void measure(benchmark::State& state, const Movement& movement, Index extent, Index run_bytes) {
  Reblock reblock(extent, run_bytes / static_cast<Index>(element_bytes));
  const std::array<Move, 4> moves{movement.ours, &Reblock::copy_whole, movement.copying_loop,
                                  movement.streaming_loop};
  std::array<std::vector<double>, 4> seconds;
  std::minstd_rand random(1);
  for (auto _ : state) {
    for (std::size_t i = 0; i < moves.size(); ++i) {
      const auto slab = static_cast<Index>(random()) % reblock.slabs;
      seconds[i].push_back(seconds_of([&] { (reblock.*moves[i])(slab); }));
    }
    state.SetIterationTime(seconds[0].back());
  }
  const double ours = median(seconds[0]);
  state.counters["bytes_per_s"] =
      static_cast<double>(reblock.bytes()) / static_cast<double>(reblock.slabs) / ours;
  state.counters["of_memcpy"] = median(seconds[1]) / ours;
  state.counters["of_loop"] = median(seconds[2]) / ours;
  state.counters["of_streaming_loop"] = median(seconds[3]) / ours;
}

const bool registered = [] {
  const auto add = [](const Movement& movement, Index extent, Index run_bytes) {
    const std::string name = "runs/" + std::string(movement.name) + "/" +
                             std::to_string(run_bytes) + "_bytes/of_" +
                             std::to_string((extent * extent * 4) >> 20) + "_MiB";
    benchmark::RegisterBenchmark(name.c_str(),
                                 [&movement, extent, run_bytes](benchmark::State& state) {
                                   measure(state, movement, extent, run_bytes);
                                 })
        ->UseManualTime()
        ->Unit(benchmark::kMicrosecond);
  };
  for (const Movement& movement : movements) {
    for (const Index run_bytes : {64, 128, 256, 512, 1024, 4096, 16384, 32768})
      add(movement, 8192, run_bytes);
    for (const Index extent : {1024, 2048, 4096, 12288}) add(movement, extent, 1024);
  }
  return true;
}();

}  // namespace
