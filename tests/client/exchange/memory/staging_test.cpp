// SPDX-License-Identifier: Apache-2.0
#include "client/exchange/memory/staging.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <thread>
#include <vector>

#include "core/deadline.hpp"
#include "transport/loopback/loopback.hpp"

namespace tremula::client {
namespace {

std::size_t page_bytes() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

/// Returns the first whole page of `memory`.
void* first_page(std::span<std::byte> memory) {
  void* begin = memory.data();
  std::size_t room = memory.size();
  return std::align(page_bytes(), page_bytes(), begin, room);
}

/// Returns how many whole pages of `memory` were never touched, as reported by the system.
std::size_t untouched_pages(std::span<std::byte> memory) {
  void* const begin = first_page(memory);
  const auto* const end = memory.data() + memory.size();
  std::vector<unsigned char> pages(static_cast<std::size_t>(end - static_cast<std::byte*>(begin)) /
                                   page_bytes());
  EXPECT_EQ(mincore(begin, pages.size() * page_bytes(), pages.data()), 0);
  return static_cast<std::size_t>(
      std::ranges::count_if(pages, [](unsigned char p) { return (p & 1) == 0; }));
}

// The test requests only room for a step; it does not pack one.
TEST(StepStaging, IsTouchedInTheBackgroundBeforeAStepNeedsIt) {
  constexpr std::size_t bytes = std::size_t{32} << 20;
  constexpr int populate_write = 23;
  core::Buffer probe(bytes);
  if (madvise(first_page(probe.span()), page_bytes(), populate_write) != 0)
    GTEST_SKIP() << "Linux before 5.14: the first steps touch the pages";
  EXPECT_GT(untouched_pages(probe.span()), 0u) << "core::Buffer touches its memory by itself";
  transport::Network network;
  const auto endpoint = transport::Loopback(network).open("loopback", transport::Side::producer);
  ExchangePlan plan;
  plan.messages.resize(2);
  for (Message& message : plan.messages) message.bytes = bytes;
  StepStaging staging(plan, *endpoint, 2, {true, false});
  for (const std::size_t message : {0U, 1U}) {
    const auto room = staging.message(1, message);
    ASSERT_EQ(room.size(), bytes);
    const auto deadline = core::Deadline::after(30);
    while (untouched_pages(room) > 0 && !deadline.expired())
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(untouched_pages(room), 0u) << (message == 0 ? "near" : "far");
  }
}

}  // namespace
}  // namespace tremula::client
