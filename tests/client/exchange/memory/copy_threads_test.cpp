// SPDX-License-Identifier: Apache-2.0
#include "client/exchange/memory/copy_threads.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>

namespace tremula::client {
namespace {

using index_calc::Stretch;

/// Counts how often each element was copied.
class Tally {
public:
  explicit Tally(std::size_t count) : times_(count) {}
  void operator()(Stretch some) {
    stretches_.fetch_add(1);
    for (auto i = some.first; i < some.first + some.count; ++i)
      times_.at(static_cast<std::size_t>(i)).fetch_add(1);
  }
  void expect_once(Stretch whole) {
    for (std::size_t i = 0; i < times_.size(); ++i) {
      const auto at = static_cast<core::Index>(i);
      ASSERT_EQ(times_[i], at >= whole.first && at < whole.first + whole.count ? 1 : 0) << i;
    }
  }
  int stretches() const { return stretches_; }

private:
  std::vector<std::atomic<int>> times_;
  std::atomic<int> stretches_ = 0;
};

TEST(CopyThreads, CopyEveryElementOnce) {
  for (int count = 1; count <= 4; ++count) {
    CopyThreads threads(count, 64);
    for (const Stretch whole : {Stretch{0, 0}, Stretch{0, 1}, Stretch{5, 15}, Stretch{3, 16},
                                Stretch{7, 101}, Stretch{0, 1000}}) {
      Tally tally(1100);
      threads.run(whole, 8, [&](Stretch some) { tally(some); });
      tally.expect_once(whole);
      EXPECT_EQ(tally.stretches(),
                std::max<core::Index>(1, std::min<core::Index>(count, whole.count * 8 / 64)))
          << count << " threads, " << whole.count << " elements";
    }
  }
}

TEST(CopyThreads, ServeSeveralCallers) {
  CopyThreads threads(3, 8);
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c)
    callers.emplace_back([&] {
      for (int i = 0; i < 300; ++i) {
        Tally tally(50);
        threads.run({0, 50}, 1, [&](Stretch some) { tally(some); });
        tally.expect_once({0, 50});
      }
    });
  for (auto& caller : callers) caller.join();
}

TEST(CopyThreads, PassOnExceptionsAndStayUsable) {
  CopyThreads threads(3, 8);
  for (int i = 0; i < 50; ++i) {
    EXPECT_THROW(threads.run({0, 60}, 1,
                             [](Stretch some) {
                               if (some.first > 0) throw std::runtime_error("no");
                             }),
                 std::runtime_error);
    Tally tally(60);
    threads.run({0, 60}, 1, [&](Stretch some) { tally(some); });
    tally.expect_once({0, 60});
  }
}

}  // namespace
}  // namespace tremula::client
