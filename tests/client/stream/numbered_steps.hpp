// SPDX-License-Identifier: Apache-2.0
#pragma once
// A producer and consumers of one stream whose elements carry their step and their own global number.
#include <atomic>
#include <cstdint>
#include <span>
#include <thread>
#include <vector>

#include "tests/client/world.hpp"

namespace tremula::client::numbered {

using Numbers = std::vector<std::uint64_t>;

inline constexpr core::Index extent =
    5040;  // longer than what is inlined; a multiple of all blocks

/// The part of one rank, in blocks whose size depends on the group.
class Part {
public:
  explicit Part(const Session& session)
      : layout_(index_calc::Layout::parse(
            fmt::format("shape={} grid={} block={}", extent, session.size(), 7 * session.size()))),
        rank_(session.rank()),
        values_(static_cast<std::size_t>(index_calc::local_part(layout_, rank_).allocated)) {}
  proto::Field field() const {
    return {.name = "f", .type = core::ElementType::i64, .layout = layout_, .origin = {}};
  }
  std::span<std::byte> bytes() { return std::as_writable_bytes(std::span(values_)); }
  void fill(std::uint64_t step) {
    for (std::size_t i = 0; i < values_.size(); ++i) values_[i] = element(step, i);
  }
  void expect(std::uint64_t step) {
    for (std::size_t i = 0; i < values_.size(); ++i)
      ASSERT_EQ(values_[i], element(step, i)) << "step " << step << ", local element " << i;
  }

private:
  std::int64_t element(std::uint64_t step, std::size_t i) const {
    const auto at = index_calc::to_global(layout_.grid()->dims[0], core::GridCoord{rank_.value},
                                          {static_cast<core::Index>(i)});
    return static_cast<std::int64_t>(step) * 1000000 + at.value;
  }
  index_calc::Layout layout_;
  Rank rank_;
  std::vector<std::int64_t> values_;
};

class Producer {
public:
  Producer(Session& session, const OutConfig& config)
      : out(session, "s", config), is_queued_(config.queue_depth > 0), part_(session) {
    out.declare(part_.field());
  }
  void put_to(std::uint64_t end) {
    for (; step_ < end; ++step_) {
      out.begin_step();
      part_.fill(step_);
      out.put(0, part_.bytes());
      if (is_queued_) part_.fill(999);  // the part belongs to this rank again
      out.end_step();
      part_.fill(999);
    }
  }
  OutStream out;

private:
  bool is_queued_;
  Part part_;
  std::uint64_t step_ = 0;
};

class Consumer {
public:
  Consumer(Session& session, const InConfig& config) : in(session, "s", config), part_(session) {
    in.declare(part_.field());
  }
  bool begin() {
    if (!in.begin_step()) return false;
    steps.push_back(in.step());
    return true;
  }
  void take() {
    in.get(0, part_.bytes());
    part_.expect(in.step());
    in.end_step();
  }
  InStream in;
  Numbers steps;

private:
  Part part_;
};

/// An event of a test, for which its threads wait.
class Event {
public:
  void set() { count_.fetch_add(1); }
  bool has_occurred(int count = 1) const { return count_.load() >= count; }
  /// @throws core::Error timed_out  after 120 s, so that a test ends even if its event never occurs
  void wait(int count = 1) const {
    const auto deadline = core::Deadline::after(120);
    while (!has_occurred(count)) {
      if (deadline.expired())
        throw core::Error(core::Errc::timed_out, "expected an event of the test within 120 s");
      std::this_thread::yield();
    }
  }

private:
  std::atomic<int> count_ = 0;
};

}  // namespace tremula::client::numbered
