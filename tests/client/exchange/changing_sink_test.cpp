// SPDX-License-Identifier: Apache-2.0
// Tests that the sink of changing fields refuses counts that no memory holds.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "client/exchange/changing.hpp"
#include "client/stream/link/link_plan.hpp"
#include "tests/core/error_of.hpp"

namespace tremula::client {
namespace {

// The three fields have 2^64 bytes together, which is 0 in 64 bits, as announced.
TEST(ChangingSink, RefusesCountsWhoseBytesExceed64Bits) {
  const auto layout = index_calc::Layout::parse("shape=* grid=1");
  std::vector<proto::Field> fields;
  for (const char* const name : {"a", "b", "c"})
    fields.push_back({.name = name, .type = core::ElementType::f64, .layout = layout});
  index_calc::PlanCache cache;
  const ExchangePlan plan =
      plan_exchange(fields, fields, transport::Side::consumer, Rank{0}, 1, 1, cache, {});
  CopyThreads threads(1);
  Mismatch mismatch;
  ChangingSink sink(plan, threads, mismatch);
  constexpr std::uint64_t most = (std::uint64_t{1} << 60) - 1;
  // Three counts of rows, and the number of bytes that follow.
  const std::array<std::uint64_t, 4> announced{most, most, 2, 0};
  EXPECT_TRUE(sink.take_told(0, std::as_bytes(std::span(announced))).empty());
  EXPECT_NE(core::error_of([&] { sink.plan_step(); }, core::Errc::protocol).find("2^64 bytes"),
            std::string::npos);
}

}  // namespace
}  // namespace tremula::client
