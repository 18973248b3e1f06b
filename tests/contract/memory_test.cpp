// SPDX-License-Identifier: Apache-2.0
// Tests reading a peer's memory on backends that can do so. On other backends, checks that no region
// is given.
#include <algorithm>
#include <chrono>

#include "core/error.hpp"
#include "tests/contract/contract.hpp"

namespace tremula::contract {

namespace {

using transport::Access, transport::MemoryRegion, transport::RegionKey;

constexpr std::size_t kibi = 1024, mebi = kibi * kibi;

/// Sends the key of the producer's region to the consumer. Returns it on both sides; 0, 0 if there
/// is none.
RegionKey share_key(Participant& self, Endpoint& link, const MemoryRegion* region) {
  RegionKey key{};
  if (self.side == Side::producer && region != nullptr) key = region->key();
  Request request = self.side == Side::producer
                        ? link.send(Rank{0}, 1, std::as_bytes(std::span(key)))
                        : link.receive(Rank{0}, 1, std::as_writable_bytes(std::span(key)));
  finish(link, request);
  return key;
}

}  // namespace

void TransportContract::on_readable(
    std::size_t bytes, const std::function<void(Participant&, Link&, Readable&)>& body) {
  on_link(1, 1, [&](Participant& self, Link& link) {
    Readable readable;
    if (self.side == Side::producer) {
      readable.bytes = pattern(bytes, 11);
      readable.region = link->register_memory(readable.bytes, Access::peers_read);
    }
    readable.key = share_key(self, *link, readable.region.get());
    ASSERT_EQ(readable.key != RegionKey{}, rig().is_readable());
    if (rig().is_readable()) body(self, link, readable);
  });
}

TEST_P(TransportContract, ReadsPiecesOfAPeersMemory) {
  on_readable(5 * mebi + 3, [](Participant& self, Link& link, Readable& readable) {
    if (self.side == Side::consumer) {
      const Bytes whole = pattern(5 * mebi + 3, 11);
      const std::vector<std::size_t> sizes{1, 7, 64, 65, 4 * kibi, 64 * kibi, mebi, 3 * mebi + 5};
      std::vector<Bytes> pieces;
      std::vector<Request> requests;
      for (const std::size_t size : sizes) pieces.emplace_back(size + 2, std::byte{42});
      for (std::size_t i = 0; i < sizes.size(); ++i)  // each piece ends at the last byte
        requests.push_back(link->read(Rank{0}, readable.key, whole.size() - sizes[i],
                                      std::span(pieces[i]).subspan(1, sizes[i])));
      finish(*link, requests);
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        EXPECT_EQ(requests[i].bytes(), sizes[i]);
        EXPECT_TRUE(std::ranges::equal(std::span(pieces[i]).subspan(1, sizes[i]),
                                       std::span(whole).last(sizes[i])));
        EXPECT_EQ(pieces[i].front(), std::byte{42});
        EXPECT_EQ(pieces[i].back(), std::byte{42});
      }
    }
    self.meet(link.get());
  });
}

TEST_P(TransportContract, KeepsManyReadsInFlight) {
  constexpr std::size_t piece = 3000, count = 4000;
  on_readable(piece * count, [](Participant& self, Link& link, Readable& readable) {
    if (self.side == Side::consumer) {
      Bytes room(piece * count);
      std::vector<Request> requests;
      for (std::size_t i = 0; i < count; ++i)
        requests.push_back(link->read(Rank{0}, readable.key, i * piece,
                                      std::span(room).subspan(i * piece, piece)));
      finish(*link, requests);
      EXPECT_TRUE(is_pattern(room, 11));
    }
    self.meet(link.get());
  });
}

TEST_P(TransportContract, ReadsAndMessagesGoTogether) {
  on_readable(8 * mebi, [](Participant& self, Link& link, Readable& readable) {
    Bytes room(8 * mebi), message = pattern(mebi, 12);
    for (int i = 0; i < 5; ++i) {
      std::vector<Request> requests;
      if (self.side == Side::consumer) {
        Bytes got(mebi);
        std::ranges::fill(room, std::byte{});
        requests.push_back(link->receive(Rank{0}, 3, got));
        requests.push_back(link->read(Rank{0}, readable.key, 0, room));
        requests.push_back(link->send(Rank{0}, 4, message));
        finish(*link, requests);
        EXPECT_TRUE(is_pattern(room, 11));
        EXPECT_TRUE(is_pattern(got, 12));
      } else {
        Bytes got(mebi);
        requests.push_back(link->send(Rank{0}, 3, message));
        requests.push_back(link->receive(Rank{0}, 4, got));
        finish(*link, requests);
        EXPECT_TRUE(is_pattern(got, 12));
      }
    }
    self.meet(link.get());
  });
}

TEST_P(TransportContract, EndedRegionCannotBeRead) {
  on_readable(mebi, [](Participant& self, Link& link, Readable& readable) {
    readable.region.reset();
    std::ranges::fill(readable.bytes, std::byte{1});  // they belong to the application again
    self.meet(link.get());
    if (self.side == Side::consumer) {
      Bytes room(mebi, std::byte{42});
      Request read = link->read(Rank{0}, readable.key, 0, room);
      EXPECT_THROW(finish(*link, read), core::Error);
      EXPECT_EQ(room, Bytes(mebi, std::byte{42}));
    }
    self.meet(link.get());
  });
}

TEST_P(TransportContract, ReadIsWholeOrFailsWhenThePeerGivesUp) {
  for (const int looks : {0, 1, 2, 5, 20, 100, 400}) {
    on_readable(32 * mebi, [looks](Participant& self, Link& link, Readable& readable) {
      if (self.side == Side::consumer) {
        Bytes room(32 * mebi);
        Request read = link->read(Rank{0}, readable.key, 0, room);
        self.meet(nullptr);
        bool is_whole = false;
        try {
          finish(*link, std::span(&read, 1), Patience(5));
          is_whole = true;
        } catch (const core::Error&) {
        }
        if (is_whole) {
          EXPECT_TRUE(is_pattern(room, 11)) << "after " << looks << " calls to progress()";
        }
        read.reset();
      } else {
        self.meet(nullptr);
        for (int i = 0; i < looks; ++i) link->progress();
        link->give_up();
        std::ranges::fill(readable.bytes, std::byte{1});  // they belong to the application again
      }
      self.meet(nullptr);
    });
    if (IsSkipped()) return;
  }
}

TEST_P(TransportContract, AbandonedReadLeavesTheBytesUnchanged) {
  on_readable(32 * mebi, [](Participant& self, Link& link, Readable& readable) {
    if (self.side == Side::consumer) {
      Bytes room(32 * mebi);
      Request read = link->read(Rank{0}, readable.key, 0, room);
      link->progress();
      const auto start = Deadline::Clock::now();
      read.reset();  // while the peer does nothing
      EXPECT_LT(Deadline::Clock::now() - start, std::chrono::seconds(40));
      std::ranges::fill(room, std::byte{42});
      self.meet(nullptr);
      try {
        for (int i = 0; i < 1000; ++i) link->progress();
      } catch (const core::Error&) {  // the reset may have broken the link
      }
      EXPECT_EQ(room, Bytes(32 * mebi, std::byte{42}));
    } else {
      self.meet(nullptr);
      try {
        for (int i = 0; i < 1000; ++i) link->progress();
      } catch (const core::Error&) {
      }
    }
    self.meet(nullptr);
  });
}

TEST_P(TransportContract, LargeReadOfMoreThan2GiBArrives) {
  constexpr std::size_t bytes = (std::size_t{2} << 30) + 4097;
  on_readable(bytes, [](Participant& self, Link& link, Readable& readable) {
    if (self.side == Side::consumer) {
      Bytes room(bytes);
      Request read = link->read(Rank{0}, readable.key, 0, room);
      finish(*link, std::span(&read, 1), Patience(240, 100));
      EXPECT_TRUE(is_pattern(room, 11));
    }
    self.meet(link.get());
  });
}

}  // namespace tremula::contract
