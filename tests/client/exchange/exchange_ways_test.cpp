// SPDX-License-Identifier: Apache-2.0
// Moves whole steps in every way that an exchange can use. Every element carries its own global number;
// after each step every consumer rank must hold exactly its own elements, and the counters must
// state how often each was copied.
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <random>

#include "core/error.hpp"
#include "tests/client/coupling.hpp"
#include "tests/rounds.hpp"

namespace tremula::client {
namespace {

std::uint64_t test_seed() {
  const char* text = std::getenv("TREMULA_TEST_SEED");
  return text ? std::strtoull(text, nullptr, 10) : 20261121;
}

enum class Memory { ordinary, shared };

/// A local array of the application.
class Array {
public:
  Array(std::size_t count, Memory memory) : count_(count) {
    if (memory == Memory::shared && count > 0)
      shared_ = transport::local::allocate(count * 8);
    else
      own_.resize(count);
  }
  ~Array() {
    if (shared_ != nullptr) transport::local::deallocate(shared_);
  }
  Array(const Array&) = delete;
  std::span<std::int64_t> values() {
    return {shared_ != nullptr ? reinterpret_cast<std::int64_t*>(shared_) : own_.data(), count_};
  }
  std::span<std::byte> bytes() { return std::as_writable_bytes(values()); }

private:
  std::size_t count_;
  std::byte* shared_ = nullptr;
  std::vector<std::int64_t> own_;
};

struct Way {
  const char* name;
  int queue_depth;
  IsNear is_near;
  Memory out, in;
  bool is_async;
  double copies;  ///< copies per byte, both sides together; negative if pairs differ
};
void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }

const IsNear all = [](Rank, Rank) { return true; };
const IsNear none = [](Rank, Rank) { return false; };
const IsNear some = [](Rank p, Rank c) { return (p.value + c.value) % 2 == 0; };
constexpr auto ordinary = Memory::ordinary, shared = Memory::shared;

class ExchangeWays : public testing::TestWithParam<Way> {};

INSTANTIATE_TEST_SUITE_P(
    , ExchangeWays,
    testing::Values(Way{"staged_far", 2, none, ordinary, ordinary, false, 2},
                    Way{"staged_near", 2, all, ordinary, ordinary, false, 2},
                    Way{"staged_near_and_far", 3, some, shared, ordinary, false, 2},
                    Way{"lent_near", 2, all, shared, ordinary, true, 1},
                    Way{"lent_near_and_far", 1, some, shared, ordinary, true, -1},
                    Way{"not_lendable", 2, all, ordinary, shared, true, 2},
                    Way{"direct_out_of_the_producer", 0, all, shared, ordinary, false, 1},
                    Way{"direct_into_the_consumer", 0, all, ordinary, shared, false, 1},
                    Way{"direct_by_a_ring", 0, all, ordinary, ordinary, false, 2},
                    Way{"direct_by_messages", 0, none, ordinary, shared, false, -1},
                    Way{"direct_near_and_far", 0, some, ordinary, shared, false, -1}),
    [](const auto& way) { return std::string(way.param.name); });

// Most of these element sizes do not divide a chunk. No element may be split, whichever way it takes.
TEST_P(ExchangeWays, BringElementsOfAnySizeWhole) {
  const Way& way = GetParam();
  for (const std::size_t width :
       {std::size_t{3}, std::size_t{12}, std::size_t{1000}, core::max_opaque_bytes}) {
    const auto rows = static_cast<Index>((std::size_t{5} << 20) / width / 16);
    std::vector<proto::Field> from, to;
    for (const char* grid : {"grid=2x1", "grid=1x2 store=column"})
      for (auto* side : {&from, &to})
        if ((side == &from) == (grid[5] == '2'))
          for (const char* name : {"small", "large"})
            side->push_back({.name = name,
                             .type = core::opaque(width),
                             .layout = Layout::parse(
                                 fmt::format("shape={}x16 {}", name[0] == 's' ? 3 : rows, grid))});
    SCOPED_TRACE(fmt::format("{} bytes: {} -> {}", width, to_string(from[1].layout),
                             to_string(to[1].layout)));
    Network network;
    Coupling k(network, from, to, way.queue_depth, way.is_near, 2);
    const auto bytes_of = [&](const std::vector<Index>& numbers) {
      std::vector<std::byte> bytes(numbers.size() * width);
      for (std::size_t i = 0; i < bytes.size(); ++i)
        bytes[i] = static_cast<std::byte>(static_cast<std::uint64_t>(numbers[i / width]) * 31 +
                                          i % width * 7);
      return bytes;
    };
    const auto array_of = [](std::size_t bytes, Memory memory) {
      return std::make_unique<Array>((bytes + 7) / 8, memory);
    };
    std::vector<std::unique_ptr<Array>> given;
    for (std::size_t r = 0; r < k.outs.size(); ++r) {
      soon(k, [&] { return k.outs[r]->poll_room(); });
      for (std::size_t f = 0; f < 2; ++f) {
        const auto bytes = bytes_of(part_of(from[f].layout, to_rank(r), [](Index g) { return g; }));
        given.push_back(array_of(bytes.size(), way.out));
        const auto array = given.back()->bytes().first(bytes.size());
        std::ranges::copy(bytes, array.begin());
        k.outs[r]->put(0, f, array, way.is_async);
      }
      k.outs[r]->send(0);
    }
    for (std::size_t r = 0; r < k.ins.size(); ++r) {
      soon(k, [&] { return k.ins[r]->poll_complete(); });
      for (std::size_t f = 0; f < 2; ++f) {
        const auto want = bytes_of(part_of(to[f].layout, to_rank(r), [](Index g) { return g; }));
        const auto got = array_of(want.size(), way.in);
        const auto array = got->bytes().first(want.size());
        k.ins[r]->begin_again(f);
        soon(k, [&] { return k.ins[r]->fetch_some(f, array); });
        ASSERT_TRUE(std::ranges::equal(array, want)) << "consumer rank " << r << " field " << f;
      }
      soon(k, [&] { return k.ins[r]->poll_finish(); });
      k.ins[r]->finish_step();
    }
    for (auto& out : k.outs) soon(k, [&] { return out->poll_credit(1); });
  }
}

TEST_P(ExchangeWays, BringEveryElementToItsPlaceInEveryStep) {
  const Way& way = GetParam();
  const auto seed = test_seed();
  fmt::print("TREMULA_TEST_SEED={}\n", seed);
  std::mt19937_64 gen(seed);
  const auto in = [&](Index lo, Index hi) {
    return std::uniform_int_distribution<Index>(lo, hi)(gen);
  };
  for (int c = 0; c < testing_only::rounds(60); ++c) {
    const bool is_large = c % 10 == 0;  // several pieces for each pair
    const Index rows = c == 10    ? 500
                       : is_large ? in(100, 200)
                                  : in(1, 12),
                columns = rows + in(0, 5);
    std::vector<proto::Field> from, to;
    for (auto* side : {&from, &to}) {
      const Index p = in(1, is_large ? 2 : 3), q = in(1, is_large ? 2 : 3);
      for (int f = 0; f < 2; ++f) {
        const Index longest = is_large ? 120 : 5;
        const auto order = [&] {
          return in(0, 1) ? index_calc::Order::row : index_calc::Order::column;
        };
        const index_calc::BlockCyclic down{rows, in(1, longest), p, in(0, p - 1)},
            across{columns, in(1, longest), q, in(0, q - 1)};
        const index_calc::Ranks ranks{.order = order()};
        const Layout l(index_calc::Grid({down, across}), ranks, {.order = order()});
        side->push_back(
            {.name = fmt::format("f{}", f), .type = core::ElementType::i64, .layout = l});
      }
    }
    SCOPED_TRACE(fmt::format("case {}: {} | {} -> {} | {}", c, to_string(from[0].layout),
                             to_string(from[1].layout), to_string(to[0].layout),
                             to_string(to[1].layout)));
    Network network;
    Coupling k(network, from, to, way.queue_depth, way.is_near, is_large ? 3 : 1);
    constexpr std::uint64_t steps = 4;
    for (std::uint64_t step = 0; step < steps; ++step) {
      const auto value = [step](std::size_t f) {
        return [=](Index g) {
          return g * 100 + static_cast<Index>(f) * 10 + static_cast<Index>(step);
        };
      };
      std::vector<std::unique_ptr<Array>> given;
      const auto spoil = [&] {
        for (auto& array : given) std::ranges::fill(array->values(), -7);
      };
      const bool may_lend = way.is_async || way.queue_depth == 0;
      for (std::size_t r = 0; r < k.outs.size(); ++r) {
        soon(k, [&] { return k.outs[r]->poll_room(); });
        for (std::size_t f = 0; f < 2; ++f) {
          const auto part = part_of(from[f].layout, to_rank(r), value(f));
          given.push_back(std::make_unique<Array>(part.size(), way.out));
          std::ranges::copy(part, given.back()->values().begin());
          k.outs[r]->put(step, f, given.back()->bytes(), way.is_async);
        }
        k.outs[r]->send(step);
      }
      if (!may_lend) spoil();
      for (std::size_t r = 0; r < k.ins.size(); ++r) {
        soon(k, [&] { return k.ins[r]->poll_complete(); });
        ASSERT_EQ(k.ins[r]->step(), step);
        for (std::size_t f = 0; f < 2; ++f) {
          if (c % 4 == 1 && f == 1) continue;  // a rank need not get every field
          const auto want = part_of(to[f].layout, to_rank(r), value(f));
          for (int again = 0; again < (c % 4 == 2 ? 2 : 1); ++again) {
            Array got(want.size(), way.in);
            std::ranges::fill(got.values(), -1);
            k.ins[r]->begin_again(f);
            soon(k, [&] { return k.ins[r]->fetch_some(f, got.bytes()); });
            ASSERT_TRUE(std::ranges::equal(got.values(), want))
                << "consumer rank " << r << " field " << f << " step " << step;
          }
        }
        soon(k, [&] { return k.ins[r]->poll_finish(); });
        k.ins[r]->finish_step();
      }
      if (!may_lend) continue;
      for (auto& out : k.outs) soon(k, [&] { return out->poll_credit(step + 1); });
      spoil();
    }
    std::uint64_t sent = 0, received = 0, copied = 0;
    for (auto& out : k.outs) {
      soon(k, [&] { return out->poll_room(); });
      out->send_end(steps);
      sent += out->traffic().bytes;
      copied += out->traffic().copied_bytes;
    }
    for (auto& it : k.ins) {
      soon(k, [&] { return it->poll() == Sink::State::end; });
      received += it->traffic().bytes;
      copied += it->traffic().copied_bytes;
      it->leave();
      soon(k, [&] { return it->poll_told(); });
    }
    for (auto& out : k.outs) soon(k, [&] { return out->poll_credit(steps + 1); });
    ASSERT_EQ(sent, steps * 2 * 8 * static_cast<std::uint64_t>(rows * columns));
    ASSERT_EQ(received, sent);
    if (way.copies >= 0 && c % 4 != 1 && c % 4 != 2) {
      ASSERT_EQ(copied, static_cast<std::uint64_t>(way.copies) * sent);
    }
    ASSERT_EQ(network.counters().messages_sent, network.counters().messages_delivered);
  }
}

// ---- long messages ----

TEST(ExchangeSegments, LeaveWhileTheRestIsPacked) {
  for (const std::string target :
       {"shape=900x700 grid=1x2 block=900x100 store=column", "shape=900x700 grid=1x1"}) {
    for (const bool is_reversed : {false, true}) {
      SCOPED_TRACE(target + (is_reversed ? ", last field first" : ""));
      Network network;
      auto from = field("shape=900x700 grid=2x1 block=17x700"), to = field(target);
      for (auto* side : {&from, &to}) {
        side->push_back(side->front());
        side->back().name = "g";
      }
      Coupling k(network, from, to, 2);
      const auto value = [](std::uint64_t step, std::size_t f) {
        return [=](Index g) {
          return g * 100 + static_cast<Index>(f) * 10 + static_cast<Index>(step);
        };
      };
      constexpr std::uint64_t steps = 5;
      for (std::uint64_t step = 0; step < steps; ++step) {
        for (std::size_t r = 0; r < k.outs.size(); ++r) {
          soon(k, [&] { return k.outs[r]->poll_room(); });
          const auto before = network.counters().messages_sent;
          for (std::size_t i = 0; i < 2; ++i) {
            const std::size_t f = is_reversed ? 1 - i : i;
            auto part = part_of(from[f].layout, to_rank(r), value(step, f));
            k.outs[r]->put(step, f, std::as_bytes(std::span(part)), false);
            const auto sent = network.counters().messages_sent - before;
            if (i == 0) {
              EXPECT_EQ(sent > 0, !is_reversed);
            } else {
              EXPECT_GE(sent, 4);
            }
          }
          k.outs[r]->send(step);
        }
        for (std::size_t r = 0; r < k.ins.size(); ++r) {
          soon(k, [&] { return k.ins[r]->poll_complete(); });
          for (std::size_t f = 0; f < 2; ++f) {
            const auto want = part_of(to[f].layout, to_rank(r), value(step, f));
            std::vector<std::int64_t> got(want.size(), -1);
            soon(k,
                 [&] { return k.ins[r]->fetch_some(f, std::as_writable_bytes(std::span(got))); });
            ASSERT_EQ(got, want) << "consumer rank " << r << ", field " << f << ", step " << step;
          }
          soon(k, [&] { return k.ins[r]->poll_finish(); });
          k.ins[r]->finish_step();
        }
      }
      for (auto& out : k.outs) {
        soon(k, [&] { return out->poll_room(); });
        out->send_end(steps);
      }
      for (auto& in : k.ins) {
        soon(k, [&] { return in->poll() == Sink::State::end; });
        in->leave();
      }
      for (auto& out : k.outs) soon(k, [&] { return out->poll_credit(steps + 1); });
    }
  }
}

TEST(ExchangeSegments, AreNotSentWhileAFieldIsMissing) {
  for (const int queue_depth : {0, 2}) {
    Network network;
    auto from = field("shape=64x64 grid=1x1"), to = from;
    from.push_back(from[0]);
    to.push_back(to[0]);
    from[1].name = to[1].name = "g";
    Coupling k(network, from, to, queue_depth);
    const std::vector<std::int64_t> data(64 * 64, 1);
    k.outs[0]->put(0, 1, std::as_bytes(std::span(data)), false);
    EXPECT_THROW(k.outs[0]->send(0), core::Error);
    EXPECT_EQ(network.counters().messages_sent, 0);
  }
}

TEST(ExchangeSegments, AreNoticedIfLost) {
  Network network(std::size_t{4} << 20);
  Coupling k(network, field("shape=900x700 grid=1x1"), field("shape=900x700 grid=1x1"), 1);
  network.inject_faults([](const Network::MessageView& message) {
    return Network::Fault{.drop = message.number == 2};
  });
  const std::vector<std::int64_t> data(900 * 700, 1);
  k.outs[0]->put(0, 0, std::as_bytes(std::span(data)), false);
  k.outs[0]->send(0);
  EXPECT_THROW(k.ins[0]->poll_complete(), core::Error);  // the short last segment arrives early
}

// ---- reading a far producer's memory ----

/// Moves one step and checks every element.
void one_step(Coupling& k, std::uint64_t step, const Layout& from, const Layout& to, Memory memory,
              std::vector<std::unique_ptr<Array>>& given) {
  const auto value = [step](Index g) { return g * 10 + static_cast<Index>(step); };
  given.resize(k.outs.size());
  for (std::size_t r = 0; r < k.outs.size(); ++r) {
    const auto part = part_of(from, to_rank(r), value);
    if (!given[r]) given[r] = std::make_unique<Array>(part.size(), memory);
    std::ranges::copy(part, given[r]->values().begin());
    soon(k, [&] { return k.outs[r]->poll_room(); });
    k.outs[r]->put(step, 0, given[r]->bytes(), false);
    k.outs[r]->send(step);
  }
  for (std::size_t r = 0; r < k.ins.size(); ++r) {
    const auto want = part_of(to, to_rank(r), value);
    std::vector<std::int64_t> got(want.size(), -1);
    soon(k, [&] { return k.ins[r]->poll_complete(); });
    soon(k, [&] { return k.ins[r]->fetch_some(0, std::as_writable_bytes(std::span(got))); });
    ASSERT_EQ(got, want) << "consumer rank " << r << ", step " << step;
    soon(k, [&] { return k.ins[r]->poll_finish(); });
    k.ins[r]->finish_step();
  }
  for (auto& out : k.outs) soon(k, [&] { return out->poll_credit(step + 1); });
}

std::uint64_t copied_bytes(const Coupling& k) {
  std::uint64_t sum = 0;
  for (const auto& out : k.outs) sum += out->traffic().copied_bytes;
  for (const auto& in : k.ins) sum += in->traffic().copied_bytes;
  return sum;
}

TEST(ExchangeReading, LongRunsGoFromArrayToArray) {
  const auto seed = test_seed();
  fmt::print("TREMULA_TEST_SEED={}\n", seed);
  std::mt19937_64 gen(seed);
  const auto in = [&](Index lo, Index hi) {
    return std::uniform_int_distribution<Index>(lo, hi)(gen);
  };
  for (int c = 0; c < testing_only::rounds(40); ++c) {
    const Index rows = in(1, 20), columns = in(9000, 30000);
    const bool is_column = in(0, 1) == 1;  // if so, the first dimension is the long one
    Layout from, to;
    for (auto* layout : {&from, &to}) {
      const Index p = in(1, 3), q = in(1, 2);
      // Blocks of one side are nested in those of the other, so that their common pieces are long.
      const Index block = layout == &from ? in(1, 2) * 6000 : in(1, 4) * 12000;
      const index_calc::BlockCyclic few{rows, in(1, 5), p, in(0, p - 1)},
          many{columns, block, q, in(0, q - 1)};
      *layout =
          Layout(is_column ? index_calc::Grid({many, few}) : index_calc::Grid({few, many}), {},
                 {.order = is_column ? index_calc::Order::column : index_calc::Order::row});
    }
    SCOPED_TRACE(fmt::format("case {}: {} -> {}", c, to_string(from), to_string(to)));
    Network network;
    Coupling k(network, {{.name = "f", .type = core::ElementType::i64, .layout = from}},
               {{.name = "f", .type = core::ElementType::i64, .layout = to}}, 0);
    for (auto& end : k.out_ends) end->lets_read = true;
    std::vector<std::unique_ptr<Array>> given;
    const auto memory = c % 2 == 0 ? ordinary : shared;
    for (std::uint64_t step = 0; step < 3; ++step) one_step(k, step, from, to, memory, given);
    const auto bytes = static_cast<std::uint64_t>(rows * columns) * 8;
    const auto read = static_cast<std::uint64_t>(network.counters().bytes_read);
    EXPECT_GT(read, 3 * bytes / 2);  // all bytes except those of pairs that share only short ends
    EXPECT_LE(2 * read + copied_bytes(k), 3 * 2 * bytes);
  }
}

TEST(ExchangeReading, ShortRunsGoInPieces) {
  Network network;
  const auto from = Layout::parse("shape=600x600 grid=2x1 block=32x600"),
             to = Layout::parse("shape=600x600 grid=1x2 block=600x128 store=column");
  Coupling k(network, {{.name = "f", .type = core::ElementType::i64, .layout = from}},
             {{.name = "f", .type = core::ElementType::i64, .layout = to}}, 0);
  for (auto& end : k.out_ends) end->lets_read = true;
  std::vector<std::unique_ptr<Array>> given;
  one_step(k, 0, from, to, ordinary, given);
  EXPECT_EQ(network.counters().reads, 0);
  EXPECT_EQ(copied_bytes(k), 2u * 600 * 600 * 8);
}

TEST(ExchangeReading, UnregisteredMemoryGoesInMessages) {
  Network network;
  const auto layout = Layout::parse("shape=64x6400 grid=1x1");
  Coupling k(network, field("shape=64x6400 grid=1x1"), field("shape=64x6400 grid=1x1"), 0);
  k.out_ends[0]->lets_read = true;
  std::vector<std::unique_ptr<Array>> given;
  one_step(k, 0, layout, layout, ordinary, given);
  const auto reads = network.counters().reads;
  EXPECT_GT(reads, 0);
  k.out_ends[0]->refuses = true;
  one_step(k, 1, layout, layout, ordinary, given);
  EXPECT_EQ(network.counters().reads, reads);
}

TEST(ExchangeReading, ReusedAddressIsRegisteredAgain) {
  Network network;
  const auto layout = Layout::parse("shape=64x6400 grid=1x1");
  Coupling k(network, field("shape=64x6400 grid=1x1"), field("shape=64x6400 grid=1x1"), 0);
  k.out_ends[0]->lets_read = true;
  std::vector<std::unique_ptr<Array>> given;
  for (std::uint64_t step = 0; step < 4; ++step) {
    one_step(k, step, layout, layout, shared, given);
    given.clear();  // the next array probably gets the same address
  }
  EXPECT_EQ(k.out_ends[0]->registered, 4);
}

TEST(ExchangeReading, ReclaimedMemoryIsNotRead) {
  for (const auto memory : {ordinary, shared}) {
    Network network;
    Coupling k(network, field("shape=64x6400 grid=1x1"), field("shape=64x6400 grid=1x1"), 0);
    k.out_ends[0]->lets_read = true;
    Array data(64 * 6400, memory);
    k.outs[0]->put(0, 0, data.bytes(), false);
    k.outs[0]->send(0);
    soon(k, [&] { return k.ins[0]->poll_complete(); });
    k.outs[0]->take_back();  // before the consumer has read any of it
    std::ranges::fill(data.values(), 6);
    std::vector<std::int64_t> got(64 * 6400, -1);
    EXPECT_THROW(k.ins[0]->fetch_some(0, std::as_writable_bytes(std::span(got))), core::Error);
    EXPECT_EQ(got, std::vector<std::int64_t>(64 * 6400, -1));
  }
}

TEST(ExchangeReading, OnlyAllocatedMemoryStaysRegistered) {
  Network network;
  const auto layout = Layout::parse("shape=64x6400 grid=1x1");
  for (const auto memory : {ordinary, shared}) {
    Coupling k(network, field("shape=64x6400 grid=1x1"), field("shape=64x6400 grid=1x1"), 0);
    k.out_ends[0]->lets_read = true;
    std::vector<std::unique_ptr<Array>> given;
    for (std::uint64_t step = 0; step < 5; ++step) one_step(k, step, layout, layout, memory, given);
    EXPECT_EQ(k.out_ends[0]->registered, memory == shared ? 1 : 5);
  }
}

TEST(ExchangeLending, MessagesBetweenContiguousPartsAreNotCopied) {
  Network network;
  Coupling k(network, field("shape=300x100 grid=3x1"), field("shape=300x100 grid=2x1"), 0);
  std::vector<std::vector<std::int64_t>> parts;
  for (const Rank r : core::all_ranks(3)) {
    parts.push_back(part_of(Layout::parse("shape=300x100 grid=3x1"), r, [](Index g) { return g; }));
    k.outs[at(r)]->put(0, 0, std::as_bytes(std::span(parts.back())), false);
    k.outs[at(r)]->send(0);
  }
  for (const Rank r : core::all_ranks(2)) {
    auto& it = *k.ins[at(r)];
    const auto want =
        part_of(Layout::parse("shape=300x100 grid=2x1"), r, [](Index g) { return g; });
    std::vector<std::int64_t> got(want.size());
    soon(k, [&] { return it.poll_complete(); });
    soon(k, [&] { return it.fetch_some(0, std::as_writable_bytes(std::span(got))); });
    EXPECT_EQ(got, want);
    EXPECT_EQ(it.traffic().copied_bytes, 0u);
  }
  for (auto& out : k.outs) EXPECT_EQ(out->traffic().copied_bytes, 0u);
}

TEST(ExchangeLending, PartIsServedBeforeEarlierSendsComplete) {
  Network network;
  auto from = field("shape=1500x700 grid=1x1"), to = field("shape=1500x700 grid=1x1 store=column");
  from.push_back(from[0]);
  to.push_back(to[0]);
  from[1].name = to[1].name = "g";
  Coupling k(network, from, to, 0);
  k.out_ends[0]->late_looks = 3;
  std::vector<std::int64_t> data(1500 * 700), got(1500 * 700);
  for (std::uint64_t step = 0; step < 3; ++step) {
    for (std::size_t f = 0; f < 2; ++f)
      k.outs[0]->put(step, f, std::as_bytes(std::span(data)), false);
    k.outs[0]->send(step);
    soon(k, [&] { return k.ins[0]->poll_complete(); });
    for (std::size_t turn = 0; turn < 6; ++turn) {
      k.ins[0]->begin_again(turn % 2);
      // The producer rarely advances: between two advances the consumer takes the last pieces and
      // requests the next part.
      for (int i = 0; !k.ins[0]->fetch_some(turn % 2, std::as_writable_bytes(std::span(got)));
           ++i) {
        ASSERT_LT(i, 1000000);
        if (i % 50 == 49) k.outs[0]->advance();
      }
    }
    soon(k, [&] { return k.ins[0]->poll_finish(); });
    k.ins[0]->finish_step();
    soon(k, [&] { return k.outs[0]->poll_credit(step + 1); });
  }
}

TEST(ExchangeLending, LentMemoryIsTakenBackWithTheExchange) {
  Network network;
  Coupling k(network, field("shape=64x64 grid=1x1"), field("shape=64x64 grid=1x1"), 0, all);
  Array data(64 * 64, shared);
  std::ranges::fill(data.values(), 5);
  k.outs[0]->put(0, 0, data.bytes(), false);
  k.outs[0]->send(0);
  soon(k, [&] { return k.ins[0]->poll_complete(); });
  k.outs[0].reset();  // the consumer has not read it, and must not see later contents
  std::ranges::fill(data.values(), 6);
  std::vector<std::int64_t> got(64 * 64);
  ASSERT_TRUE(k.ins[0]->fetch_some(0, std::as_writable_bytes(std::span(got))));
  EXPECT_EQ(got, std::vector<std::int64_t>(64 * 64, 5));
}

TEST(ExchangeLending, AbandonedBufferIsNotWritten) {
  Network network;
  Coupling k(network, field("shape=64x64 grid=1x1"), field("shape=64x64 grid=1x1"), 0, all);
  const std::vector<std::int64_t> data(64 * 64, 5);
  k.outs[0]->put(0, 0, std::as_bytes(std::span(data)), false);
  k.outs[0]->send(0);
  soon(k, [&] { return k.ins[0]->poll_complete(); });
  Array got(64 * 64, shared);
  ASSERT_FALSE(k.ins[0]->fetch_some(0, got.bytes()));  // sends a request to fill the array
  k.ins[0]->give_up_fetching();
  // The array has been withdrawn.
  EXPECT_THROW(for (int i = 0; i < 10; ++i) k.outs[0]->advance(), core::Error);
  EXPECT_TRUE(std::ranges::all_of(got.values(), [](auto v) { return v == 0; }));
}

TEST(Exchange, DeliversAFieldToArraysOfBothKindsInTurn) {
  Network network;
  const auto both = field("shape=30x10 grid=1x1");
  Coupling k(network, both, both, /*queue_depth=*/0, all);
  const auto want = part_of(both[0].layout, Rank{0}, [](Index g) { return 3 * g; });
  k.outs[0]->put(0, 0, std::as_bytes(std::span(want)), false);
  k.outs[0]->send(0);
  soon(k, [&] { return k.ins[0]->poll_complete(); });
  for (const Memory memory : {shared, ordinary, shared, ordinary}) {
    Array got(want.size(), memory);
    k.ins[0]->begin_again(0);
    soon(k, [&] { return k.ins[0]->fetch_some(0, got.bytes()); });
    EXPECT_TRUE(std::ranges::equal(got.values(), want));
  }
  soon(k, [&] { return k.ins[0]->poll_finish(); });
  k.ins[0]->finish_step();
  soon(k, [&] { return k.outs[0]->poll_credit(1); });
}

}  // namespace
}  // namespace tremula::client
