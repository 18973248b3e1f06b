// SPDX-License-Identifier: Apache-2.0
// The rings by themselves, in memory at a single address, so that ThreadSanitizer sees both sides.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <random>
#include <thread>

#include "core/error.hpp"
#include "transport/local/rings.hpp"

namespace tremula::transport::local {
namespace {

struct Free {
  void operator()(std::byte* memory) const { ::operator delete (memory, std::align_val_t{4096}); }
};

/// An inbox in memory that is private to this process.
struct Memory {
  explicit Memory(std::size_t lanes)
      : bytes(Inbox::bytes_for(lanes)),
        memory(static_cast<std::byte*>(::operator new (bytes, std::align_val_t{4096}))),
        inbox(make(lanes)) {}
  Inbox make(std::size_t lanes) {
    std::fill_n(memory.get(), bytes, std::byte{0});
    std::vector<std::uint64_t> owners(lanes);
    std::iota(owners.begin(), owners.end(), 100);
    return Inbox::make({memory.get(), bytes}, owners);
  }
  std::size_t bytes;
  std::unique_ptr<std::byte, Free> memory;
  Inbox inbox;
};

/// Returns byte `at` of message `number`.
std::byte byte_of(std::uint64_t number, std::size_t at) {
  return static_cast<std::byte>(number * 131 + at * 7);
}
Bytes message(std::uint64_t number, std::size_t bytes) {
  Bytes made(bytes);
  for (std::size_t at = 0; at < bytes; ++at) made[at] = byte_of(number, at);
  return made;
}
/// Returns the length of message `number`, the same for writer and reader.
std::size_t length_of(std::uint64_t number) {
  constexpr std::size_t special[] = {0, 1, 47, 48, 49, 112, 113, 4095, eager_bytes};
  std::minstd_rand random(static_cast<unsigned>(number + 1));
  random.discard(2);
  return random() % 2 == 0 ? special[random() % std::size(special)] : random() % 300;
}

TEST(LocalRings, DeliverEveryCommandOnceAndInOrder) {
  constexpr std::uint64_t count = 40000;
  const Memory memory(1);
  std::thread writing([&] {
    CommandWriter writer(memory.inbox, 0);
    for (std::uint64_t i = 0; i < count;) {
      const auto payload = message(i, length_of(i));
      while (!writer.write(CommandKind::eager, ~i, payload)) std::this_thread::yield();
      ++i;
    }
  });
  CommandReader reader(memory.inbox.lane(0));
  for (std::uint64_t i = 0; i < count;) {
    const auto command = reader.front();
    if (!command) {
      std::this_thread::yield();
      continue;
    }
    ASSERT_EQ(command->kind, CommandKind::eager);
    ASSERT_EQ(command->tag, ~i);
    ASSERT_EQ(Bytes(command->payload.begin(), command->payload.end()), message(i, length_of(i)));
    reader.pop(*command);
    ++i;
  }
  EXPECT_FALSE(reader.front());
  writing.join();
}

TEST(LocalRings, TakeNoMoreCommandsThanTheyHaveRoomFor) {
  const Memory memory(1);
  CommandWriter writer(memory.inbox, 0);
  CommandReader reader(memory.inbox.lane(0));
  for (int round = 0; round < 1000; ++round) {
    std::size_t written = 0;
    while (writer.write(CommandKind::eager, written, Bytes())) ++written;
    ASSERT_EQ(written, command_lines - 1) << "one line is kept clear";
    for (std::size_t i = 0; i < written; ++i) {
      const auto command = reader.front();
      if (!command) FAIL() << "command " << i << " is lost";
      ASSERT_EQ(command->tag, i);
      reader.pop(*command);
    }
    ASSERT_FALSE(reader.front());
  }
}

TEST(LocalRings, DetectInvalidCommands) {
  const Memory memory(1);
  const CommandReader reader(memory.inbox.lane(0));
  const auto kind_of = [&](CommandKind kind, std::uint64_t bytes) {
    memory.inbox.lane(0).commands[0].word = static_cast<std::uint64_t>(kind) + 256 * bytes;
    return reader.front()->kind;
  };
  EXPECT_EQ(kind_of(CommandKind::eager, eager_bytes), CommandKind::eager);
  EXPECT_EQ(kind_of(CommandKind::eager, eager_bytes + 1), CommandKind::none);
  EXPECT_EQ(kind_of(CommandKind::pull, sizeof(Body)), CommandKind::pull);
  EXPECT_EQ(kind_of(CommandKind::pull, sizeof(Body) - 1), CommandKind::none);
}

TEST(LocalRings, MoveBytesInOrderInPartsOfAnySize) {
  constexpr std::size_t all = std::size_t{8} << 20;
  const Memory memory(1);
  Lane& lane = memory.inbox.lane(0);
  const Bytes out = message(1, all);
  std::thread writing([&] {
    DataWriter writer(lane);
    for (std::size_t done = 0; done < all;) {
      const auto part = std::min({writer.room(), all - done, 1 + done % 100000});
      writer.write(std::span(out).subspan(done, part));
      done += part;
      if (part == 0) std::this_thread::yield();
    }
    while (writer.read() != all) std::this_thread::yield();
  });
  Bytes in(all);
  DataReader reader(lane);
  for (std::size_t done = 0; done < all;) {
    const auto part = std::min(reader.available(), 1 + done % 70000);
    reader.read(done % 5 == 0 ? nullptr : in.data() + done, part);
    if (done % 5 == 0)
      std::copy_n(out.begin() + static_cast<std::ptrdiff_t>(done), part,
                  in.begin() + static_cast<std::ptrdiff_t>(done));
    done += part;
    if (part == 0) std::this_thread::yield();
  }
  writing.join();
  EXPECT_EQ(in, out);
}

TEST(LocalRings, LendNoMoreThanTheirBytes) {
  const Memory memory(1);
  Lane& lane = memory.inbox.lane(0);
  DataWriter writer(lane);
  DataReader reader(lane);
  EXPECT_EQ(writer.room(), data_bytes);
  writer.write(Bytes(data_bytes));
  EXPECT_EQ(writer.room(), 0u);
  reader.read(nullptr, 5);
  EXPECT_EQ(writer.room(), 5u);
  lane.data_written = ~std::uint64_t{0};  // by a misbehaving peer
  EXPECT_LE(reader.available(), data_bytes);
  lane.data_read = ~std::uint64_t{0};
  EXPECT_LE(writer.room(), data_bytes);
}

TEST(LocalInbox, HasALaneForEachOwnerAndBellsForMany) {
  for (const std::size_t lanes : {1u, 8u, 9u, 64u, 65u, 300u}) {
    const Memory memory(lanes);
    const Inbox seen({memory.memory.get(), memory.bytes});
    EXPECT_EQ(seen.lanes(), lanes);
    EXPECT_EQ(seen.has_bells(), lanes > 8);
    EXPECT_EQ(seen.lane_of(100 + lanes - 1), lanes - 1);
    EXPECT_FALSE(seen.lane_of(100 + lanes));
    EXPECT_EQ(reinterpret_cast<std::byte*>(&seen.lane(lanes - 1) + 1),
              memory.memory.get() + memory.bytes);
    CommandWriter(seen, lanes - 1).write(CommandKind::eager, 1, Bytes());
    EXPECT_EQ(seen.bells()[(lanes - 1) / 64], lanes > 8 ? std::uint64_t{1} << (lanes - 1) % 64 : 0);
    EXPECT_THROW(Inbox({memory.memory.get(), memory.bytes - 1}), core::Error);
  }
  std::array<std::byte, 100> other{};
  EXPECT_THROW(Inbox{std::span(other)}, core::Error);
}

}  // namespace
}  // namespace tremula::transport::local
