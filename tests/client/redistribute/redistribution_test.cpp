// SPDX-License-Identifier: Apache-2.0
// Tests redistributions inside one job, whose ranks are threads that reach each other over loopback.
// Every cell of every rank's buffers must match the oracle bit by bit. The number of bytes sent must
// match it as well.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <latch>
#include <thread>

#include "client/exchange/path/chunks.hpp"
#include "core/error.hpp"
#include "tests/client/redistribute/redistribution_job.hpp"
#include "tests/client/redistribution_case.hpp"
#include "tests/index_calc/skew/skewed_oracle.hpp"

namespace tremula::client::redistribute {
namespace {

using index_calc::Layout, testing::Case, testing::Job, testing::Random, testing::spans,
    testing::views;

/// Runs a random redistribution twice, over `paths`, and compares it with the oracle.
void expect_right(Random& random, bool are_near, Paths paths) {
  Job job(static_cast<RankCount>(random.in(1, 6)));
  const auto machines = static_cast<RankCount>(random.in(1, 3));
  const Case wanted(random, job.size(), testing::Copies::some);
  const auto failures = job.run([&](Rank me, transport::Endpoint& endpoint) {
    NearRings rings = are_near ? job.rings(me, std::to_string(me.value % machines)) : NearRings();
    Redistribution redistribution(wanted.updates, me, job.size(), {.validate = true},
                                  rings.near_ranks(), rings.machines(), {}, paths);
    const auto from = wanted.from(me), expected = wanted.to_after(me);
    for (int round = 0; round < 2; ++round) {
      auto to = wanted.to_before(me);
      testing::run(redistribution, endpoint, rings, views(from), spans(to),
                   core::Deadline::after(20));
      if (to != expected) throw std::runtime_error("wrong elements");
    }
    const auto& s = redistribution.statistics();
    EXPECT_EQ(s.runs, 2u);
    if (!wanted.has_copies()) {
      EXPECT_EQ(s.bytes_sent, 2 * wanted.bytes_sent(me));
    }
  });
  for (std::size_t r = 0; r < failures.size(); ++r)
    ASSERT_EQ(failures[r], "") << "rank " << r << "\n" << wanted.text();
}

TEST(Redistribution, MatchesTheOracle) {
  Random random;
  for (int i = 0; i < 300 && !HasFatalFailure(); ++i) expect_right(random, i % 2 == 1, all_paths());
}

std::vector<const Path*> without(std::string_view gone) {
  std::vector<const Path*> paths(all_paths().begin(), all_paths().end());
  EXPECT_EQ(std::erase_if(paths, [&](const Path* path) { return path->name() == gone; }), 1u);
  return paths;
}

TEST(Redistribution, WorksWithoutAnyOneOfThePaths) {
  Random random;
  for (const Path* const gone : all_paths()) {
    SCOPED_TRACE(fmt::format("without {}", gone->name()));
    const auto paths = without(gone->name());
    for (int i = 0; i < 12 && !HasFatalFailure(); ++i) expect_right(random, i % 2 == 1, paths);
  }
}

/// Returns the chunk size of the plan's message with `peer`; 0 if there is none.
std::size_t chunk_bytes(const ExchangePlan& plan, Rank peer) {
  const auto found = std::ranges::find(plan.messages, peer, &Message::peer);
  return found == plan.messages.end() ? 0 : found->near_chunk_bytes;
}

/// Checks that the plans of both ranks cut each message into the same chunks.
void expect_same_chunks(std::span<const Update> updates, RankCount size) {
  std::vector<std::unique_ptr<RedistributionPlan>> plans;
  for (const Rank me : core::all_ranks(size))
    plans.push_back(std::make_unique<RedistributionPlan>(updates, 0, me, size,
                                                         index_calc::PlanOptions{}, size));
  for (const Rank from : core::all_ranks(size))
    for (const Rank to : core::all_ranks(size))
      EXPECT_EQ(chunk_bytes(plans[core::at(from)]->source(), to),
                chunk_bytes(plans[core::at(to)]->sink(), from))
          << from.value << " to " << to.value;
}

TEST(Redistribution, CutsMessagesIntoTheSameChunksOnBothSides) {
  Random random;
  for (int i = 0; i < 300 && !HasFailure(); ++i) {
    const auto size = static_cast<RankCount>(random.in(1, 6));
    const Case wanted(random, size, testing::Copies::some);
    expect_same_chunks(wanted.updates, size);
    if (HasFailure()) ADD_FAILURE() << wanted.text();
  }
}

TEST(Redistribution, CutsSkewedMessagesAlikeOnBothSides) {
  Random random;
  for (int i = 0; i < 300 && !HasFailure(); ++i) {
    const std::vector<Index> shape{random.in(1, 40), random.in(1, 40)};
    const Layout skewed = index_calc::testing::random_skewed(random, shape, 6, false);
    if (!skewed.ranks().members.empty()) continue;  // some ranks of the job take no part
    const RankCount size = rank_count(skewed);
    const Layout blocks =
        Layout::parse(fmt::format("shape={}x{} grid={}x1 block=5x40", shape[0], shape[1], size));
    const bool is_source = random.one_in(2);
    const Update update{
        .from = is_source ? skewed : blocks,
        .to = is_source ? blocks : skewed,
        .transformation = {.from = core::ElementType::f64, .to = core::ElementType::f64}};
    expect_same_chunks({&update, 1}, size);
    if (HasFailure()) ADD_FAILURE() << to_string(update.from) << " to " << to_string(update.to);
  }
}

TEST(Redistribution, CutsChunksAtTheEndsOfRowsAndPlanes) {
  const auto chunk_and = [](const char* from, const char* to, std::size_t dimensions,
                            auto&& check) {
    const Update update{
        .from = Layout::parse(from),
        .to = Layout::parse(to),
        .transformation = {.from = core::ElementType::f64, .to = core::ElementType::f64}};
    const RedistributionPlan plan(std::span(&update, 1), 0, Rank{0}, 4, {}, 4);
    EXPECT_FALSE(plan.source().messages.empty());
    for (const Message& message : plan.source().messages) {
      std::size_t bytes = 8;  // bytes of a row or plane
      for (std::size_t d = message.parts.at(0).package->dimensions - dimensions;
           d < message.parts[0].package->dimensions; ++d)
        bytes *= static_cast<std::size_t>(message.parts[0].package->along[d].elements());
      check(message.near_chunk_bytes, bytes);
    }
  };
  const auto whole = [](std::size_t chunk, std::size_t unit) {
    EXPECT_EQ(chunk % unit, 0U) << chunk << ", units of " << unit;
    EXPECT_GE(chunk, 4 * unit);
  };
  chunk_and("shape=8000x8000 grid=2x2 block=32x32", "shape=8000x8000 grid=2x2 block=128x128", 1,
            whole);
  chunk_and("shape=100x60x60 grid=4x1x1", "shape=100x60x60 grid=1x2x2", 2, whole);
  // A chunk has room for one and a half rows of 160,000 bytes: a single row would be a short chunk.
  chunk_and("shape=400x40000 grid=4x1", "shape=400x40000 grid=2x2 block=20x20000", 1,
            [](std::size_t chunk, std::size_t row) {
              EXPECT_GT(chunk, row);
              EXPECT_NE(chunk % row, 0U);
            });
}

TEST(Redistribution, GivesEveryChunkRoomForAnElement) {
  Random random;
  constexpr auto widest = static_cast<Index>(core::max_opaque_bytes);
  for (int i = 0; i < 300 && !HasFailure(); ++i) {
    std::vector<Update> updates;
    std::string text;
    for (Index arrays = random.in(2, 4); arrays > 0; --arrays) {
      // Either rows of 8-byte elements, of any length, or a few elements of any width.
      const bool is_wide = random.one_in(2);
      const auto type = is_wide ? core::opaque(static_cast<std::size_t>(
                                      random.in(random.one_in(2) ? widest - 4096 : 1, widest)))
                                : core::ElementType::f64;
      const Index rows = is_wide ? random.in(1, 5) : random.in(1, 300);
      const std::string shape =
          fmt::format("shape={}x{} grid=1", 2 * rows, random.in(1, is_wide ? 2 : 400));
      updates.push_back({.from = Layout::parse(shape + "x1 members=0"),
                         .to = Layout::parse(shape + "x1 members=1"),
                         .transformation = {.from = type, .to = type}});
      text += shape + " " + core::to_string(type) + "\n";
    }
    const RedistributionPlan plan(updates, 0, Rank{0}, 64, {}, 64);
    for (const Message& message : plan.source().messages)
      for (const std::size_t most : {message.near_chunk_bytes, plan.source().far_chunk_bytes}) {
        std::size_t bytes = 0;
        for (Chunks chunks(message, {0, message.parts.size()}, most); !chunks.is_at_end();) {
          const Chunk chunk = chunks.next();
          ASSERT_GT(chunk.end, chunk.begin) << text;
          ASSERT_LE(chunk.bytes(), most) << text;
          for (std::size_t p = chunk.first; p <= chunk.last; ++p)
            bytes += std::min(message.parts[p].offset + message.parts[p].bytes, chunk.end) -
                     std::max(message.parts[p].offset, chunk.begin);
        }
        ASSERT_EQ(bytes, message.parts_bytes) << text;
      }
  }
}

TEST(Redistribution, SizesItsRingsByTheRanksOfAMachine) {
  const auto bytes_of = [](RankCount ranks, RankCount on_a_machine) {
    Job job(ranks);
    std::vector<std::size_t> bytes(static_cast<std::size_t>(ranks));
    const auto failures = job.run([&](Rank me, transport::Endpoint&) {
      NearRings rings = job.rings(me, std::to_string(me.value / on_a_machine));
      bytes[core::at(me)] = rings.memory_bytes();
      EXPECT_EQ(rings.near_ranks(), on_a_machine);
      for (const Rank peer : core::all_ranks(ranks)) {
        const bool is_near = peer != me && peer.value / on_a_machine == me.value / on_a_machine;
        EXPECT_EQ(rings.to(peer) != nullptr, is_near) << me.value << " to " << peer.value;
        EXPECT_EQ(rings.from(peer) != nullptr, is_near) << peer.value << " to " << me.value;
      }
    });
    EXPECT_EQ(failures, std::vector<std::string>(bytes.size()));
    return bytes;
  };
  const auto two = bytes_of(2, 2);  // one ring of two slots of 1 MiB
  EXPECT_GT(two[0], std::size_t{2} << 20);
  EXPECT_LT(two[0], std::size_t{3} << 20);
  EXPECT_EQ(bytes_of(12, 2), std::vector<std::size_t>(12, two[0]));
  EXPECT_EQ(bytes_of(12, 3), std::vector<std::size_t>(12, bytes_of(3, 3)[0]));
  EXPECT_EQ(bytes_of(4, 1), std::vector<std::size_t>(4, 0));
}

Layout parse(const char* text) { return Layout::parse(text); }

/// Rows on `ranks` ranks become columns on the same number of ranks, in segments of `segment` bytes.
struct Cut {
  bool is_near;
  RankCount ranks;
  Index rows, columns;
  std::size_t segment;
};
class CutMessages : public ::testing::TestWithParam<Cut> {};
// The third case has 256 bytes for each of 2500 columns. The last case has one slot for each peer.
INSTANTIATE_TEST_SUITE_P(Redistribution, CutMessages,
                         ::testing::Values(Cut{false, 2, 2500, 1000, 1 << 20},
                                           Cut{true, 2, 2500, 1000, 1 << 19},
                                           Cut{true, 2, 2500, 5000, 640'000},
                                           Cut{true, 9, 2700, 2700, (1 << 20) / 9}),
                         [](const auto& cut) {
                           return (cut.param.is_near ? "near" : "far") +
                                  std::to_string(cut.param.ranks) + "x" +
                                  std::to_string(cut.param.columns);
                         });

TEST_P(CutMessages, GoInSegments) {
  const auto& [is_near, ranks, all_rows, all_columns, segment] = GetParam();
  Job job(ranks);
  const std::string shape = fmt::format("shape={}x{} ", all_rows, all_columns);
  const Update update{.from = Layout::parse(fmt::format("{}grid={}x1", shape, ranks)),
                      .to = Layout::parse(fmt::format("{}grid=1x{} store=column", shape, ranks))};
  const Index rows = all_rows / ranks, columns = all_columns / ranks;
  const auto message = static_cast<std::size_t>(rows * columns * 8);
  const auto failures = job.run([&](Rank me, transport::Endpoint& endpoint) {
    const auto number = [&](Index i, Index j) { return static_cast<double>(i * all_columns + j); };
    Redistribution redistribution({&update, 1}, me, ranks);
    std::vector<std::vector<std::byte>> from(1), to(1);
    from[0].resize(static_cast<std::size_t>(rows * all_columns * 8));
    to[0].resize(static_cast<std::size_t>(all_rows * columns * 8));
    for (Index i = 0; i < rows; ++i)
      for (Index j = 0; j < all_columns; ++j) {
        const double value = number(me.value * rows + i, j);
        std::memcpy(from[0].data() + (i * all_columns + j) * 8, &value, 8);
      }
    NearRings rings = is_near ? job.rings(me) : NearRings();
    testing::run(redistribution, endpoint, rings, views(from), spans(to),
                 core::Deadline::after(20));
    for (Index j = 0; j < columns; ++j)
      for (Index i = 0; i < all_rows; ++i) {
        double value = 0;
        std::memcpy(&value, to[0].data() + (j * all_rows + i) * 8, 8);
        if (value != number(i, me.value * columns + j)) throw std::runtime_error("a wrong element");
      }
    const auto& s = redistribution.statistics();
    const auto peers = static_cast<std::size_t>(ranks - 1);
    EXPECT_EQ(s.bytes_sent, peers * message);
    EXPECT_EQ(s.messages_sent, peers * ((message + segment - 1) / segment));
  });
  EXPECT_EQ(failures, std::vector<std::string>(static_cast<std::size_t>(ranks)));
}

TEST(Redistribution, SendsOneMessageAndCopiesNoContiguousPart) {
  Job job(2);
  const std::vector<Update> updates(
      3, {.from = parse("shape=8x8 grid=2x1"), .to = parse("shape=8x8 grid=2x1 members=1/0")});
  const auto failures = job.run([&](Rank me, transport::Endpoint& endpoint) {
    Redistribution batch(updates, me, 2), single({updates.data(), 1}, me, 2);
    std::vector<std::vector<std::byte>> from(3, std::vector<std::byte>(256)), to = from;
    testing::run(batch, endpoint, views(from), spans(to), core::Deadline::after(20));
    EXPECT_EQ(batch.statistics().messages_sent, 1u);
    EXPECT_EQ(batch.statistics().bytes_sent, 3 * 256u);
    from.resize(1), to.resize(1);
    testing::run(single, endpoint, views(from), spans(to), core::Deadline::after(20));
    EXPECT_EQ(single.statistics().messages_sent, 1u);
    EXPECT_EQ(single.statistics().copied_bytes, 0u);
  });
  EXPECT_EQ(failures, std::vector<std::string>(2));
}

class MissingRank : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Redistribution, MissingRank, ::testing::Bool(),
                         [](const auto& is_near) { return is_near.param ? "near" : "far"; });

TEST_P(MissingRank, IsNamedInTheError) {
  const bool is_near = GetParam();
  Job job(3);
  const Update update{.from = parse("shape=9 grid=3 block=1"), .to = parse("shape=9 grid=3")};
  std::latch done(2);
  const auto failures = job.run([&](Rank me, transport::Endpoint& endpoint) {
    NearRings rings = is_near ? job.rings(me) : NearRings();
    if (me == Rank{1}) return done.wait();
    Redistribution redistribution({&update, 1}, me, 3);
    std::vector<std::vector<std::byte>> from{std::vector<std::byte>(24)}, to = from;
    const auto run = [&] {
      testing::run(redistribution, endpoint, rings, views(from), spans(to),
                   core::Deadline::after(0.2));
    };
    std::string complaint;
    try {
      run();
    } catch (const core::Error& e) {
      EXPECT_EQ(e.code(), core::Errc::timed_out);
      complaint = e.what();
    }
    EXPECT_NE(complaint.find("data missing from ranks: 1;"), std::string::npos) << complaint;
    EXPECT_THROW(run(), core::Error);  // an earlier run has failed
    done.count_down();
  });
  EXPECT_EQ(failures, std::vector<std::string>(3));
}

TEST(Redistribution, NoticesANearRankThatHasLeft) {
  Job job(2);
  const Update update{.from = parse("shape=2 grid=2"), .to = parse("shape=2 grid=2 members=1/0")};
  const auto failures = job.run([&](Rank me, transport::Endpoint& endpoint) {
    NearRings rings = job.rings(me);
    if (me == Rank{1}) return;
    Redistribution redistribution({&update, 1}, me, 2);
    std::vector<std::vector<std::byte>> from{std::vector<std::byte>(8)}, to = from;
    testing::run(redistribution, endpoint, rings, views(from), spans(to),
                 core::Deadline::after(100));
  });
  EXPECT_NE(failures[0].find("expected rank 1 to take part"), std::string::npos) << failures[0];
}

TEST(Redistribution, ManyTakeNoMoreStagingThanOne) {
  Job job(2);
  const auto failures = job.run([&](Rank me, transport::Endpoint& endpoint) {
    NearRings none;
    ChunkPool staging;
    std::vector<std::unique_ptr<Redistribution>> kept;
    // One segment of short runs goes to the other rank: 1536 of 3072 rows, with 64 columns or
    // fewer.
    constexpr std::size_t segment = std::size_t{1536} * 64 * 8;
    for (Index columns = 64; columns > 48; --columns) {
      const std::string shape = "shape=6144x" + std::to_string(columns);
      const Update update{.from = Layout::parse(shape + " grid=2x1 block=3x64"),
                          .to = Layout::parse(shape + " grid=2x1 block=2x64 store=column")};
      kept.push_back(std::make_unique<Redistribution>(std::span(&update, 1), me, 2));
      const auto bytes = static_cast<std::size_t>(6144 / 2 * columns) * 8;
      std::vector<std::vector<std::byte>> from(1, std::vector<std::byte>(bytes)), to = from;
      kept.back()->run(endpoint, none, staging, views(from), spans(to), core::Deadline::after(20));
    }
    EXPECT_GE(staging.bytes(), segment);
    EXPECT_LE(staging.bytes(), 2 * segment);  // one outgoing, one incoming
  });
  EXPECT_EQ(failures, std::vector<std::string>(2));
}

TEST(Redistribution, TakesDataFromARankThatHasLeft) {
  Job job(2);
  const Update update{.from = parse("shape=2 grid=1 members=0"),
                      .to = parse("shape=2 grid=1 members=1")};
  const auto failures = job.run([&](Rank me, transport::Endpoint& endpoint) {
    std::vector<std::vector<std::byte>> from{std::vector<std::byte>(16, std::byte{7})}, to;
    to.emplace_back(16);
    NearRings rings = job.rings(me);
    if (me == Rank{1}) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    Redistribution redistribution({&update, 1}, me, 2);
    testing::run(redistribution, endpoint, rings, views(from), spans(to),
                 core::Deadline::after(20));
    EXPECT_TRUE(me == Rank{0} || to == from);
  });
  EXPECT_EQ(failures, std::vector<std::string>(2));
}

TEST(Redistribution, ContinuesAfterAValueThatDoesNotFit) {
  Job job(2);
  const Update update{
      .from = parse("shape=4 grid=2"),
      .to = parse("shape=4 grid=2 members=1/0"),
      .transformation = {.from = core::ElementType::i16, .to = core::ElementType::i8}};
  const auto failures = job.run([&](Rank me, transport::Endpoint& endpoint) {
    Redistribution redistribution({&update, 1}, me, 2);
    std::vector<std::vector<std::byte>> from{std::vector<std::byte>(4)},
        to{std::vector<std::byte>(2)};
    const auto run = [&] {
      testing::run(redistribution, endpoint, views(from), spans(to), core::Deadline::after(20));
    };
    from[0][1] = std::byte{me == Rank{0}};  // 256
    if (me == Rank{1})
      EXPECT_THROW(run(), core::Error);
    else
      run();
    from[0][1] = std::byte{0};
    from[0][0] = std::byte{5};
    run();
    EXPECT_EQ(to[0][0], std::byte{5});
  });
  EXPECT_EQ(failures, std::vector<std::string>(2));
}

TEST(Redistribution, ContinuesAfterAScaledValueDoesNotFit) {
  Job job(2);
  const Layout straight = parse("shape=2 grid=2"), crossed = parse("shape=2 grid=2 members=1/0");
  using core::ElementType;
  const std::vector<Update> updates{
      {.from = straight,
       .to = straight,
       .transformation = {.from = ElementType::i8, .to = ElementType::i8, .alpha = 0, .beta = 2}},
      {.from = straight,
       .to = crossed,
       .transformation = {.from = ElementType::i8, .to = ElementType::i8}}};
  const auto failures = job.run([&](Rank me, transport::Endpoint& endpoint) {
    Redistribution redistribution(updates, me, 2);
    NearRings rings = job.rings(me);
    for (int round = 0; round < 2; ++round) {
      const bool fits = round == 1 || me == Rank{1};
      std::vector<std::vector<std::byte>> from(2, {std::byte(10 * round + me.value)}),
          to(2, {std::byte(fits ? 3 : 100)});
      const auto run = [&] {
        testing::run(redistribution, endpoint, rings, views(from), spans(to),
                     core::Deadline::after(20));
      };
      if (fits)
        run();
      else
        EXPECT_THROW(run(), core::Error);
      EXPECT_EQ(to[1][0], std::byte(10 * round + 1 - me.value));
      EXPECT_TRUE(!fits || to[0][0] == std::byte{6});
    }
  });
  EXPECT_EQ(failures, std::vector<std::string>(2));
}

/// Returns the errors of the two ranks of a job, each of which runs updates[rank]; "" for a rank
/// without an error.
std::vector<std::string> complaints(const std::vector<Update>& updates, bool are_near,
                                    Paths paths) {
  Job job(2);
  return job.run([&](Rank me, transport::Endpoint& endpoint) {
    Redistribution first({&updates[core::at(me)], 1}, me, 2, {}, 0, {}, {}, paths);
    NearRings rings = are_near ? job.rings(me) : NearRings();
    std::vector<std::vector<std::byte>> from(1, std::vector<std::byte>(64)), to = from;
    const auto run = [&] {
      testing::run(first, endpoint, rings, views(from), spans(to), core::Deadline::after(2));
    };
    try {
      run();
    } catch (const core::Error&) {
      EXPECT_TRUE(first.has_failed());
      throw;
    }
  });
}

TEST(Redistribution, NoticesARankInADifferentCall) {
  const Update swap{.from = parse("shape=2 grid=2"), .to = parse("shape=2 grid=2 members=1/0")};
  Update rows{.from = parse("shape=4x4 grid=2x1"), .to = parse("shape=4x4 grid=1x2")};
  Update columns = rows;  // the same number of bytes to and from each rank, in another order
  columns.from = parse("shape=4x4 grid=2x1 store=column");
  const auto expect_noticed = [&](bool are_near, Paths paths) {
    EXPECT_EQ(complaints({swap, swap}, are_near, paths), std::vector<std::string>(2));
    for (const std::string& complaint : complaints({rows, columns}, are_near, paths))
      EXPECT_NE(complaint.find("the same calls"), std::string::npos)
          << (are_near ? "near: " : "far: ") << complaint;
  };
  for (const bool are_near : {true, false}) {
    expect_noticed(are_near, all_paths());
    expect_noticed(are_near, without(are_near ? "ring" : "on demand"));
  }
}

/// Rank 0 passes a buffer that is too small; then all ranks pass buffers of the right size.
TEST(Redistribution, EndsForPeersOfARankThatRefusesItsBuffer) {
  const std::vector<Update> updates{
      {.from = parse("shape=6x6 grid=3x1"), .to = parse("shape=6x6 grid=1x3")},
      {.from = parse("shape=6 grid=3"),
       .to = parse("shape=6 mesh=3"),
       .transformation = {.alpha = 2, .beta = 1}}};
  const auto expect_right = [&](bool are_near, Paths paths, bool is_from) {
    Job job(3);
    const auto failures = job.run([&](Rank me, transport::Endpoint& endpoint) {
      NearRings rings = are_near ? job.rings(me) : NearRings();
      Redistribution redistribution(updates, me, 3, {}, rings.near_ranks(), rings.machines(), {},
                                    paths);
      std::vector<std::vector<std::byte>> to{std::vector<std::byte>(96, std::byte{1}),
                                             std::vector<std::byte>(48)};
      const std::vector<double> summands(2, 1.0);
      for (int round = 0; round < 4; ++round) {
        std::vector<std::vector<std::byte>> from{
            std::vector<std::byte>(96, std::byte(16 + me.value)), std::vector<std::byte>(16)};
        std::memcpy(from[1].data(), summands.data(), 16);
        const bool is_refused = round % 2 == 0;
        if (is_refused && me == Rank{0}) (is_from ? from : to)[0].resize(95);
        const auto untouched = to;
        std::string text;
        try {
          testing::run(redistribution, endpoint, rings, views(from), spans(to),
                       core::Deadline::after(100));
        } catch (const core::Error& e) {
          // After invalid_argument a caller may add to the same `to` again.
          EXPECT_EQ(e.code(), me == Rank{0} ? core::Errc::invalid_argument : core::Errc::mismatch)
              << e.what();
          text = e.what();
        }
        EXPECT_FALSE(redistribution.has_failed());
        EXPECT_NE(text.find(!is_refused     ? ""
                            : me == Rank{0} ? "for array 0, found 95 bytes"
                                            : "that rank 0 has refused its own"),
                  std::string::npos)
            << text;
        EXPECT_EQ(text.empty(), !is_refused);
        if (is_refused) {
          EXPECT_TRUE(me != Rank{0} || to == untouched);
          to[0].resize(96);
          continue;
        }
        std::vector<double> sums(6);
        std::memcpy(sums.data(), to[1].data(), 48);
        if (me == Rank{0}) {
          EXPECT_EQ(sums, std::vector<double>(6, round + 1.0)) << "expected one sum per good round";
        }
        for (std::size_t i = 0; i < 96; ++i)  // two columns of each rank's two rows
          ASSERT_EQ(to[0][i], std::byte(16 + static_cast<int>(i) / 32)) << i;
      }
    });
    EXPECT_EQ(failures, std::vector<std::string>(3));
  };
  for (const bool are_near : {true, false})
    for (const bool is_from : {true, false}) {
      expect_right(are_near, all_paths(), is_from);
      expect_right(are_near, without(are_near ? "ring" : "on demand"), is_from);
    }
}

/// Messages are longer than a chunk of any path.
TEST(Redistribution, UsesSeveralChunksOnTheOtherPath) {
  constexpr Index n = 1 << 19;  // elements of 8 bytes for each rank
  const Update swap{.from = Layout::parse(fmt::format("shape={} grid=2", 2 * n)),
                    .to = Layout::parse(fmt::format("shape={} grid=2 members=1/0", 2 * n))};
  for (const bool are_near : {true, false}) {
    const auto paths = without(are_near ? "ring" : "on demand");
    Job job(2);
    const auto failures = job.run([&](Rank me, transport::Endpoint& endpoint) {
      NearRings rings = are_near ? job.rings(me) : NearRings();
      Redistribution redistribution({&swap, 1}, me, 2, {}, rings.near_ranks(), rings.machines(), {},
                                    paths);
      std::vector<std::int64_t> from(n), to(n), expected(n);
      for (Index i = 0; i < n; ++i) {
        from[static_cast<std::size_t>(i)] = me.value * n + i;
        expected[static_cast<std::size_t>(i)] = (1 - me.value) * n + i;
      }
      const ConstMemoryView source = std::as_bytes(std::span(from));
      const MemoryView sink = std::as_writable_bytes(std::span(to));
      testing::run(redistribution, endpoint, rings, {&source, 1}, {&sink, 1},
                   core::Deadline::after(20));
      if (to != expected) throw std::runtime_error("wrong elements");
      EXPECT_GT(redistribution.statistics().messages_sent, 1u) << "expected several chunks";
    });
    EXPECT_EQ(failures, std::vector<std::string>(2));
  }
}

/// Returns the error of planning or running `update` in a job of one rank; "" if there is none.
std::string refusal(const Update& update, std::size_t from_bytes = 1 << 10,
                    std::size_t to_bytes = 1 << 10) {
  Job job(1);
  return job.run([&](Rank me, transport::Endpoint& endpoint) {
    Redistribution redistribution({&update, 1}, me, 1);
    std::vector<std::vector<std::byte>> from{std::vector<std::byte>(from_bytes)},
        to{std::vector<std::byte>(to_bytes)};
    testing::run(redistribution, endpoint, views(from), spans(to), core::Deadline::after(5));
  })[0];
}

TEST(Redistribution, RefusesInvalidUpdatesAndBuffers) {
  const Layout a = parse("shape=4x3 grid=1x1"), b = parse("shape=3x4 grid=1x1");
  EXPECT_EQ(refusal({.from = a, .to = a}), "");
  EXPECT_NE(refusal({.from = a, .to = b}), "");
  EXPECT_EQ(refusal({.from = a, .to = b, .axes = {1, 0}}), "");
  EXPECT_NE(refusal({.from = a, .to = a, .axes = {0, 0}}), "");
  EXPECT_NE(refusal({.from = a, .to = a, .axes = {0}}), "");
  EXPECT_NE(refusal({.from = a, .to = a, .axes = {0, 2}}), "");
  EXPECT_NE(refusal({.from = a, .to = parse("shape=4x3 grid=1x2")}), "");  // more than one rank
  EXPECT_NE(refusal({.from = a, .to = a}, 95), "");
  EXPECT_NE(refusal({.from = a, .to = a}, 96, 95), "");
  EXPECT_NE(refusal({.from = a, .to = a, .of_from = testing::Selection{{2, 0}, {3, 3}}}), "");
  EXPECT_NE(refusal({.from = a, .to = a, .of_from = testing::Selection{{2, 0}, {2, 3}}}), "");
  Job job(1);
  const Update update{.from = a, .to = a};
  const auto failure = job.run([&](Rank me, transport::Endpoint& endpoint) {
    Redistribution redistribution({&update, 1}, me, 1);
    std::vector<std::byte> buffer(150);
    const std::vector<ConstMemoryView> from{core::BytesView(buffer).first(96)};
    const std::vector<MemoryView> to{std::span(buffer).subspan(54)};
    testing::run(redistribution, endpoint, from, to, core::Deadline::after(5));
  })[0];
  EXPECT_NE(failure.find("overlap"), std::string::npos) << failure;
  const auto of_device = job.run([&](Rank me, transport::Endpoint& endpoint) {
    Redistribution redistribution({&update, 1}, me, 1);
    std::vector<std::byte> from(96), to(96);
    const ConstMemoryView source(from);
    const MemoryView sink{std::span(to), MemorySpace::device, 3};
    testing::run(redistribution, endpoint, {&source, 1}, {&sink, 1}, core::Deadline::after(5));
  })[0];
  EXPECT_NE(of_device.find("found one on device 3"), std::string::npos) << of_device;
}

/// Checks sums over four layers, one per rank, of numbers whose partial sums exceed the type's range.
template <class T>
void expect_sums(Random& random, core::ElementType type) {
  __extension__ using Wide = __int128;
  using Limits = std::numeric_limits<T>;
  constexpr RankCount layers = 4;
  constexpr Index count = 40;
  Job job(layers);
  const Update update{.from = parse("shape=40 mesh=4 sum=0"),
                      .to = parse("shape=40 grid=1 members=0"),
                      .transformation = {.from = type, .to = type}};
  std::vector<std::vector<T>> summands(layers);
  for (auto& of_layer : summands)
    for (Index i = 0; i < count; ++i)
      of_layer.push_back(random.one_in(3)   ? Limits::max()
                         : random.one_in(2) ? Limits::min()
                                            : static_cast<T>(random.in(0, 100)));
  std::vector<Wide> sums(count);
  int unfit = 0;
  for (std::size_t i = 0; i < count; ++i) {
    for (const auto& of_layer : summands) sums[i] += of_layer[i];
    unfit += sums[i] < Limits::min() || sums[i] > Limits::max() ? 1 : 0;
  }
  const auto failures = job.run([&](Rank me, transport::Endpoint& endpoint) {
    NearRings rings = job.rings(me);
    Redistribution redistribution({&update, 1}, me, layers);
    for (int round = 0; round < 2; ++round) {
      const auto bytes = std::as_bytes(std::span(summands[core::at(me)]));
      std::vector<std::vector<std::byte>> from{{bytes.begin(), bytes.end()}},
          to{std::vector<std::byte>(me == Rank{0} ? bytes.size() : 0, std::byte{1})};
      std::string text;
      try {
        testing::run(redistribution, endpoint, rings, views(from), spans(to),
                     core::Deadline::after(100));
      } catch (const core::Error& e) {
        EXPECT_EQ(e.code(), core::Errc::mismatch) << e.what();
        text = e.what();
      }
      EXPECT_EQ(text.empty(), me != Rank{0} || unfit == 0) << text;
      if (!text.empty()) {
        EXPECT_NE(
            text.find(fmt::format("found {} made of {} that do not", unfit, core::to_string(type))),
            std::string::npos)
            << text;
      }
      for (std::size_t i = 0; i < count && me == Rank{0}; ++i) {
        T found{};
        std::memcpy(&found, to[0].data() + i * sizeof(T), sizeof(T));
        if (sums[i] >= Limits::min() && sums[i] <= Limits::max()) {
          EXPECT_TRUE(Wide{found} == sums[i]) << i;
        }
      }
    }
  });
  EXPECT_EQ(failures, std::vector<std::string>(layers));
}

TEST(Redistribution, ChecksIntegerSumsAfterTheLastSummand) {
  using core::ElementType;
  Random random;
  for (int i = 0; i < 5; ++i) {
    expect_sums<std::int8_t>(random, ElementType::i8);
    expect_sums<std::uint16_t>(random, ElementType::u16);
    expect_sums<std::int32_t>(random, ElementType::i32);
    expect_sums<std::int64_t>(random, ElementType::i64);
    expect_sums<std::uint64_t>(random, ElementType::u64);
  }
  // 127 + 127 - 127
  const Update update{.from = parse("shape=4 mesh=3 sum=0"),
                      .to = parse("shape=4 mesh=3"),
                      .transformation = {.from = ElementType::i8, .to = ElementType::i8}};
  Job job(3);
  const auto failures = job.run([&](Rank me, transport::Endpoint& endpoint) {
    Redistribution redistribution({&update, 1}, me, 3);
    std::vector<std::vector<std::byte>> from(
        1, std::vector<std::byte>(4, std::byte(me.value < 2 ? 127 : -127))),
        to = from;
    testing::run(redistribution, endpoint, views(from), spans(to), core::Deadline::after(100));
    EXPECT_EQ(to[0], std::vector<std::byte>(4, std::byte{127}));
  });
  EXPECT_EQ(failures, std::vector<std::string>(3));
}

TEST(Redistribution, RefusesToAddUpOpaqueElements) {
  const Layout whole = parse("shape=8 grid=2"), sums = parse("shape=8 mesh=2 sum=0");
  const auto type = core::opaque(16);
  for (const auto& [from, to] : {std::pair{whole, sums}, {sums, whole}, {sums, sums}}) {
    const Update update{.from = from, .to = to, .transformation = {.from = type, .to = type}};
    for (const Rank me : core::all_ranks(2)) try {
        const Redistribution made({&update, 1}, me, 2);
        ADD_FAILURE() << "expected an error: " << to_string(from) << " to " << to_string(to);
      } catch (const core::Error& e) {
        EXPECT_EQ(e.code(), core::Errc::unsupported);
        EXPECT_STREQ(e.what(),
                     "expected elements that can be added up where ranks hold partial sums (sum=), "
                     "found opaque16 and \"shape=8 mesh=2 sum=0\": leave sum out");
      }
  }
}

}  // namespace
}  // namespace tremula::client::redistribute
