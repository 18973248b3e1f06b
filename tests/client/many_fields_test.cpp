// SPDX-License-Identifier: Apache-2.0
// A stream of ten thousand fields: all sizes and types, among them fields with no element for a rank.
#include <algorithm>
#include <array>
#include <atomic>
#include <span>
#include <string>
#include <vector>

#include "tests/client/world.hpp"

namespace tremula::client {
namespace {

constexpr int fields = 10'000, steps = 3;

core::ElementType type_of(int f) {
  constexpr std::array types{core::ElementType::f64, core::ElementType::i32, core::ElementType::u8};
  return types[static_cast<std::size_t>(f) % types.size()];
}
/// Elements of 1 to 4096 bytes together, and one field of a mebibyte.
std::size_t extent(int f) {
  const std::size_t bytes = f == 5000 ? 1 << 20 : std::size_t{1} << (f % 13);
  return std::max<std::size_t>(1, bytes / core::element_bytes(type_of(f)));
}
proto::Field field(int f, Rank ranks) {
  return {.name = "field " + std::to_string(f),
          .type = type_of(f),
          .layout = index_calc::Layout::parse(fmt::format("shape={} grid={}", extent(f), ranks))};
}
std::byte byte_of(int step, int f, std::size_t i) {
  return std::byte((static_cast<std::size_t>(7 * step + 13 * f) + 3 * i) & 0xff);
}

/// Calls `visit(field, bytes of this rank's part, where they begin in the whole field)`.
void for_each_part(std::size_t ranks, std::size_t rank, std::vector<std::byte>& memory,
                   const auto& visit) {
  for (int f = 0; f < fields; ++f) {
    const std::size_t n = extent(f), each = (n + ranks - 1) / ranks,
                      begin = std::min(n, each * rank), end = std::min(n, begin + each),
                      bytes = core::element_bytes(type_of(f));
    memory.resize((end - begin) * bytes);
    visit(f, std::span(memory), begin * bytes);
  }
}

TEST(ManyFields, OfAllSizesGoInOneStream) {
  World world(8192, World::Way::local);
  world.step_timeout = 120;
  world.start(
      "producer", 2,
      [](Session& s) {
        OutStream out(s, "s", {});
        for (int f = 0; f < fields; ++f) out.declare(field(f, s.size()));
        std::vector<std::byte> memory;
        for (int step = 0; step < steps; ++step) {
          out.begin_step();
          for_each_part(std::size_t(s.size()), std::size_t(s.rank()), memory,
                        [&](int f, auto part, std::size_t begin) {
                          for (std::size_t i = 0; i < part.size(); ++i)
                            part[i] = byte_of(step, f, begin + i);
                          out.put(f, part);
                        });
          out.end_step();
        }
        out.close();
      },
      60);
  std::atomic<std::uint64_t> bytes = 0, wrong = 0;
  world.start(
      "consumer", 3,
      [&](Session& s) {
        InStream in(s, "s");
        for (int f = 0; f < fields; ++f) in.declare(field(f, s.size()));
        std::vector<std::byte> memory;
        for (int step = 0; in.begin_step(); ++step) {
          for_each_part(std::size_t(s.size()), std::size_t(s.rank()), memory,
                        [&](int f, auto part, std::size_t begin) {
                          in.get(f, part);
                          for (std::size_t i = 0; i < part.size(); ++i)
                            if (part[i] != byte_of(step, f, begin + i)) ++wrong;
                          bytes += part.size();
                        });
          in.end_step();
        }
        in.close();
      },
      60);
  EXPECT_EQ(text_of(world.join()), "");
  EXPECT_EQ(wrong, 0u);
  std::uint64_t whole = 0;
  for (int f = 0; f < fields; ++f) whole += extent(f) * core::element_bytes(type_of(f));
  EXPECT_EQ(bytes, steps * whole);
}

}  // namespace
}  // namespace tremula::client
