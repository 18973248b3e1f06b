// SPDX-License-Identifier: Apache-2.0
#include "client/session/endpoint_group.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "core/error.hpp"
#include "tests/core/error_of.hpp"
#include "transport/loopback/loopback.hpp"

namespace tremula::client {
namespace {

using core::Bytes, core::Deadline, core::Rank, core::RankCount;

/// Runs `body` on every rank of a group of `size` threads.
void with_group(RankCount size, const std::function<void(EndpointGroup&)>& body) {
  transport::Network network(0);  // strictest: a send completes only when it is received
  transport::Loopback loopback(network);
  std::vector<std::unique_ptr<transport::Endpoint>> endpoints;
  std::vector<transport::Address> addresses;
  for (const Rank r : core::all_ranks(size)) {
    endpoints.push_back(loopback.open(
        "loopback", r == Rank{0} ? transport::Side::producer : transport::Side::consumer));
    addresses.push_back(endpoints.back()->address());
  }
  const std::span all(addresses);
  for (std::size_t r = 0; r < endpoints.size(); ++r)
    endpoints[r]->connect(r == 0 ? all.subspan(1) : all.first(1), Deadline::after(1));
  std::vector<std::thread> threads;
  for (const Rank r : core::all_ranks(size))
    threads.emplace_back([&, r] {
      EndpointGroup group(std::move(endpoints[at(r)]), r, size);
      body(group);
    });
  for (auto& t : threads) t.join();
}

Bytes bytes_of(Rank rank, std::size_t count) {
  return Bytes(count, static_cast<std::byte>(rank.value + 1));
}

TEST(EndpointGroup, GivesEveryRankTheBytesOfAllRanks) {
  for (const RankCount size : {2, 3, 7})
    with_group(size, [size](EndpointGroup& group) {
      for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{100000}}) {
        const auto all =
            group.allgather(bytes_of(group.rank(), count + at(group.rank())), Deadline::after(10));
        ASSERT_EQ(all.size(), static_cast<std::size_t>(size));
        for (const Rank r : core::all_ranks(size))
          EXPECT_EQ(all[at(r)], bytes_of(r, count + at(r)));
        EXPECT_EQ(group.broadcast(bytes_of(group.rank(), count), Deadline::after(10)),
                  bytes_of(Rank{0}, count));
      }
    });
}

TEST(EndpointGroup, ResumesACallThatItsRanksHaveLeft) {
  constexpr RankCount size = 3;
  for (const bool gathers : {true, false})
    for (const Rank late : {Rank{0}, Rank{2}}) {
      std::atomic<int> left = 0;
      with_group(size, [&](EndpointGroup& group) {
        const bool is_late = group.rank() == late || (!gathers && group.rank() == Rank{0});
        bool leaves = !is_late;
        group.watch([&] {
          if (leaves) throw core::Error(core::Errc::cancelled, "leaves");
        });
        const int leaving = gathers || late == Rank{0} ? size - 1 : 1;
        while (is_late && left < leaving) std::this_thread::yield();
        const auto mine = bytes_of(group.rank(), 5);
        const auto call = [&] {
          return gathers ? group.allgather(mine, Deadline::after(60))
                         : std::vector<Bytes>(1, group.broadcast(mine, Deadline::after(60)));
        };
        std::vector<Bytes> all;
        if (is_late) {
          all = call();
        } else {
          EXPECT_THROW(call(), core::Error);
          leaves = false;
          ++left;
          EXPECT_THROW(call(), core::Error) << "the previous call has not ended";
          all = group.finish(Deadline::after(60));
        }
        for (const Rank r : core::all_ranks(gathers ? size : 1))
          if (gathers || group.rank() != Rank{0}) {
            EXPECT_EQ(all[at(r)], bytes_of(r, 5));
          }
        EXPECT_EQ(group.allgather(mine, Deadline::after(60)).back(), bytes_of(Rank{size - 1}, 5));
      });
    }
}

// Notes arrive whatever calls the ranks make meanwhile.
TEST(EndpointGroup, ReceivesNotesDuringItsCalls) {
  for (const RankCount size : {2, 5})
    with_group(size, [size](EndpointGroup& group) {
      const auto take = [&] {
        for (const Deadline until = Deadline::after(30); !until.expired();)
          if (auto note = group.take_note()) return *note;
        ADD_FAILURE() << "rank " << group.rank().value << " has received no note";
        return EndpointGroup::Note{};
      };
      const Rank rank = group.rank();
      for (const std::size_t count : {std::size_t{1}, EndpointGroup::most_note_bytes}) {
        if (rank != Rank{0}) group.send_note(Rank{0}, bytes_of(rank, count));
        EXPECT_EQ(group.allgather(bytes_of(rank, 3), Deadline::after(30)).back(),
                  bytes_of(Rank{size - 1}, 3));
        if (rank == Rank{0}) {
          for (RankCount other = 1; other < size; ++other) {
            const auto note = take();
            EXPECT_EQ(note.bytes, bytes_of(note.from, count));
            group.send_note(note.from, note.bytes);
          }
        } else {
          const auto note = take();
          EXPECT_EQ(note.from, Rank{0});
          EXPECT_EQ(note.bytes, bytes_of(rank, count));
        }
        group.allgather({}, Deadline::after(30));
      }
    });
}

// Rank 1 leaves once its last note has arrived. The other ranks can still exchange notes, and can
// still send notes to rank 1.
TEST(EndpointGroup, ReceivesNotesAfterARankHasLeft) {
  std::atomic<bool> has_left = false, is_over = false;
  with_group(3, [&](EndpointGroup& group) {
    const auto take = [&] {
      for (const Deadline until = Deadline::after(30); !until.expired();)
        if (auto note = group.take_note()) return *note;
      ADD_FAILURE() << "rank " << group.rank().value << " has received no note";
      return EndpointGroup::Note{};
    };
    if (group.rank() == Rank{0}) {
      EXPECT_EQ(take().from, Rank{1});
      has_left = true;
      while (!is_over) {
        EXPECT_FALSE(group.take_note());
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        group.send_note(Rank{1}, bytes_of(Rank{0}, 5));  // rank 1 is gone
        group.send_note(Rank{2}, bytes_of(Rank{0}, 7));
      }
    } else if (group.rank() == Rank{1}) {
      group.send_note(Rank{0}, bytes_of(Rank{1}, 3));
      while (!has_left) group.take_note();
    } else {
      for (int i = 0; i < 3; ++i) EXPECT_EQ(take().bytes, bytes_of(Rank{0}, 7));
      is_over = true;
    }
  });
}

TEST(EndpointGroup, RefusesPartsOfAnotherNumberOfRanks) {
  for (const std::uint64_t count : {std::uint64_t{2}, std::uint64_t{4}}) {
    transport::Network network(100);
    transport::Loopback loopback(network);
    const auto root = loopback.open("loopback", transport::Side::producer);
    auto end = loopback.open("loopback", transport::Side::consumer);
    const std::vector<transport::Address> of_root{root->address()}, of_rank{end->address()};
    root->connect(of_rank, Deadline::after(60));
    end->connect(of_root, Deadline::after(60));
    EndpointGroup rank(std::move(end), Rank{1}, 3);
    // As rank 0 sends them: the length of all, then the parts, which are empty and consist of their lengths.
    const std::vector<std::uint64_t> parts(count, 0), length{count * sizeof(std::uint64_t)};
    std::uint64_t their_length = 0;
    Bytes theirs(1);
    const auto writable = std::as_writable_bytes(std::span(&their_length, 1));
    std::vector<transport::Request> requests;
    requests.push_back(root->receive(Rank{0}, 1, writable));
    requests.push_back(root->receive(Rank{0}, 2, theirs));
    requests.push_back(root->send(Rank{0}, 1, std::as_bytes(std::span(length))));
    requests.push_back(root->send(Rank{0}, 2, std::as_bytes(std::span(parts))));
    const auto text = core::error_of(
        [&] { rank.allgather(bytes_of(Rank{1}, 1), Deadline::after(60)); }, core::Errc::protocol);
    EXPECT_NE(text.find(fmt::format("found those of {} ranks", count)), std::string::npos) << text;
  }
}

TEST(EndpointGroup, GivesUpOnAnAbsentRank) {
  with_group(2, [](EndpointGroup& group) {
    if (group.rank() == Rank{1}) return;
    try {
      group.allgather({}, Deadline::after(0.1));
      ADD_FAILURE() << "expected an error";
    } catch (const core::Error& e) {
      EXPECT_TRUE(e.code() == core::Errc::timed_out || e.code() == core::Errc::peer_lost)
          << e.what();
    }
    try {  // a late message must not be mistaken for the next one
      group.broadcast({}, Deadline::after(60));
      ADD_FAILURE() << "expected an error";
    } catch (const core::Error& e) {
      EXPECT_NE(std::string(e.what()).find("never ended"), std::string::npos) << e.what();
    }
  });
}

}  // namespace
}  // namespace tremula::client
