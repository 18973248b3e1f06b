// SPDX-License-Identifier: Apache-2.0
// One thread plays all ranks, so no test may block.
#include "client/waiting/words.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>

#include "tests/client/thread_group.hpp"

namespace tremula::client {
namespace {

using core::Rank;

constexpr core::RankCount size = 3;
constexpr std::uint64_t subject = 7;

class Words3 : public testing::Test {
protected:
  Words3() {
    for (const Rank rank : core::all_ranks(size)) {
      groups_.emplace_back(shared_, rank);
      words_.emplace_back().open(subject);
    }
  }
  void say(Rank rank, std::uint64_t round, std::uint8_t value, bool is_final = false) {
    words_[at(rank)].say(groups_[at(rank)], subject, round,
                         {.value = value,
                          .is_final = is_final,
                          .code = core::Errc::mismatch,
                          .why = std::to_string(value)});
  }
  /// Returns the value of the word that counts for the round, or -1 if it is not yet known.
  int value_of(Rank rank, std::uint64_t round) {
    const auto word = words_[at(rank)].receive(groups_[at(rank)], subject, round);
    if (!word) return -1;
    EXPECT_EQ(word->why, std::to_string(word->value).substr(0, word->why.size()));
    EXPECT_EQ(word->code, core::Errc::mismatch);
    return word->value;
  }

  ThreadRanks shared_{size};
  std::deque<ThreadGroup> groups_;
  std::deque<WordExchange> words_;
};

TEST_F(Words3, GreatestCountsOnceAllAreThere) {
  for (std::uint64_t round = 0; round < 3; ++round) {
    say(Rank{2}, round, 1);
    EXPECT_EQ(value_of(Rank{2}, round), -1);
    say(Rank{0}, round, 0);
    EXPECT_EQ(value_of(Rank{0}, round), -1);
    say(Rank{1}, round, 0);
    EXPECT_EQ(value_of(Rank{1}, round), -1) << "rank 0 has not read its notes since then";
    EXPECT_EQ(value_of(Rank{0}, round), 1);
    EXPECT_EQ(value_of(Rank{1}, round), 1);
    EXPECT_EQ(value_of(Rank{2}, round), 1);
  }
}

TEST_F(Words3, AreCountedPerSubject) {
  using Said = std::vector<std::pair<std::uint64_t, std::uint64_t>>;
  words_[1].open(subject + 1);
  EXPECT_EQ(words_[1].said(), (Said{{subject, 0}, {subject + 1, 0}}));
  for (std::uint64_t round = 0; round < 3; ++round) {
    say(Rank{1}, round, 1);
    EXPECT_EQ(words_[1].said(), (Said{{subject, round + 1}, {subject + 1, 0}}));
    say(Rank{2}, round, 0), say(Rank{0}, round, 0);
    EXPECT_EQ(value_of(Rank{0}, round), 1);
    EXPECT_EQ(value_of(Rank{1}, round), 1);
  }
  words_[1].close(subject);
  EXPECT_EQ(words_[1].said(), (Said{{subject + 1, 0}}));
}

TEST_F(Words3, FinalOneCountsAtOnce) {
  say(Rank{1}, 0, 3, true);
  say(Rank{2}, 0, 9);
  EXPECT_EQ(value_of(Rank{0}, 0), 3) << "even before rank 0 has said its own word";
  EXPECT_EQ(value_of(Rank{2}, 0), 3);
  say(Rank{0}, 0, 0);
  // Rank 1 lacks the result of round 0.
  for (const Rank rank : {Rank{1}, Rank{0}, Rank{2}}) say(rank, 1, 1);
  for (const Rank rank : core::all_ranks(size)) EXPECT_EQ(value_of(rank, 1), 1);
}

TEST_F(Words3, AreIgnoredAfterTheirSubjectHasEnded) {
  words_[0].close(subject);
  say(Rank{1}, 0, 3, true);
  words_[0].open(subject + 1);
  EXPECT_FALSE(words_[0].receive(groups_[0], subject + 1, 0));
}

TEST_F(Words3, BelongToTheRankThatSentThem) {
  say(Rank{1}, 0, 1);
  auto note = shared_.take_note(Rank{0});
  ASSERT_TRUE(note);
  const Rank other{2};
  constexpr std::size_t place = 2 * sizeof(std::uint64_t);  // after subject and round
  std::memcpy(note->bytes.data() + place, &other, sizeof other);
  shared_.send_note(Rank{1}, Rank{0}, note->bytes);
  say(Rank{0}, 0, 0), say(Rank{2}, 0, 0);
  const auto word = words_[0].receive(groups_[0], subject, 0);
  ASSERT_TRUE(word) << "every rank has said its word";
  EXPECT_EQ(word->from, Rank{1});
}

TEST_F(Words3, LongReasonIsCutOff) {
  words_[1].say(groups_[1], subject, 0, {.is_final = true, .why = std::string(5000, 'x')});
  const auto word = words_[0].receive(groups_[0], subject, 0);
  ASSERT_TRUE(word);
  EXPECT_EQ(word->from, Rank{1});
  EXPECT_GT(word->why.size(), 400u);
  EXPECT_EQ(word->why, std::string(word->why.size(), 'x'));
}

}  // namespace
}  // namespace tremula::client
