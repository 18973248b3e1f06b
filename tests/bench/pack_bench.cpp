// SPDX-License-Identifier: Apache-2.0
// Packs all packages of rank 0, packs them in pieces, unpacks them, copies them straight from and to
// the buffers of the peers, and hashes them, each in turn with a memcpy of the same bytes. Times are
// medians; the counter `of_memcpy` is the fraction of memcpy's speed that is reached. Transformations
// count the bytes of `from`.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/buffer.hpp"
#include "index_calc/pack/pack.hpp"
#include "index_calc/plan/runs.hpp"
#include "index_calc/proof/content_hash.hpp"
#include "index_calc/transform/transform.hpp"

namespace {

using tremula::core::Buffer;
using namespace tremula::index_calc;

double seconds_of(const std::function<void()>& action) {
  const auto began = std::chrono::steady_clock::now();
  action();
  benchmark::ClobberMemory();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

Buffer filled(Index elements, std::size_t element_bytes) {
  Buffer result(static_cast<std::size_t>(elements) * element_bytes);
  std::memset(result.span().data(), 1, result.bytes());  // the system provides pages on first use
  return result;
}

/// Rank 0 of `mine` and all its peers.
class Case {
public:
  Case(const std::string& mine, const std::string& theirs, std::size_t element_bytes)
      : element_bytes_(element_bytes) {
    const Layout layout = Layout::parse(mine), other = Layout::parse(theirs);
    order_ = other.storage().order;
    plan_.emplace(make_plan(layout, other, Rank{0}));
    part_ = local_part(layout, Rank{0});
    local_ = filled(part_.allocated, element_bytes);
    hash_.emplace(layout, Rank{0}, part_, element_bytes);
    wire_ = filled(plan_->elements(), element_bytes);
    for (std::size_t i = 0; i < plan_->size(); ++i) {
      runs_ += runs((*plan_)[i], part_, order_).count;
      peers_.push_back(local_part(other, (*plan_)[i].peer));
    }
  }

  std::size_t bytes() const { return wire_.bytes(); }
  double run_bytes() const { return static_cast<double>(bytes()) / static_cast<double>(runs_); }

  void memcpy() { std::memcpy(wire_.span().data(), local_.span().data(), wire_.bytes()); }

  void pack() {
    for_each_package([&](const Package& package, std::span<std::byte> wire) {
      tremula::index_calc::pack(package, part_, order_, element_bytes_, local_.span(), wire);
    });
  }

  /// Packs in pieces of 512 KiB into four buffers in turn, as messages are filled and sent.
  void pack_in_pieces() {
    constexpr std::size_t piece_bytes = std::size_t{512} << 10, buffers = 4;
    const auto piece = static_cast<Index>(piece_bytes / element_bytes_);
    std::size_t turn = 0;
    for (std::size_t i = 0; i < plan_->size(); ++i)
      for (Index at = 0; at < (*plan_)[i].elements; at += piece) {
        const Index now = std::min(piece, (*plan_)[i].elements - at);
        tremula::index_calc::pack(
            (*plan_)[i], part_, order_, element_bytes_, {at, now}, local_.span(),
            wire_.span().subspan(turn++ % buffers * piece_bytes,
                                 static_cast<std::size_t>(now) * element_bytes_));
      }
  }

  void unpack() {
    for_each_package([&](const Package& package, std::span<std::byte> wire) {
      tremula::index_calc::unpack(package, part_, order_, element_bytes_, wire, local_.span());
    });
  }

  /// @param t  converts to a type that is no wider
  void unpack(const Transformation& t) {
    for_each_package([&](const Package& package, std::span<std::byte> wire) {
      tremula::index_calc::unpack(package, part_, order_, t, {0, package.elements}, wire,
                                  local_.span());
    });
  }

  void hash() {
    std::uint64_t sum = 0;
    for_each_package([&](const Package& package, std::span<std::byte>) {
      sum += hash_->of(package, local_.span());
    });
    benchmark::DoNotOptimize(sum);
  }

  /// @pre fill_peers() has been called
  void copy_from_peers() {
    for (std::size_t i = 0; i < plan_->size(); ++i)
      copy_from_peer((*plan_)[i], part_, peers_[i], element_bytes_, peer_buffers_[i].span(),
                     local_.span());
  }
  void copy_to_peers() {
    for (std::size_t i = 0; i < plan_->size(); ++i)
      copy_to_peer((*plan_)[i], part_, peers_[i], element_bytes_, local_.span(),
                   peer_buffers_[i].span());
  }
  void fill_peers() {
    for (const LocalPart& peer : peers_)
      peer_buffers_.push_back(filled(peer.allocated, element_bytes_));
  }

private:
  template <class Visit>
  void for_each_package(Visit&& visit) {
    std::size_t at = 0;
    for (std::size_t i = 0; i < plan_->size(); ++i) {
      const Package package = (*plan_)[i];
      const auto size = static_cast<std::size_t>(package.elements) * element_bytes_;
      visit(package, wire_.span().subspan(at, size));
      at += size;
    }
  }

  std::size_t element_bytes_;
  Order order_ = Order::row;
  std::optional<Plan> plan_;
  LocalPart part_;
  std::optional<ContentHash> hash_;
  std::vector<LocalPart> peers_;
  Index runs_ = 0;
  Buffer local_, wire_;
  std::vector<Buffer> peer_buffers_;
};

struct Movement {
  const char* name;
  void (Case::*move)();
  bool has_peers = false;
};
constexpr Movement movements[] = {
    {"pack", &Case::pack},
    {"pack_in_pieces", &Case::pack_in_pieces},
    {"unpack", &Case::unpack},
    {"hash", &Case::hash},
    {"copy_from_peer", &Case::copy_from_peers, true},
    {"copy_to_peer", &Case::copy_to_peers, true},
};

struct Redistribution {
  const char* name;
  std::size_t element_bytes;
  const char* mine;
  const char* theirs;
};
constexpr Redistribution redistributions[] = {
    {"contiguous_256MiB", 8, "shape=33554432 grid=1", "shape=33554432 grid=1"},
    {"runs_64KiB", 8, "shape=2048x16384 grid=1x1", "shape=2048x16384 grid=1x2"},
    {"runs_256B", 8, "shape=8192x8192 grid=2x2 block=32x32",
     "shape=8192x8192 grid=2x2 block=128x128"},
    {"from_cyclic", 8, "shape=8192x8192 grid=2x2 block=1x1",
     "shape=8192x8192 grid=2x2 block=64x64"},
    {"to_cyclic", 8, "shape=8192x8192 grid=2x2 block=64x64", "shape=8192x8192 grid=2x2 block=1x1"},
    {"to_cyclic", 4, "shape=8192x8192 grid=2x2 block=64x64", "shape=8192x8192 grid=2x2 block=1x1"},
    {"transposed_4096", 8, "shape=4096x4096 grid=1x1", "shape=4096x4096 grid=1x1 store=column"},
    {"transposed_4097", 8, "shape=4097x4097 grid=1x1", "shape=4097x4097 grid=1x1 store=column"},
    {"transposed_4096", 4, "shape=4096x4096 grid=1x1", "shape=4096x4096 grid=1x1 store=column"},
    {"transposed_4097", 4, "shape=4097x4097 grid=1x1", "shape=4097x4097 grid=1x1 store=column"},
    {"slab_to_pencil", 8, "shape=512x256x256 grid=4x1x1", "shape=512x256x256 grid=1x2x2"},
    {"tiles_to_tiles", 8, "shape=4096x4096 grid=2x2 block=64x64",
     "shape=4096x4096 grid=3x3 block=30x50"},
};

void measure(benchmark::State& state, Case& c, const std::function<void()>& move) {
  std::vector<double> moving, copying;
  for (auto _ : state) {
    copying.push_back(seconds_of([&] { c.memcpy(); }));
    moving.push_back(seconds_of(move));
    state.SetIterationTime(moving.back());
  }
  const auto bytes = static_cast<double>(c.bytes());
  state.counters["bytes_per_s"] = bytes / median(moving);
  state.counters["of_memcpy"] = median(copying) / median(moving);
  state.counters["run_bytes"] = c.run_bytes();
}

struct Change {
  const char* name;
  Transformation transformation;
};
using enum tremula::core::ElementType;
const Change changes[] = {
    {"f64_to_f32", {.from = f64, .to = f32}},
    {"f64_to_i32", {.from = f64, .to = i32}},
    {"2_from", {.from = f64, .to = f64, .alpha = 2}},
    {"2_from_plus_to", {.from = f64, .to = f64, .alpha = 2, .beta = 1}},
};

void register_benchmark(const std::string& name, std::function<void(benchmark::State&)> run) {
  benchmark::RegisterBenchmark(name.c_str(), std::move(run))
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
}

const bool registered = [] {
  for (const Redistribution& r : redistributions)
    for (const Movement& movement : movements)
      register_benchmark(std::string(movement.name) + "/" + r.name + "/" +
                             std::to_string(r.element_bytes) + "_bytes",
                         [&r, &movement](benchmark::State& state) {
                           Case c(r.mine, r.theirs, r.element_bytes);
                           if (movement.has_peers) c.fill_peers();
                           measure(state, c, [&] { (c.*movement.move)(); });
                         });
  for (const Redistribution& r : redistributions)
    for (const Change& change : changes)
      if (r.element_bytes == 8)
        register_benchmark(std::string("unpack_") + change.name + "/" + r.name,
                           [&r, &change](benchmark::State& state) {
                             Case c(r.mine, r.theirs, 8);
                             measure(state, c, [&] { c.unpack(change.transformation); });
                           });
  return true;
}();

}  // namespace
