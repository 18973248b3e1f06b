// SPDX-License-Identifier: Apache-2.0
#include <thread>

#include "tests/contract/thread_rig.hpp"
#include "transport/loopback/loopback.hpp"

namespace tremula::contract {

namespace {

using transport::Loopback, transport::Network;

/// A thread in place of a process. kill() makes the network lose the thread's messages, then ends the
/// thread.
class LostThread final : public Victim {
public:
  LostThread(Network& network, Side survivor, Traffic traffic) : network_(network) {
    Loopback loopback(network);
    mine_ = loopback.open("loopback", survivor);
    theirs_ =
        loopback.open("loopback", survivor == Side::producer ? Side::consumer : Side::producer);
    const auto deadline = Deadline::after(patience_seconds);
    mine_->connect(std::vector<Address>{theirs_->address()}, deadline);
    theirs_->connect(std::vector<Address>{mine_->address()}, deadline);
    thread_ = std::jthread([this, traffic](std::stop_token stop) {
      try {
        run_traffic(traffic, *theirs_, [&] { return stop.stop_requested(); });
      } catch (const std::exception&) {
        // its link is closed at the end of the test
      }
    });
  }
  std::unique_ptr<Endpoint> link() override { return std::move(mine_); }
  void kill() override {
    network_.lose(theirs_->address());
    thread_ = {};
  }

private:
  Network& network_;
  std::unique_ptr<Endpoint> mine_, theirs_;
  std::jthread thread_;
};

/// Returns a factory for rigs of loopback.
/// @param eager_bytes  as in Network
RigFactory rig(std::string name, std::size_t eager_bytes) {
  return {std::move(name), [eager_bytes]() -> std::unique_ptr<Rig> {
            auto network =
                std::make_shared<Network>(eager_bytes);  // shared by the functions of the rig
            return std::make_unique<ThreadRig>(
                1001, "loopback", [network] { return std::make_unique<Loopback>(*network); },
                [network](Side survivor, Traffic traffic) {
                  return std::make_unique<LostThread>(*network, survivor, traffic);
                },
                /*is_readable=*/true);
          }};
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Loopback, TransportContract,
                         testing::Values(rig("unbuffered", 0), rig("eager", 8192)), name_of);

}  // namespace tremula::contract
