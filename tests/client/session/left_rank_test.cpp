// SPDX-License-Identifier: Apache-2.0
// All ranks of a group wait for a rank that has left. Their errors name that rank, and not rank 0,
// although rank 0 leaves next and the other ranks see that as well.
#include <gtest/gtest.h>

#include <mutex>
#include <regex>
#include <set>
#include <thread>

#include "tests/client/world.hpp"

namespace tremula::client {
namespace {

constexpr RankCount size = 4;

class LeftRank : public ::testing::TestWithParam<Rank> {};

/// Returns the ranks in a sentence such as "rank 1 has left" or "ranks 0 and 2-3 have left".
std::set<Rank> ranks_that_have_left(const std::string& text) {
  static const std::regex sentence("ranks? ([-0-9, and]+) ha(s|ve) left"),
      range("([0-9]+)(-([0-9]+))?");
  std::set<Rank> ranks;
  std::smatch found;
  if (!std::regex_search(text, found, sentence)) return ranks;
  const std::string list = found[1];
  for (std::sregex_iterator part(list.begin(), list.end(), range), end; part != end; ++part)
    for (Rank rank{std::stoi((*part)[1])}, last{std::stoi((*part)[(*part)[3].matched ? 3 : 1])};
         rank <= last; ++rank)
      ranks.insert(rank);
  return ranks;
}

/// Runs a group whose ranks reach each other as separate processes do.
void play(const World& world, Rank culprit, const std::function<void(Session&)>& take_part) {
  std::mutex mutex;
  std::set<Rank> judged;
  std::vector<std::thread> ranks;
  for (const Rank rank : core::all_ranks(size))
    ranks.emplace_back([&, rank] {
      auto config = world.config(30);
      config.transport = "local";
      const auto session = Session::open("four", rank.value, size, config);
      if (rank == culprit) return;
      try {
        take_part(*session);
      } catch (const Error& error) {
        const std::string text = error.what();
        EXPECT_EQ(error.code(), Errc::peer_lost) << text;
        EXPECT_EQ(ranks_that_have_left(text), std::set{culprit}) << rank.value << ": " << text;
        EXPECT_NE(text.find("group 'four'"), text.npos) << rank.value << ": " << text;
        EXPECT_EQ(text.find("closed its end"), text.npos) << rank.value << ": " << text;
        const std::scoped_lock lock(mutex);
        judged.insert(rank);
      }
    });
  for (auto& rank : ranks) rank.join();
  EXPECT_EQ(judged.size(), size - 1u);
}

proto::Field field() {
  return {.name = "u",
          .type = core::ElementType::f64,
          .layout = index_calc::Layout::parse("shape=12 grid=4")};
}

TEST_P(LeftRank, IsNamedByAllOtherProducerRanks) {
  const World world;
  play(world, GetParam(), [](Session& session) {
    OutStream out(session, "sea", {});
    out.declare(field());
    out.begin_step();
  });
}

TEST_P(LeftRank, IsNamedByAllOtherConsumerRanks) {
  const World world;
  play(world, GetParam(), [](Session& session) {
    InStream in(session, "sea");
    in.declare(field());
    in.begin_step();
  });
}

INSTANTIATE_TEST_SUITE_P(Rank, LeftRank, ::testing::Values(Rank{1}, Rank{3}));

}  // namespace
}  // namespace tremula::client
