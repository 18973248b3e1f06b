// SPDX-License-Identifier: Apache-2.0
// Tests producers that prove the data that they send (session key `proof`), as an application sees them.
#include <algorithm>
#include <atomic>
#include <numeric>
#include <span>

#include "tests/client/world.hpp"
#include "transport/local/shared_memory.hpp"

namespace tremula::client {
namespace {

constexpr std::size_t extent = 50000;

proto::Field field(RankCount size, core::ElementType type = core::ElementType::i64) {
  return {
      .name = "a",
      .type = type,
      .layout = index_calc::Layout::parse(fmt::format("shape={} grid={} block=7", extent, size))};
}

struct ProvedWorld : World {
  explicit ProvedWorld(World::Way way) : World(0, way) { proof = true, check_lent = false; }
};

class Proof : public ::testing::TestWithParam<World::Way> {};
INSTANTIATE_TEST_SUITE_P(Transports, Proof,
                         ::testing::Values(World::Way::local, World::Way::loopback));

// 2 producer ranks and 3 consumer ranks store the elements in different places; only the element
// numbers are the same.
TEST_P(Proof, CountsBytesThatArriveUnchanged) {
  ProvedWorld world(GetParam());
  constexpr int steps = 3;
  world.start("producer", 2, [](Session& s) {
    OutStream out(s, "s", {.wait_for_consumers = 2});
    out.declare(field(2));
    std::vector<std::int64_t> part(
        static_cast<std::size_t>(local_part(field(2).layout, s.rank()).allocated));
    for (int step = 0; step < steps; ++step) {
      std::iota(part.begin(), part.end(), 1000 * step + s.rank().value);
      out.begin_step();
      out.put(0, std::as_bytes(std::span(part)));
      out.end_step();
    }
    out.close();
  });
  std::atomic<std::uint64_t> proved = 0, converted = 0;
  world.start("consumer", 3, [&](Session& s) {
    InStream in(s, "s");
    in.declare(field(3));
    std::vector<std::int64_t> part(
        static_cast<std::size_t>(local_part(field(3).layout, s.rank()).allocated));
    for (; in.begin_step(); in.end_step()) in.get(0, std::as_writable_bytes(std::span(part)));
    proved += in.statistics().traffic.proved_bytes;
    in.close();
  });
  world.start("converter", 1, [&](Session& s) {
    InStream in(s, "s");
    in.declare(field(1, core::ElementType::f64));
    std::vector<double> part(extent);
    for (; in.begin_step(); in.end_step()) in.get(0, std::as_writable_bytes(std::span(part)));
    converted += in.statistics().traffic.proved_bytes;
    in.close();
  });
  EXPECT_EQ(text_of(world.join()), "");
  EXPECT_EQ(proved, steps * extent * 8);
  EXPECT_EQ(converted, 0u) << "its bytes differ from those of the producer";
}

TEST(ProofOfLoans, NoticesAnArrayThatIsChangedWhileItIsLent) {
  ProvedWorld world(World::Way::local);
  std::atomic<bool> is_changed = false;
  world.start("producer", 1, [&](Session& s) {
    OutStream out(s, "s", {});
    out.declare(field(1));
    std::byte* const memory = transport::local::allocate(extent * 8);
    const std::span array(reinterpret_cast<std::int64_t*>(memory), extent);
    for (const int step : {0, 1}) {
      std::ranges::fill(array, step);
      out.begin_step();
      const auto request = out.put_async(0, std::as_bytes(array));
      out.end_step();
      if (step == 0) array[extent / 2] = 9;
      is_changed = true;
      out.wait_taken(request);
    }
    out.close();
    transport::local::deallocate(memory);
  });
  world.start("consumer", 1, [&](Session& s) {
    InStream in(s, "s");
    in.declare(field(1));
    std::vector<std::int64_t> a(extent);
    const auto get = [&] { in.get(0, std::as_writable_bytes(std::span(a))); };
    ASSERT_TRUE(in.begin_step());
    while (!is_changed) std::this_thread::yield();
    try {
      get();
      ADD_FAILURE() << "expected an error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::mismatch);
      const std::string text = error.what();
      EXPECT_NE(text.find("stream 's', step 0, field 'a': expected the 50000 elements of producer "
                          "rank 0 to have hash"),
                text.npos)
          << text;
      EXPECT_NE(text.find("path 'lent'"), text.npos) << text;
    }
    in.end_step();
    ASSERT_TRUE(in.begin_step());  // the stream continues
    EXPECT_NO_THROW(get());
    in.end_step();
    EXPECT_FALSE(in.begin_step());
    EXPECT_EQ(in.statistics().traffic.proved_bytes, extent * 8);
    in.close();
  });
  EXPECT_EQ(text_of(world.join()), "");
}

}  // namespace
}  // namespace tremula::client
