// SPDX-License-Identifier: Apache-2.0
// Tests signs of life that carry the first step of a source that admits a link late, and signs of
// life that a sink refuses.
#include "client/exchange/signs_of_life.hpp"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <memory>
#include <vector>

#include "core/error.hpp"
#include "tests/client/coupling.hpp"

namespace tremula::client {
namespace {

constexpr std::uint64_t link = 7;
constexpr double forever = std::numeric_limits<double>::infinity();

/// Two ranks of a source and one rank of a sink, in one thread.
class FirstStep : public ::testing::Test {
protected:
  FirstStep() {
    std::vector<transport::Address> sources;
    for (auto& end : sources_) {
      end = loopback_.open("loopback", Side::producer);
      sources.push_back(end->address());
    }
    const std::vector<transport::Address> sinks{sink_->address()};
    sink_->connect(sources, soon());
    for (auto& end : sources_) end->connect(sinks, soon());
  }
  static core::Deadline soon() { return core::Deadline::after(10); }
  static ExchangePlan plan_with(RankCount peers) {
    ExchangePlan plan;
    plan.messages.resize(static_cast<std::size_t>(peers));
    for (const Rank r : core::all_ranks(peers)) plan.messages[at(r)].peer = r;
    plan.fingerprint = 5;
    return plan;
  }
  std::unique_ptr<SignsOfLife> source(std::size_t rank, bool sends_begin) {
    return std::make_unique<SignsOfLife>(plan_with(1), *sources_[rank], link, forever, sends_begin);
  }
  void look(SignsOfLife& signs) {
    for (int i = 0; i < 100; ++i) {
      for (auto& end : sources_) end->progress();
      sink_->progress();
      signs.advance();
    }
  }
  /// Sends a message that claims to be a sign of life of source 0.
  void send(proto::MessageKind kind, std::uint64_t step) {
    bytes_ = proto::encode({.kind = kind, .link = link, .step = step, .fingerprint = 5});
    request_ = sources_[0]->send(Rank{0}, tags::sign, bytes_);
  }

  Network network_;
  Loopback loopback_{network_};
  std::unique_ptr<transport::Endpoint> sink_ = loopback_.open("loopback", Side::consumer);
  std::array<std::unique_ptr<transport::Endpoint>, 2> sources_;
  HeaderBytes bytes_{};
  transport::Request request_;
};

TEST_F(FirstStep, IsAnnouncedWithTheFirstSignAndSentOnce) {
  SignsOfLife sink(plan_with(2), *sink_, link, forever);
  const auto one = source(0, true), other = source(1, true);
  look(sink);
  EXPECT_FALSE(sink.unproved());
  EXPECT_TRUE(sink.begins_later());
  EXPECT_TRUE(sink.awaits_begin());
  EXPECT_EQ(sink.first_step(), std::nullopt);
  one->begin(12);
  look(*one), look(sink);
  EXPECT_TRUE(sink.awaits_begin()) << "the other rank has not begun yet";
  other->begin(12);
  look(*other), look(sink);
  EXPECT_FALSE(sink.awaits_begin());
  EXPECT_TRUE(sink.begins_later());
  EXPECT_EQ(sink.first_step(), 12u);
}

TEST_F(FirstStep, IsNotSentByASourceThatHasNotAnnouncedIt) {
  SignsOfLife sink(plan_with(2), *sink_, link, forever);
  const auto one = source(0, false), other = source(1, false);
  look(sink);
  one->begin(12), other->begin(12);
  look(*one), look(*other), look(sink);
  EXPECT_FALSE(sink.begins_later());
  EXPECT_FALSE(sink.awaits_begin());
  EXPECT_EQ(sink.first_step(), std::nullopt);
}

TEST_F(FirstStep, WaitsUntilTheFirstSignIsSent) {
  const auto one = source(0, true);
  one->begin(3);  // the first sign may be in flight
  SignsOfLife sink(plan_with(1), *sink_, link, forever);
  look(*one), look(sink);
  EXPECT_EQ(sink.first_step(), 3u);
}

TEST_F(FirstStep, IsRefusedIfItDiffersOrIsUnannounced) {
  {
    SignsOfLife sink(plan_with(2), *sink_, link, forever);
    const auto one = source(0, true), other = source(1, true);
    one->begin(12), other->begin(13);
    const auto look_at_all = [&] { look(*one), look(*other), look(sink); };
    EXPECT_THROW(look_at_all(), core::Error);
  }
  SignsOfLife sink(plan_with(2), *sink_, link, forever);
  send(proto::MessageKind::begins, 3);
  EXPECT_THROW(look(sink), core::Error);
}

}  // namespace
}  // namespace tremula::client
