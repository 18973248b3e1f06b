// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "core/error.hpp"
#include "transport/mpi/group.hpp"
#include "transport/mpi/group_endpoint.hpp"

namespace tremula::transport::mpi {

namespace {

using core::Bytes, core::Deadline, core::Errc, core::Error, core::Rank;

Bytes bytes_of(Rank rank, std::size_t count) {
  Bytes bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(at(rank) * 31 + i);
  return bytes;
}

Deadline soon() { return Deadline::after(20); }

TEST(MpiGroup, GivesEveryRankTheBytesOfRankZero) {
  Group group(MPI_COMM_WORLD, 20);
  for (std::size_t count :
       {std::size_t{0}, std::size_t{1}, std::size_t{1000}, std::size_t{3'000'000}})
    EXPECT_EQ(group.broadcast(bytes_of(group.rank(), count + at(group.rank())), soon()),
              bytes_of(Rank{0}, count));
}

TEST(MpiGroup, GivesEveryRankTheBytesOfAllRanks) {
  Group group(MPI_COMM_WORLD, 20);
  constexpr std::array<std::size_t, 6> lengths{0, 248, 249, 100'000, 1, 0};
  for (std::size_t shift = 0; shift < 6; ++shift) {
    const auto length = [&](Rank rank) { return lengths[(at(rank) + shift) % lengths.size()]; };
    const auto all = group.allgather(bytes_of(group.rank(), length(group.rank())), soon());
    EXPECT_EQ(group.allgather_at_once(bytes_of(group.rank(), length(group.rank()))), all);
    ASSERT_EQ(all.size(), static_cast<std::size_t>(group.size()));
    for (const Rank rank : core::all_ranks(group.size()))
      EXPECT_EQ(all[at(rank)], bytes_of(rank, length(rank))) << "rank " << rank.value;
  }
  for (const Bytes& nothing : group.allgather({}, soon())) EXPECT_TRUE(nothing.empty());
}

TEST(MpiGroup, ReceivesNotesDuringItsCalls) {
  Group group(MPI_COMM_WORLD, 20);
  const auto take = [&] {
    for (const Deadline until = soon(); !until.expired();)
      if (auto note = group.take_note()) return *note;
    ADD_FAILURE() << "rank " << group.rank().value << " received no note";
    return Group::Note{};
  };
  if (group.rank() != Rank{0})
    group.send_note(Rank{0}, bytes_of(group.rank(), Group::most_note_bytes));
  EXPECT_EQ(group.broadcast(bytes_of(group.rank(), 3), soon()), bytes_of(Rank{0}, 3));
  if (group.rank() != Rank{0}) {
    EXPECT_EQ(take().bytes, bytes_of(group.rank(), 1));
  } else {
    for (core::RankCount other = 1; other < group.size(); ++other) {
      const auto note = take();
      EXPECT_EQ(note.bytes, bytes_of(note.from, Group::most_note_bytes));
      group.send_note(note.from, bytes_of(note.from, 1));
    }
  }
  group.broadcast({}, soon());
  EXPECT_FALSE(group.take_note());
}

TEST(MpiGroup, NumbersItsRanksAsTheCommunicatorDoes) {
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm reversed = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed);
  Group group(reversed, 20);
  MPI_Comm_free(&reversed);  // the group has a duplicate
  EXPECT_EQ(group.rank().value, size - 1 - rank);
  EXPECT_EQ(group.size(), size);
  EXPECT_EQ(group.broadcast(bytes_of(group.rank(), 5), soon()), bytes_of(Rank{0}, 5));
}

TEST(MpiGroup, DoesNotMixWithCallsOfTheApplication) {
  Group group(MPI_COMM_WORLD, 20);
  int sum = 0, one = 1;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
  EXPECT_EQ(group.allgather(bytes_of(group.rank(), 9), soon()).back(),
            bytes_of(Rank{group.size() - 1}, 9));
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  EXPECT_EQ(sum, group.size());
}

TEST(MpiGroup, RefusesANullCommunicator) {
  try {
    Group group(MPI_COMM_NULL, 20);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::invalid_argument);
    EXPECT_NE(std::string(error.what()).find("found MPI_COMM_NULL"), std::string::npos)
        << error.what();
  }
}

TEST(MpiGroup, GivesUpAtTheDeadlineAndNamesItsWait) {
  Group group(MPI_COMM_WORLD, 20);
  if (group.rank().value != group.size() - 1) {  // the last rank does not join
    try {
      group.allgather(bytes_of(group.rank(), 3), Deadline::after(0.3));
      ADD_FAILURE() << "the missing rank was not noticed";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::timed_out);
      for (const char* part : {"MPI_Iallgather", "rank", " s for the others"})
        EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
    EXPECT_THROW(group.broadcast({}, soon()), Error) << "a group that is stuck stays stuck";
  }
  MPI_Barrier(MPI_COMM_WORLD);  // MPI itself still works
}

TEST(MpiGroup, ResumesACallThatItsRanksHaveLeft) {
  Group group(MPI_COMM_WORLD, 20);
  const Rank last{group.size() - 1};
  if (last == Rank{0}) return;
  for (const std::size_t count : {std::size_t{3}, std::size_t{1000}}) {  // in one part, then in two
    bool leaves = group.rank() != last;
    group.watch([&] {
      if (leaves) throw Error(Errc::cancelled, "leaves");
    });
    std::vector<Bytes> all;
    if (leaves) {
      EXPECT_THROW(group.allgather(bytes_of(group.rank(), count), soon()), Error);
      leaves = false;
      MPI_Barrier(MPI_COMM_WORLD);
      all = group.finish(soon());
    } else {
      MPI_Barrier(MPI_COMM_WORLD);
      all = group.allgather(bytes_of(group.rank(), count), soon());
    }
    ASSERT_EQ(all.size(), static_cast<std::size_t>(group.size()));
    for (const Rank r : core::all_ranks(group.size())) EXPECT_EQ(all[at(r)], bytes_of(r, count));
    EXPECT_EQ(group.broadcast(bytes_of(group.rank(), count), soon()), bytes_of(Rank{0}, count));
  }
}

TEST(MpiGroup, DoesNotWaitForeverForALateRank) {
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm comm = MPI_COMM_NULL;  // unusable after the failed duplication
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  // Nor does the late rank wait forever for those that have given up.
  constexpr int gave_up = 1;
  for (int other = 0; rank == size - 1 && other < size - 1; ++other)
    MPI_Recv(nullptr, 0, MPI_BYTE, other, gave_up, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  try {
    Group group(comm, 0.3);
    ADD_FAILURE() << "the missing rank was not noticed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::timed_out);
    EXPECT_NE(std::string(error.what()).find("duplication"), std::string::npos) << error.what();
  }
  if (rank != size - 1) MPI_Send(nullptr, 0, MPI_BYTE, size - 1, gave_up, MPI_COMM_WORLD);
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST(MpiGroupEndpoint, GivesUpAllSendsTogether) {
  GroupEndpoint endpoint(MPI_COMM_WORLD, 20);
  static const Bytes bytes(4 << 20);  // MPI may touch it later
  if (endpoint.group().rank() == Rank{0}) {
    const auto began = std::chrono::steady_clock::now();
    std::vector<Request> sends;
    for (int i = 0; i < 100; ++i)
      sends.push_back(endpoint.send(Rank{1}, 0, bytes));  // no rank receives
    sends.clear();
    endpoint.give_up();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    EXPECT_LT(took.count(), 45) << "expected half a second for all, not for each";
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

}  // namespace

}  // namespace tremula::transport::mpi
