// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "core/error.hpp"
#include "transport/transport.hpp"

namespace tremula::transport {

namespace {

/// Counts the calls that a request makes.
struct FakeOperation final : Operation {
  std::optional<std::size_t> test() override {
    ++tested;
    if (fails) throw core::Error(core::Errc::peer_lost, "fake");
    return outcome;
  }
  void cancel() noexcept override { ++cancelled; }
  void release() noexcept override { ++released; }

  std::optional<std::size_t> outcome;
  bool fails = false;
  int tested = 0, cancelled = 0, released = 0;
};

}  // namespace

TEST(Request, IsFinishedWithoutAnOperation) {
  Request request;
  EXPECT_TRUE(request.test());
  EXPECT_TRUE(request.is_finished());
  EXPECT_EQ(request.bytes(), 0u);
}

TEST(Request, TestsItsOperationOnlyUntilItHasFinished) {
  FakeOperation operation;
  Request request(&operation);
  EXPECT_FALSE(request.test());
  EXPECT_FALSE(request.is_finished());
  operation.outcome = 12;
  EXPECT_TRUE(request.test());
  EXPECT_TRUE(request.test());
  EXPECT_EQ(request.bytes(), 12u);
  EXPECT_EQ(operation.tested, 2);
  EXPECT_EQ(operation.released, 1);
  EXPECT_EQ(operation.cancelled, 0);
}

TEST(Request, ThrowsTheErrorOfItsOperationOnceAndIsFinished) {
  FakeOperation operation;
  operation.fails = true;
  Request request(&operation);
  EXPECT_THROW(request.test(), core::Error);
  EXPECT_TRUE(request.is_finished());
  EXPECT_TRUE(request.test());
  EXPECT_EQ(operation.released, 1);
  EXPECT_EQ(operation.cancelled, 1);  // the error may be about something else
}

TEST(Request, CancelsWhenDestroyedOrReplaced) {
  FakeOperation first, second;
  {
    Request request(&first);
    request = Request(&second);
    EXPECT_EQ(first.cancelled, 1);
    EXPECT_EQ(first.released, 1);
    EXPECT_EQ(second.cancelled, 0);
    Request moved(std::move(request));
    EXPECT_TRUE(request.is_finished());  // NOLINT(bugprone-use-after-move): is moved from
    EXPECT_FALSE(moved.is_finished());
  }
  EXPECT_EQ(second.cancelled, 1);
  EXPECT_EQ(second.released, 1);
}

}  // namespace tremula::transport
