// SPDX-License-Identifier: Apache-2.0
// Gives up operations while others with the same tag are queued after them, or when only some of
// their bytes have arrived, and closes links whose peer has left or makes no progress. A peer may also
// lie about its messages.
#include <mpi.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <thread>

#include "core/error.hpp"
#include "tests/contract/contract.hpp"
#include "transport/mpi/postbox.hpp"

namespace {
int freed_communicators = 0;
/// Makes this process state in its envelopes that each short message is empty.
bool understates_lengths = false;
}  // namespace
/// Replaces the library's own function, as the next one does.
extern "C" int MPI_Isend(const void* bytes, int count, MPI_Datatype type, int rank, int tag,
                         MPI_Comm comm, MPI_Request* request) {
  using tremula::transport::mpi::Envelope, tremula::transport::mpi::Postbox;
  Envelope envelope;
  if (understates_lengths && tag == Postbox::mpi_tag) {
    std::memcpy(&envelope, bytes, sizeof envelope);
    if (envelope.kind == Envelope::Kind::message) envelope.length = 0;
    std::memcpy(const_cast<void*>(bytes), &envelope, sizeof envelope);
  }
  return PMPI_Isend(bytes, count, type, rank, tag, comm, request);
}
extern "C" int MPI_Comm_free(MPI_Comm* comm) {
  ++freed_communicators;
  return PMPI_Comm_free(comm);
}

namespace tremula::contract {

namespace {

constexpr std::size_t mebi = std::size_t{1} << 20;

void progress_for(Endpoint& link, double seconds) {
  const auto deadline = Deadline::after(seconds);
  while (!deadline.expired()) {
    link.progress();
    std::this_thread::yield();
  }
}

/// Returns the process on the other side of a link of 1 x 1. Collective.
pid_t pid_of_peer(Participant& self) {
  const pid_t mine = getpid();
  const auto bytes = std::as_bytes(std::span(&mine, 1));
  const Address theirs = self.swap_addresses({bytes.begin(), bytes.end()}).at(0);
  pid_t peer = 0;
  std::ranges::copy(std::span(theirs).first(sizeof peer),
                    std::as_writable_bytes(std::span(&peer, 1)).begin());
  return peer;
}

}  // namespace

TEST_P(TransportContract, GivesTheMessageOfAGivenUpReceiveToTheNext) {
  on_link(1, 1, [](Participant& self, Link& link) {
    for (std::size_t bytes : {std::size_t{100}, mebi}) {
      std::vector<Request> requests;
      std::vector<Bytes> messages;
      if (self.side == Side::consumer) {
        messages.assign(4, Bytes(bytes));
        for (auto& message : messages) requests.push_back(link->receive(Rank{0}, 1, message));
        requests[2].reset();
        requests[0].reset();
        messages.push_back(Bytes(bytes));
        requests.push_back(link->receive(Rank{0}, 1, messages.back()));
      }
      self.meet(link.get());
      if (self.side == Side::producer) {
        for (std::uint64_t i = 0; i < 3; ++i) messages.push_back(pattern(bytes, i));
        for (auto& message : messages) requests.push_back(link->send(Rank{0}, 1, message));
      }
      finish(*link, requests);
      if (self.side == Side::consumer) {
        EXPECT_TRUE(is_pattern(messages[1], 0));
        EXPECT_TRUE(is_pattern(messages[3], 1));
        EXPECT_TRUE(is_pattern(messages[4], 2));
        EXPECT_EQ(messages[0], Bytes(bytes));
        EXPECT_EQ(messages[2], Bytes(bytes));
      }
      self.meet(link.get());
    }
  });
}

TEST_P(TransportContract, StopsAReceiveThatIsGivenUpHalfway) {
  on_link(1, 1, [](Participant& self, Link& link) {
    constexpr std::size_t bytes = 64 * mebi;
    Bytes message = self.side == Side::producer ? pattern(bytes, 7) : Bytes(bytes);
    Request request = self.side == Side::producer ? link->send(Rank{0}, 1, message)
                                                  : link->receive(Rank{0}, 1, message);
    if (self.side == Side::consumer) {
      const auto has_begun = [&] {
        return std::ranges::any_of(std::span(message).first(64),
                                   [](auto b) { return b != std::byte{0}; });
      };
      const auto deadline = Deadline::after(patience_seconds);
      while (!has_begun() && !deadline.expired()) link->progress();
      ASSERT_TRUE(has_begun());
      request.reset();
      std::ranges::fill(message, std::byte{42});
    }
    self.meet(link.get());  // the producer made progress until the receive was given up
    progress_for(*link, 0.3);
    if (self.side == Side::consumer) {
      EXPECT_TRUE(std::ranges::all_of(message, [](auto b) { return b == std::byte{42}; }));
    }
    request.reset();
    self.meet(link.get());
  });
}

TEST_P(TransportContract, RefusesAMessageLongerThanItsEnvelopeSays) {
  on_link(1, 1, [](Participant& self, Link& link) {
    const Bytes out = pattern(1000, 1);
    Bytes in(8);
    std::vector<Request> requests;
    if (self.side == Side::producer) {
      understates_lengths = true;
      requests.push_back(link->send(Rank{0}, 1, out));
      finish(*link, requests);
      understates_lengths = false;
    } else {
      requests.push_back(link->receive(Rank{0}, 1, in));
      try {
        finish(*link, requests);
        ADD_FAILURE() << "the message was accepted";
      } catch (const core::Error& error) {
        EXPECT_EQ(error.code(), core::Errc::protocol) << error.what();
      }
      EXPECT_EQ(in, Bytes(8));
    }
    self.meet(nullptr);
  });
}

TEST_P(TransportContract, EndsInOrderAfterItsPeerHasLeft) {
  rig().run(1, 1, [](Participant& self) {
    std::vector<Link> links(3);
    for (auto& link : links) {
      link = self.connected();
      std::array<std::byte, 8> out{}, in{};
      std::array<Request, 2> both{link->send(Rank{0}, 1, out), link->receive(Rank{0}, 1, in)};
      finish(*link, both);
    }
    const pid_t peer = pid_of_peer(self);
    // The rank that closes first waits in vain for its peer's goodbye, and MPI keeps the link.
    if (self.side == Side::producer) links.clear();
    self.meet(nullptr);
    links.clear();
    // MPI_Finalize of the producer must work although the other job no longer exists.
    for (Patience patience; self.side == Side::producer && kill(peer, 0) == 0;)
      patience.wait("the end of the other job");
  });
}

TEST_P(TransportContract, ClosesALinkToAGroupOfAnotherSize) {
  rig().run(1, 1, [](Participant& self) {
    Link link = self.open();
    std::vector<Address> addresses = self.swap_addresses(link->address());
    addresses.emplace_back();  // of a rank that does not exist
    try {
      link->connect(addresses, Deadline::after(patience_seconds));
      ADD_FAILURE() << "the link was accepted";
    } catch (const core::Error& error) {
      EXPECT_EQ(error.code(), core::Errc::transport) << error.what();
    }
    link.reset();
    self.meet(nullptr);
  });
}

TEST_P(TransportContract, FreesAnUnusedLinkWithoutItsPeer) {
  rig().run(1, 1, [](Participant& self) {
    Link link = self.connected();
    const int before = freed_communicators;
    if (self.side == Side::producer) link.reset();  // the consumer makes no progress meanwhile
    EXPECT_EQ(freed_communicators - before, self.side == Side::producer ? 1 : 0)
        << "an unused link must be freed, even if its peer has not said goodbye";
    self.meet(nullptr);
  });
}

}  // namespace tremula::contract
