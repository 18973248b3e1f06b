// SPDX-License-Identifier: Apache-2.0
#include "tests/contract/thread_rig.hpp"

#include <array>
#include <thread>

namespace tremula::contract {

namespace {

std::string_view to_string(Side side) { return side == Side::producer ? "producer" : "consumer"; }

/// Barrier and address exchange of one test.
class Hub {
public:
  Hub(RankCount producers, RankCount consumers)
      : participants_(producers + consumers),
        addresses_{std::vector<Address>(static_cast<std::size_t>(producers)),
                   std::vector<Address>(static_cast<std::size_t>(consumers))} {}

  void meet(Endpoint* link) {
    std::unique_lock lock(mutex_);
    const std::uint64_t round = round_;
    if (++here_ == participants_) {
      here_ = 0;
      ++round_;
      return;
    }
    for (Patience patience; round_ == round;) {
      lock.unlock();
      if (link != nullptr) link->progress();
      patience.wait("another participant of the test");
      lock.lock();
    }
  }
  void put(Side side, Rank rank, const Address& address) {
    const std::lock_guard lock(mutex_);
    addresses_[static_cast<std::size_t>(side)][at(rank)] = address;
  }
  std::vector<Address> of(Side side) {
    const std::lock_guard lock(mutex_);
    return addresses_[static_cast<std::size_t>(side)];
  }

private:
  std::mutex mutex_;
  RankCount participants_, here_ = 0;
  std::uint64_t round_ = 0;
  std::array<std::vector<Address>, 2> addresses_;
};

class ThreadParticipant final : public Participant {
public:
  ThreadParticipant(Side my_side, Rank my_rank, RankCount my_peers, Hub& hub,
                    transport::Transport& transport, std::string_view offer)
      : Participant(my_side, my_rank, my_peers), hub_(hub), transport_(transport), offer_(offer) {}

  std::unique_ptr<Endpoint> open() override { return transport_.open(offer_, side); }
  std::vector<Address> swap_addresses(const Address& mine) override {
    hub_.put(side, rank, mine);
    hub_.meet(nullptr);
    auto theirs = hub_.of(side == Side::producer ? Side::consumer : Side::producer);
    hub_.meet(nullptr);
    return theirs;
  }
  void meet(Endpoint* link) override { hub_.meet(link); }

private:
  Hub& hub_;
  transport::Transport& transport_;
  std::string_view offer_;
};

}  // namespace

void ThreadRig::run(RankCount producers, RankCount consumers,
                    const std::function<void(Participant&)>& body) {
  Hub hub(producers, consumers);
  const auto take_part = [&](Side side, Rank rank, RankCount peers) {
    try {
      const auto transport = make_transport_();
      ThreadParticipant self(side, rank, peers, hub, *transport, offer_);
      body(self);
    } catch (const std::exception& error) {
      ADD_FAILURE() << to_string(side) << ' ' << rank.value << ": " << error.what();
    }
  };
  std::vector<std::jthread> threads;
  for (const Rank rank : core::all_ranks(producers))
    threads.emplace_back(take_part, Side::producer, rank, consumers);
  for (const Rank rank : core::all_ranks(consumers))
    threads.emplace_back(take_part, Side::consumer, rank, producers);
}

}  // namespace tremula::contract
