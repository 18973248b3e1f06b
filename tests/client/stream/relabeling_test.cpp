// SPDX-License-Identifier: Apache-2.0
// Relabeling inside one job: a redistribution sends the predicted bytes, and no permutation sends less.
#include "client/stream/relabeling.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <stdexcept>

#include "client/redistribute/redistribution.hpp"
#include "core/error.hpp"
#include "tests/client/redistribute/redistribution_job.hpp"
#include "tests/client/redistribution_case.hpp"

namespace tremula::client {
namespace {

using redistribute::Redistribution, index_calc::Method, testing::Case, testing::Job,
    testing::Layout, testing::Random, testing::spans, testing::views;

template <class Number = Rank>
std::vector<Number> unchanged(RankCount ranks) {
  std::vector<Number> process(static_cast<std::size_t>(ranks));
  std::iota(process.begin(), process.end(), Number{});
  return process;
}

/// Returns how many bytes leave their place if process[label] takes each label.
Index leaving(const std::vector<std::vector<Index>>& volumes, const std::vector<RankCount>& places,
              const std::vector<Rank>& process) {
  Index bytes = 0;
  for (std::size_t p = 0; p < places.size(); ++p)
    for (std::size_t label = 0; label < places.size(); ++label)
      if (places[p] != places[at(process[label])]) bytes += volumes[p][label];
  return bytes;
}

std::vector<Update> relabeled(std::vector<Update> updates, const std::vector<Rank>& process) {
  for (Update& update : updates) update.to = index_calc::relabeled(update.to, process);
  return updates;
}

TEST(Relabeling, IsTheBestOfAllPermutations) {
  Random random;
  for (int c = 0; c < 300; ++c) {
    const auto ranks = static_cast<RankCount>(random.in(1, 5));
    const Case wanted(random, ranks);
    std::vector<RankCount> places;
    for (RankCount r = 0; r < ranks; ++r)
      places.push_back(static_cast<RankCount>(random.in(0, ranks)));
    const auto volumes = wanted.volumes(false);
    std::vector<Rank> process = unchanged(ranks);
    const Index before = leaving(volumes, places, process);
    Index least = before;
    while (std::ranges::next_permutation(process).found)
      least = std::min(least, leaving(volumes, places, process));
    const auto found = relabel(wanted.updates, places, Method::exact);
    ASSERT_EQ(found.before, before) << wanted.text();
    ASSERT_EQ(found.after, least) << wanted.text();
    ASSERT_EQ(leaving(volumes, places, found.process), least) << wanted.text();
    const auto greedy = relabel(wanted.updates, places, Method::greedy);
    ASSERT_EQ(leaving(volumes, places, greedy.process), greedy.after);
    ASSERT_GE(greedy.after, least) << wanted.text();
    ASSERT_LE(greedy.after, before) << wanted.text();
  }
}

TEST(Relabeling, PredictsTheBytesThatAreSent) {
  Random random;
  for (int c = 0; c < 60; ++c) {
    Job job(static_cast<RankCount>(random.in(1, 6)));
    const Case wanted(random, job.size());
    const auto found = relabel(wanted.updates, unchanged<RankCount>(job.size()), Method::exact);
    const auto updates = relabeled(wanted.updates, found.process);
    std::atomic<Index> sent = 0;
    const auto failures = job.run([&](Rank me, transport::Endpoint& endpoint) {
      const Rank label{
          static_cast<std::int32_t>(std::ranges::find(found.process, me) - found.process.begin())};
      Redistribution redistribution(updates, me, job.size());
      const auto from = wanted.from(me);
      auto to = wanted.to_before(label);
      testing::run(redistribution, endpoint, views(from), spans(to), core::Deadline::after(20));
      if (to != wanted.to_after(label)) throw std::runtime_error("wrong elements");
      sent += static_cast<Index>(redistribution.statistics().bytes_sent);
    });
    ASSERT_EQ(failures, std::vector<std::string>(failures.size())) << wanted.text();
    ASSERT_EQ(sent, found.after) << wanted.text();
  }
}

TEST(Relabeling, KeepsAMatrixWhereItIs) {
  const Update update{.from = Layout::parse("shape=100x100 grid=2x2"),
                      .to = Layout::parse("shape=100x100 grid=2x2 ranks=column store=column")};
  const auto found = relabel({{update}}, unchanged<RankCount>(4), Method::exact);
  EXPECT_EQ(found.before, 2 * 50 * 50 * 8);
  EXPECT_EQ(found.after, 0);
  EXPECT_EQ(found.process, (std::vector<Rank>{{0}, {2}, {1}, {3}}));
}

TEST(Relabeling, WeighsFieldsByTheTypesOfTheProducer) {
  const auto field = [](const char* name, core::ElementType type, const char* layout) {
    return proto::Field{.name = name, .type = type, .layout = Layout::parse(layout)};
  };
  using enum core::ElementType;
  wire::Described producer;
  for (const char* host : {"a", "b"})
    producer.add_host_of_rank(producer.hosts_size()), producer.add_hosts(host);
  *producer.add_fields() = proto::encode(field("small", i8, "shape=8 grid=2"));
  *producer.add_fields() = proto::encode(field("large", f64, "shape=4 grid=2"));
  const std::vector<proto::Field> wanted{field("large", f64, "shape=4 grid=2"),
                                         field("small", f64, "shape=8 grid=2 members=1/0")};
  const std::vector<std::string> hosts{"a", "b"};
  const auto found = relabel(wanted, producer, hosts, Method::exact);
  EXPECT_EQ(found.process, unchanged(2));  // on its own, the small array would be relabeled
  EXPECT_EQ(found.after, 8);
  EXPECT_EQ(relabel(std::span(wanted).last(1), producer, hosts, Method::exact).process,
            (std::vector<Rank>{{1}, {0}}));
}

std::string complaint(const std::vector<Update>& updates, const std::vector<RankCount>& places) {
  try {
    relabel(updates, places, Method::exact);
  } catch (const core::Error& e) {
    return e.what();
  }
  return "none";
}

TEST(Relabeling, NamesTheInvalidUpdate) {
  const Update fine{.from = Layout::parse("shape=4 grid=2"), .to = Layout::parse("shape=4 grid=2")};
  Update other = fine;
  other.to = Layout::parse("shape=4 grid=3");
  EXPECT_EQ(complaint({fine}, {0, 1}), "none");
  EXPECT_EQ(complaint({fine, other}, {0, 1}).find("array 1: "), 0u);
  other.to = Layout::parse("shape=5 grid=2");
  EXPECT_EQ(complaint({other, fine}, {0, 1}).find("array 0: "), 0u);
  EXPECT_NE(complaint({fine}, {0, -1}).find("places of at least 0"), std::string::npos);
}

}  // namespace
}  // namespace tremula::client
