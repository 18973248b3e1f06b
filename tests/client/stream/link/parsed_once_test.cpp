// SPDX-License-Identifier: Apache-2.0
// Counts how often the set-up of a stream parses and prints layouts as text. The server, the producer and
// the consumer are in this process.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "client/stream/in_stream.hpp"
#include "client/stream/out_stream.hpp"
#include "tests/client/world.hpp"
#include "tests/index_calc/count_texts.hpp"

namespace tremula::client {
namespace {

using index_calc::Layout;
using testing_only::parsed_layouts, testing_only::printed_layouts;

constexpr int fields = 5;

proto::Field field(int number, const Layout& layout) {
  return {.name = fmt::format("f{}", number), .type = core::ElementType::f64, .layout = layout};
}

TEST(ParsedOnce, LayoutsAreParsedOnceInEachProcess) {
  const Layout from = Layout::parse("shape=24x10 grid=1x1"),
               to = Layout::parse("shape=24x10 grid=1x1 block=2x2");
  const long parsed_before = parsed_layouts(), printed_before = printed_layouts();
  World world;
  world.start("producer", 1, [&](Session& s) {
    OutStream out(s, "s", {});
    for (int f = 0; f < fields; ++f) out.declare(field(f, from));
    const std::vector<double> data(240, 1.0);
    out.begin_step();
    for (int f = 0; f < fields; ++f) out.put(f, std::as_bytes(std::span(data)));
    out.end_step();
    out.close();
  });
  world.start("consumer", 1, [&](Session& s) {
    InStream in(s, "s");
    for (int f = 0; f < fields; ++f) in.declare(field(f, to));
    std::vector<double> data(240);
    ASSERT_TRUE(in.begin_step());
    for (int f = 0; f < fields; ++f) in.get(f, std::as_writable_bytes(std::span(data)));
    in.end_step();
    EXPECT_FALSE(in.begin_step());
    in.close();
  });
  EXPECT_EQ(text_of(world.join()), "");
  // The server parses the layouts of both groups; each group parses those of the other group.
  EXPECT_EQ(parsed_layouts() - parsed_before, 4 * fields);
  EXPECT_LE(printed_layouts() - printed_before, 2 * fields);
  RecordProperty("printed", static_cast<int>(printed_layouts() - printed_before));
}

}  // namespace
}  // namespace tremula::client
