// SPDX-License-Identifier: Apache-2.0
// Tests that the sink of changing fields refuses counts that no memory holds.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "client/exchange/changing.hpp"
#include "client/stream/link/link_plan.hpp"

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
      plan_exchange(fields, fields, transport::Side::consumer, 0, 1, 1, cache, {});
  CopyThreads threads(1);
  Mismatch mismatch;
  ChangingSink sink(plan, threads, mismatch);
  constexpr std::uint64_t most = (std::uint64_t{1} << 60) - 1;
  const std::array<std::uint64_t, 4> announced{most, most, 2, 0};  // the bytes that follow are last
  EXPECT_TRUE(sink.take_told(0, std::as_bytes(std::span(announced))).empty());
  try {
    sink.plan_step();
    ADD_FAILURE() << "expected an error";
  } catch (const core::Error& error) {
    EXPECT_EQ(error.code(), core::Errc::protocol) << error.what();
  }
}

}  // namespace
}  // namespace tremula::client
