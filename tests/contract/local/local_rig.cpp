// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>

#include <algorithm>
#include <atomic>

#include "tests/contract/process_victim.hpp"
#include "tests/contract/thread_rig.hpp"
#include "transport/local/hybrid.hpp"
#include "transport/local/local.hpp"
#include "transport/loopback/loopback.hpp"

namespace tremula::contract {

namespace {

using transport::Local, transport::HybridTransport, transport::Loopback, transport::Network;

std::unique_ptr<transport::Transport> make_local() { return std::make_unique<Local>(); }

/// Returns the largest number of participants. Each needs two descriptors while it connects.
RankCount participants() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<RankCount>(std::clamp<rlim_t>(limit.rlim_cur, 100, 2102) - 100) / 2;
}

std::unique_ptr<Rig> make_rig() {
  return std::make_unique<ThreadRig>(
      participants(), Local().offers().front(), make_local,
      [](Side survivor, Traffic traffic) { return start_victim(make_local, survivor, traffic); });
}

/// Returns a factory for rigs that combine local with loopback.
/// @param machines  number of machines among which the participants are distributed
RigFactory rig_of(std::string name, int machines) {
  return {std::move(name), [machines]() -> std::unique_ptr<Rig> {
            struct Shared {
              Network network;
              std::atomic<int> participants = 0;
            };
            const auto shared = std::make_shared<Shared>();  // shared by all calls of the function
            return std::make_unique<ThreadRig>(
                participants(), "local+loopback",
                [shared, machines] {
                  return std::make_unique<HybridTransport>(
                      std::make_unique<Loopback>(shared->network),
                      std::to_string(shared->participants++ % machines));
                },
                nullptr, /*is_readable=*/machines > 1);
          }};
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Local, TransportContract,
                         testing::Values(RigFactory{"alone", make_rig},
                                         rig_of("and_loopback_on_one_machine", 1),
                                         rig_of("and_loopback_on_two_machines", 2)),
                         name_of);

}  // namespace tremula::contract

int main(int count, char** arguments) {
  if (const auto status = tremula::contract::be_a_victim(
          tremula::contract::make_local, {arguments, static_cast<std::size_t>(count)}))
    return *status;
  testing::InitGoogleTest(&count, arguments);
  return RUN_ALL_TESTS();
}
