// SPDX-License-Identifier: Apache-2.0
#pragma once
// Both ends of exchanges over the loopback transport, all ranks in one thread, and the expected
// contents of every rank's part. The oracle deals out the blocks like cards.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "client/exchange/sink.hpp"
#include "client/exchange/source.hpp"
#include "client/stream/link/link_plan.hpp"
#include "transport/loopback/loopback.hpp"

namespace tremula::client {

using core::to_rank, index_calc::Layout;
using transport::Loopback, transport::Network, transport::Side;

/// Returns the global index of each element that grid coordinate `coord` owns, by dealing out the
/// blocks.
inline std::vector<Index> dealt(const index_calc::BlockCyclic& d, Index coord) {
  std::vector<Index> mine;
  Index turn = d.source;
  for (Index begin = 0; begin < d.extent; begin += d.block, turn = (turn + 1) % d.grid)
    for (Index i = begin; turn == coord && i < std::min(begin + d.block, d.extent); ++i)
      mine.push_back(i);
  return mine;
}

/// Returns the local part of `rank` in a 2-D layout. Each element is `value(global number)`.
template <class Value>
std::vector<std::int64_t> part_of(const Layout& layout, Rank rank, Value value) {
  const auto& rows = std::get<index_calc::BlockCyclic>(layout.grid()->dims[0]);
  const auto& columns = std::get<index_calc::BlockCyclic>(layout.grid()->dims[1]);
  const bool is_row = layout.ranks().order == index_calc::Order::row;
  const Index p = is_row ? rank.value / columns.grid : rank.value % rows.grid;
  const Index q = is_row ? rank.value % columns.grid : rank.value / rows.grid;
  const auto is = dealt(rows, p), js = dealt(columns, q);
  std::vector<std::int64_t> part;
  if (layout.storage().order == index_calc::Order::row) {
    for (const Index i : is)
      for (const Index j : js) part.push_back(value(i * columns.extent + j));
  } else {
    for (const Index j : js)
      for (const Index i : is) part.push_back(value(i * columns.extent + j));
  }
  return part;
}

/// Whether two ranks can map each other's memory.
using IsNear = std::function<bool(Rank producer, Rank consumer)>;

/// A send that reports its completion `looks` calls of test() late.
class LateSend final : public transport::Operation {
public:
  LateSend(transport::Request inner, int looks) : inner_(std::move(inner)), looks_(looks) {}
  std::optional<std::size_t> test() override {
    if (!inner_.test() || looks_-- > 0) return std::nullopt;
    return inner_.bytes();
  }
  void cancel() noexcept override { inner_.reset(); }
  void release() noexcept override { delete this; }

private:
  transport::Request inner_;
  int looks_;
};

/// A loopback endpoint whose peers may be near, since all of them are in this process.
class MaybeNear final : public transport::Endpoint {
public:
  MaybeNear(std::unique_ptr<transport::Endpoint> end, std::function<bool(Rank)> is_near)
      : end_(std::move(end)), is_near_(std::move(is_near)) {}
  transport::Address address() const override { return end_->address(); }
  void connect(std::span<const transport::Address> peers, core::Deadline deadline) override {
    end_->connect(peers, deadline);
  }
  transport::Request send(Rank peer, transport::Tag tag, core::BytesView bytes) override {
    auto request = end_->send(peer, tag, bytes);
    return late_looks == 0 ? std::move(request)
                           : transport::Request(new LateSend(std::move(request), late_looks));
  }
  transport::Request receive(Rank peer, transport::Tag tag, std::span<std::byte> bytes) override {
    return end_->receive(peer, tag, bytes);
  }
  void progress() override { end_->progress(); }
  bool is_near(Rank peer) const noexcept override { return is_near_(peer); }
  std::unique_ptr<transport::MemoryRegion> register_memory(std::span<std::byte> bytes,
                                                           transport::Access access) override {
    if (!lets_read) return nullptr;
    if (refuses && access == transport::Access::peers_read)
      throw core::Error(core::Errc::transport, "no memory may be locked");
    registered += access == transport::Access::peers_read;
    return end_->register_memory(bytes, access);
  }
  transport::Request read(Rank peer, const transport::RegionKey& region, std::size_t offset,
                          std::span<std::byte> bytes) override {
    return end_->read(peer, region, offset, bytes);
  }
  void give_up() noexcept override { end_->give_up(); }

  bool lets_read = false;  ///< whether it provides memory regions
  bool refuses = false;    ///< whether it refuses to register memory that peers read
  int registered = 0;      ///< number of registrations of memory that peers read
  int late_looks = 0;      ///< see LateSend

private:
  std::unique_ptr<transport::Endpoint> end_;
  std::function<bool(Rank)> is_near_;
};

/// Both sides of a link with all their ranks.
struct Coupling {
  Coupling(
      Network& network, const std::vector<proto::Field>& from, const std::vector<proto::Field>& to,
      int queue_depth = 2, const IsNear& is_near = [](Rank, Rank) { return false; },
      int copy_threads = 1)
      : Coupling(network, from, to, queue_depth, is_near, copy_threads, rank_count(from[0].layout),
                 rank_count(to[0].layout), [](Rank) { return std::vector<Target>(); }) {}

  /// @param m, n     number of producer and consumer ranks
  /// @param targets  returns the targets of a consumer rank
  Coupling(Network& network, const std::vector<proto::Field>& from,
           const std::vector<proto::Field>& to, int queue_depth, const IsNear& is_near,
           int copy_threads, core::RankCount m, core::RankCount n,
           const std::function<std::vector<Target>(Rank)>& targets)
      : threads(copy_threads, 1024) {  // a low threshold: threads share even small packages
    Loopback loopback(network);
    std::vector<transport::Address> out_addresses, in_addresses;
    for (const Rank r : core::all_ranks(m))
      out_ends.push_back(std::make_unique<MaybeNear>(loopback.open("loopback", Side::producer),
                                                     [=](Rank peer) { return is_near(r, peer); }));
    for (const Rank r : core::all_ranks(n))
      in_ends.push_back(std::make_unique<MaybeNear>(loopback.open("loopback", Side::consumer),
                                                    [=](Rank peer) { return is_near(peer, r); }));
    for (auto& e : out_ends) out_addresses.push_back(e->address());
    for (auto& e : in_ends) in_addresses.push_back(e->address());
    for (auto& e : out_ends) e->connect(in_addresses, core::Deadline::after(1));
    for (auto& e : in_ends) e->connect(out_addresses, core::Deadline::after(1));
    for (const Rank r : core::all_ranks(m))
      outs.push_back(std::make_unique<Source>(
          inlining(plan_exchange(from, to, Side::producer, r, m, n, plans, {}, {}, is_proved)),
          *out_ends[core::at(r)], 7, 0, queue_depth, threads, paths));
    for (const Rank r : core::all_ranks(n))
      ins.push_back(
          std::make_unique<Sink>(inlining(plan_exchange(to, from, Side::consumer, r, n, m, plans,
                                                        {}, targets(r), is_proved)),
                                 *in_ends[core::at(r)], 7, queue_depth, threads, paths));
  }
  /// Size in bytes of the largest array that is inlined. The default is 0, because the arrays of most
  /// tests are so short that all of them would be inlined.
  static inline std::size_t inlined_bytes = 0;
  /// Whether the source sends hashes, which the sink compares.
  static inline bool is_proved = false;
  /// Paths that both ends choose from.
  static inline Paths paths = all_paths();
  static ExchangePlan inlining(ExchangePlan plan) {
    plan.inlined_bytes = inlined_bytes;
    return plan;
  }
  index_calc::PlanCache plans;
  CopyThreads threads;
  std::vector<std::unique_ptr<MaybeNear>> out_ends, in_ends;
  std::vector<std::unique_ptr<Source>> outs;
  std::vector<std::unique_ptr<Sink>> ins;
};

inline std::vector<proto::Field> field(const std::string& layout) {
  return {{.name = "f", .type = core::ElementType::i64, .layout = Layout::parse(layout)}};
}

template <class Poll>
void soon(Poll&& poll) {
  for (int i = 0; i < 1000; ++i)
    if (poll()) return;
  FAIL() << "expected to be ready soon";
}

/// Repeats `poll` and advances all producer ranks until `poll` returns true.
template <class Poll>
void soon(Coupling& k, Poll&& poll) {
  for (int i = 0; i < 10000; ++i) {
    if (poll()) return;
    for (auto& out : k.outs) out->advance();
  }
  FAIL() << "expected to be ready soon";
}

}  // namespace tremula::client
