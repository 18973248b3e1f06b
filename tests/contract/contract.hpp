// SPDX-License-Identifier: Apache-2.0
#pragma once
// The promises of every transport, as one suite. A backend joins it with a Rig and one line:
//
//   INSTANTIATE_TEST_SUITE_P(Loopback, TransportContract, testing::Values(RigFactory{"strict",
//   make_strict_rig}));
//
// A test is a body that every rank of a link runs, producers and consumers alike. A backend inside
// one process runs one thread per rank. A program that is started once per rank runs the body for
// its own rank only; the programs of all ranks run the same tests in the same order.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "core/deadline.hpp"
#include "core/types.hpp"
#include "transport/transport.hpp"

namespace tremula::contract {

using core::Bytes, core::BytesView, core::Deadline, core::Rank, core::RankCount;
using transport::Address, transport::Endpoint, transport::Request, transport::Side, transport::Tag;

using Link = std::unique_ptr<Endpoint>;

/// Longest wait of the suite for any event, in seconds.
inline constexpr double patience_seconds = 30;

/// Pauses between two polls for an event. Yields the processor at first, then sleeps for increasing
/// times, so that hundreds of waiting participants leave the processor to the participant that works.
class Patience {
public:
  explicit Patience(double seconds = patience_seconds, int longest_nap_us = 5000)
      : seconds_(seconds), longest_nap_us_(longest_nap_us) {}
  /// Pauses once.
  /// @throws core::Error timed_out when the seconds have passed; its text names `what`
  void wait(std::string_view what);

private:
  double seconds_;
  int longest_nap_us_;
  Deadline deadline_ = Deadline::after(seconds_);
  int looks_ = 0;
};

/// One rank that takes part in a test.
class Participant {
public:
  Participant(Side my_side, Rank my_rank, RankCount ranks_opposite)
      : side(my_side), rank(my_rank), peers(ranks_opposite) {}
  virtual ~Participant() = default;
  Participant(const Participant&) = delete;
  Participant& operator=(const Participant&) = delete;

  const Side side;
  const Rank rank;
  const RankCount peers;  ///< ranks on the other side

  /// Opens this rank's end of the link under test, not yet connected. May be called again, for
  /// another link.
  virtual std::unique_ptr<Endpoint> open() = 0;
  /// Returns the addresses that the ranks on the other side passed, indexed by rank. Collective
  /// over all participants.
  /// @throws core::Error timed_out after `patience_seconds`
  virtual std::vector<Address> swap_addresses(const Address& mine) = 0;
  /// Waits until every participant has called it. Collective over all participants. Does not use
  /// the link under test, but calls `link->progress()` while it waits unless `link` is null.
  /// @throws core::Error timed_out after `patience_seconds`
  virtual void meet(Endpoint* link) = 0;

  /// Opens a link, swaps addresses and connects. Collective.
  std::unique_ptr<Endpoint> connected();
};

/// Behaviour of the other process of a test until it is killed.
enum class Traffic {
  idle,       ///< makes progress only
  sending,    ///< sends a sequence of 8 MiB messages, tag `traffic_tag`
  receiving,  ///< receives such a sequence
  chatting,   ///< sends and receives messages of `chat_bytes`, tag `traffic_tag`
};
inline constexpr Tag traffic_tag = 7;
inline constexpr std::size_t traffic_bytes = std::size_t{8} << 20, chat_bytes = 600;

/// Runs `traffic` on a connected link with one peer. Returns once `stopped` returns true.
void run_traffic(Traffic traffic, Endpoint& link, const std::function<bool()>& stopped);

/// A process (or a substitute for one) that is the only rank on the other side.
class Victim {
public:
  virtual ~Victim() = default;  ///< ends the process if it is still running
  /// Returns the survivor's end, connected to the victim. Called once.
  virtual std::unique_ptr<Endpoint> link() = 0;
  /// Ends the process as SIGKILL does: no goodbye, no clean-up. Returns when the process is gone.
  virtual void kill() = 0;
};

/// A backend's contribution to the suite.
class Rig {
public:
  virtual ~Rig() = default;
  /// Returns the largest number of participants of a link, both sides together; at least 2. A test
  /// that needs more is skipped.
  virtual RankCount participants() const = 0;
  /// Runs `body` for every rank of a link of `producers` x `consumers` ranks that this process owns
  /// (possibly none). Returns when all have ended. An exception from the body fails the test with a
  /// text that names the participant.
  virtual void run(RankCount producers, RankCount consumers,
                   const std::function<void(Participant&)>& body) = 0;
  /// Returns whether peers can read each other's memory; the suite checks the answer.
  virtual bool is_readable() const { return false; }
  /// Returns a peer to lose; null if the backend cannot make one (the test is then skipped).
  virtual std::unique_ptr<Victim> victim(Side survivor, Traffic traffic) = 0;
};

struct RigFactory {
  std::string name;  ///< letters, digits and underscores; part of the test's name
  std::function<std::unique_ptr<Rig>()> make;
};
inline void PrintTo(const RigFactory& factory, std::ostream* out) { *out << factory.name; }
inline std::string name_of(const testing::TestParamInfo<RigFactory>& info) {
  return info.param.name;
}

/// The suite. Tests whose name begins with Large move more than 2 GiB and are a separate
/// ctest entry.
class TransportContract : public testing::TestWithParam<RigFactory> {
protected:
  /// Runs `body` on a connected link of producers x consumers; skips the test if the rig has too
  /// few participants.
  void on_link(RankCount producers, RankCount consumers,
               const std::function<void(Participant&, Link&)>& body);
  /// Memory of the producer that the consumer may read.
  struct Readable {
    Bytes bytes;  // on the producer: pattern(bytes, 11); empty on the consumer
    std::unique_ptr<transport::MemoryRegion> region;
    transport::RegionKey key{};  // on both sides
  };
  /// Runs `body` on a link of one producer and one consumer. If the rig says that peers cannot read
  /// memory, only checks that no region is given.
  void on_readable(std::size_t bytes,
                   const std::function<void(Participant&, Link&, Readable&)>& body);
  Rig& rig() { return *rig_; }

private:
  void SetUp() override { rig_ = GetParam().make(); }
  std::unique_ptr<Rig> rig_;
};

/// Calls progress and test until all of `requests` have finished.
/// @throws core::Error as Request::test; timed_out when `patience` runs out
void finish(Endpoint& link, std::span<Request> requests, Patience patience = Patience());
inline void finish(Endpoint& link, Request& request) { finish(link, std::span(&request, 1)); }

/// Returns and prints a seed for random choices of a test; takes it from TREMULA_TEST_SEED if that
/// is set.
std::uint64_t random_seed();

/// Returns bytes that depend on their position and on `seed`, so that a message in which bytes are
/// misplaced, or belong to another message, can be recognized.
Bytes pattern(std::size_t bytes, std::uint64_t seed);
/// Returns success if `found` is pattern(found.size(), seed), else a failure that names the first
/// 8 bytes that differ.
testing::AssertionResult is_pattern(BytesView found, std::uint64_t seed);

}  // namespace tremula::contract
