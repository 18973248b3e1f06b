// SPDX-License-Identifier: Apache-2.0
#pragma once
// A job whose ranks are threads that reach each other over loopback.
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "client/redistribute/redistribution.hpp"
#include "tests/client/thread_group.hpp"
#include "transport/loopback/loopback.hpp"

namespace tremula::client::testing {

using redistribute::NearRings, redistribute::RedistributionPlan;
using transport::Loopback, transport::Network, transport::Side;

/// An endpoint that sends through one loopback endpoint and receives through another, because
/// loopback has two sides.
class Both final : public transport::Endpoint {
public:
  explicit Both(Loopback& loopback)
      : out_(loopback.open("loopback", Side::producer)),
        in_(loopback.open("loopback", Side::consumer)) {}
  transport::Address out_address() const { return out_->address(); }
  transport::Address address() const override { return in_->address(); }
  void connect(std::span<const transport::Address> peers, core::Deadline deadline) override {
    out_->connect(peers, deadline);
  }
  void connect_in(std::span<const transport::Address> peers) {
    in_->connect(peers, core::Deadline::after(5));
  }
  transport::Request send(Rank peer, transport::Tag tag, core::BytesView bytes) override {
    return out_->send(peer, tag, bytes);
  }
  transport::Request receive(Rank peer, transport::Tag tag, std::span<std::byte> bytes) override {
    return in_->receive(peer, tag, bytes);
  }
  void progress() override { out_->progress(), in_->progress(); }

private:
  std::unique_ptr<transport::Endpoint> out_, in_;
};

/// All ranks of a job, one thread each.
class Job {
public:
  explicit Job(core::RankCount size) : loopback_(network_), ranks_(size) {
    std::vector<transport::Address> outs, ins;
    for (core::RankCount r = 0; r < size; ++r) {
      endpoints_.push_back(std::make_unique<Both>(loopback_));
      outs.push_back(endpoints_.back()->out_address());
      ins.push_back(endpoints_.back()->address());
    }
    for (auto& endpoint : endpoints_) {
      endpoint->connect(ins, core::Deadline::after(5));
      endpoint->connect_in(outs);
    }
  }
  core::RankCount size() const { return static_cast<core::RankCount>(endpoints_.size()); }

  /// Returns a rank's rings. Collective. Ranks with the same `machine` are near.
  NearRings rings(Rank me, const std::string& machine = "here") {
    const auto allgather = [this, me](core::Bytes mine) {
      return ThreadGroup(ranks_, me).allgather(std::move(mine), core::Deadline::after(20));
    };
    const auto bytes = std::as_bytes(std::span(machine));
    const auto machines = allgather({bytes.begin(), bytes.end()});
    return NearRings(me, RedistributionPlan::longest_chunk_bytes, machines, allgather);
  }

  /// Calls action(rank, endpoint) on all ranks concurrently. Returns the error text of each rank; ""
  /// if its action did not throw.
  template <class Action>
  std::vector<std::string> run(Action&& action) {
    std::vector<std::string> failures(endpoints_.size());
    std::vector<std::thread> threads;
    for (const Rank r : core::all_ranks(size()))
      threads.emplace_back([&, r] {
        try {
          action(r, *endpoints_[core::at(r)]);
        } catch (const std::exception& e) {
          failures[core::at(r)] = e.what();
        }
      });
    for (auto& thread : threads) thread.join();
    return failures;
  }

private:
  Network network_{1024};
  Loopback loopback_;
  ThreadRanks ranks_;
  std::vector<std::unique_ptr<Both>> endpoints_;
};

/// Runs a redistribution once, with its own staging memory.
inline void run(redistribute::Redistribution& redistribution, transport::Endpoint& endpoint,
                NearRings& rings, std::span<const ConstMemoryView> from,
                std::span<const MemoryView> to, core::Deadline deadline) {
  ChunkPool staging;
  redistribution.run(endpoint, rings, staging, from, to, deadline);
}
/// Runs a redistribution once between ranks that are all far from each other.
inline void run(redistribute::Redistribution& redistribution, transport::Endpoint& endpoint,
                std::span<const ConstMemoryView> from, std::span<const MemoryView> to,
                core::Deadline deadline) {
  NearRings none;
  run(redistribution, endpoint, none, from, to, deadline);
}

inline std::vector<ConstMemoryView> views(const std::vector<std::vector<std::byte>>& buffers) {
  return {buffers.begin(), buffers.end()};
}
inline std::vector<MemoryView> spans(std::vector<std::vector<std::byte>>& buffers) {
  return {buffers.begin(), buffers.end()};
}

}  // namespace tremula::client::testing
