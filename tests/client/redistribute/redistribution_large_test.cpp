// SPDX-License-Identifier: Apache-2.0
// Tests local parts and messages of more than 2 GiB. Needs 10 GB of memory.
#include <gtest/gtest.h>

#include "tests/client/redistribute/redistribution_job.hpp"

namespace tremula::client::redistribute {

using index_calc::Layout;

namespace {

std::byte value(Index i, Index j) {
  return static_cast<std::byte>((static_cast<std::uint64_t>(i * 70000 + j) * 0x9E3779B97F4A7C15u) >>
                                56);
}

TEST(Redistribution, MovesMoreThanTwoGibibytes) {
  testing::Job job(2);
  const Index n = 70000, half = n / 2;
  const Update update{
      .from = Layout::parse("shape=70000x70000 grid=2x1"),
      .to = Layout::parse("shape=70000x70000 grid=2x1 members=1/0 store=column"),
      .transformation = {.from = core::ElementType::u8, .to = core::ElementType::u8}};
  const auto failures = job.run([&](Rank me, transport::Endpoint& endpoint) {
    Redistribution redistribution({&update, 1}, me, 2);
    const auto bytes = static_cast<std::size_t>(half * n);
    std::vector<std::vector<std::byte>> from(1, std::vector<std::byte>(bytes)),
        to(1, std::vector<std::byte>(bytes));
    for (Index i = 0; i < half; ++i)
      for (Index j = 0; j < n; ++j)
        from[0][static_cast<std::size_t>(i * n + j)] = value(me.value * half + i, j);
    testing::run(redistribution, endpoint, testing::views(from), testing::spans(to),
                 core::Deadline::after(300));
    for (Index j = 0; j < n; ++j)
      for (Index i = 0; i < half; ++i)
        if (to[0][static_cast<std::size_t>(j * half + i)] != value((1 - me.value) * half + i, j))
          throw std::runtime_error("a wrong element");
    EXPECT_EQ(redistribution.statistics().bytes_sent, bytes);
  });
  EXPECT_EQ(failures, std::vector<std::string>(2));
}

}  // namespace
}  // namespace tremula::client::redistribute
