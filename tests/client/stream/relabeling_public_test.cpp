// SPDX-License-Identifier: Apache-2.0
// Tests relabeling as applications use it, through the public headers only: between two jobs with a
// server, and inside one job. Ranks are threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <mutex>
#include <numeric>
#include <string>
#include <thread>
#include <tremula/tremula.hpp>
#include <vector>

#include "tests/client/public_jobs.hpp"

namespace {

using namespace tremula;
using tremula::testing::Jobs;

/// Returns the elements of a matrix that `label` holds in a step. Each is its number plus `step`.
std::vector<double> part_of(const Layout& layout, int label, double step) {
  const auto local = layout.local(label);
  const Index columns = layout.shape()[1];
  std::vector<double> part(static_cast<std::size_t>(local.allocated));
  for (Index i = 0; i < local.extents[0]; ++i)
    for (Index j = 0; j < local.extents[1]; ++j)
      part[static_cast<std::size_t>(local.first + i * local.strides[0] + j * local.strides[1])] =
          step + static_cast<double>(layout.global_index(label, 0, i) * columns +
                                     layout.global_index(label, 1, j));
  return part;
}

TEST(RelabelingPublic, GivesLabelsToTheHostsOfTheirElements) {
  Jobs jobs;
  const auto rows = Layout::block({.shape = {12, 10}, .grid = {2, 1}});
  const auto wanted = Layout::block_cyclic({.shape = {12, 10}, .grid = {4, 1}, .block = {2, 10}});
  jobs.start("producer", {"a", "b"}, [&](Session& session) {
    auto out = session.out_stream("s");
    const auto field = out.field<double>("f", rows);
    for (int step = 0; step < 3; ++step) out.put(field, part_of(rows, session.rank(), step));
    out.close();
  });
  // Rows 0 to 5 are on a. Labels 0 and 1 are half on each host, label 2 is on a, label 3 on b.
  std::vector<int> labels(4);
  std::atomic<int> resized = 0;
  jobs.start("consumer", {"b", "b", "a", "a"}, [&](Session& session) {
    auto in = session.in_stream("s");
    const auto field = in.field<double>("f", wanted);
    const int label = in.relabel({.method = "exact"});
    labels[static_cast<std::size_t>(session.rank())] = label;
    std::vector<double> part(static_cast<std::size_t>(wanted.local(label).allocated)),
        own(static_cast<std::size_t>(wanted.local(session.rank()).allocated));
    for (int step = 0; in.begin_step() == StepStatus::ok; ++step) {
      if (own.size() != part.size()) {
        ++resized;
        EXPECT_THROW(in.get(field, own), Error);
      }
      in.get(field, part);
      EXPECT_EQ(part, part_of(wanted, label, step)) << "rank " << session.rank();
      in.end_step();
      std::uint64_t from_peers = 0;
      for (const auto& peer : in.peers()) from_peers += peer.bytes;
      EXPECT_EQ(from_peers, in.statistics().bytes);
      EXPECT_EQ(in.step_statistics().bytes, part.size() * sizeof(double));
    }
    in.close();
  });
  EXPECT_EQ(jobs.join(), "");
  EXPECT_EQ(resized, 3 * 2);
  const std::vector<int> on_b{labels[0], labels[1]};
  EXPECT_NE(std::ranges::find(on_b, 3), on_b.end());
  EXPECT_EQ(std::ranges::find(on_b, 2), on_b.end());
  std::ranges::sort(labels);
  EXPECT_EQ(labels, (std::vector<int>{0, 1, 2, 3}));
}

TEST(RelabelingPublic, KeepsAMatrixInPlaceInsideOneJob) {
  const auto from = Layout::parse("shape=100x100 grid=2x2"),
             to = Layout::parse("shape=100x100 grid=2x2 ranks=column store=column");
  const auto array = Redistributed::of<double>(from, to);
  const auto found = relabel({array}, 4);
  EXPECT_EQ(found.process, (std::vector<int>{0, 2, 1, 3}));
  EXPECT_EQ(found.before, 2 * 50 * 50 * 8);
  EXPECT_EQ(found.after, 0);
  const auto kept = to.relabeled(found.process);
  EXPECT_EQ(kept.text(), to.text() + " members=0/2/1/3");
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_EQ(kept.global_index(rank, 0, 0), from.global_index(rank, 0, 0));
  const auto hosts = relabel({array}, 4, {7, 3, 3, 7}, false);  // near each other: no gain
  EXPECT_EQ(hosts.process, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(hosts.before, 0);
  EXPECT_EQ(relabel({}, 3).process, (std::vector<int>{0, 1, 2}));
}

std::string complaint(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& e) {
    EXPECT_EQ(e.status(), TREMULA_INVALID_ARGUMENT);
    return e.what();
  }
  return "none";
}
void expect_has(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(RelabelingPublic, NamesTheValuesThatItRefuses) {
  const auto layout = Layout::parse("shape=4 grid=2");
  EXPECT_EQ(complaint([&] { layout.relabeled({1, 0}); }), "none");
  expect_has(complaint([&] { layout.relabeled({1, 1}); }), "found 1 for label 1");
  expect_has(complaint([&] { layout.relabeled({1, 2}); }), "found 2 for label 1");
  expect_has(complaint([&] { layout.relabeled({-1, 0}); }), "found -1 for label 0");
  expect_has(complaint([&] { layout.relabeled({}); }), "ranks: expected 1 to 10000000; found 0");
  expect_has(complaint([&] { layout.relabeled({0, 1, 2}); }), "the group has 3 ranks");
  const auto array = Redistributed::of<float>(layout, layout);
  expect_has(complaint([&] { relabel({array}, 2, {0}); }), "one for each of 2 ranks; found 1");
  expect_has(complaint([&] { relabel({array}, 2, {0, -1}); }), "places of at least 0");
  expect_has(complaint([&] { relabel({array}, 0); }), "found 0");
  expect_has(complaint([&] { relabel({array}, 3); }), "the group has 3 ranks");
  int label = 0;
  EXPECT_EQ(tremula_in_relabel(nullptr, nullptr, &label), TREMULA_INVALID_ARGUMENT);
}

}  // namespace
