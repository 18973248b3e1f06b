// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>

#include <algorithm>
#include <atomic>

#include "tests/contract/process_victim.hpp"
#include "tests/contract/thread_rig.hpp"
#include "transport/local/hybrid.hpp"
#include "transport/tcp/tcp.hpp"

namespace tremula::contract {

namespace {

using transport::HybridTransport, transport::Tcp;

std::unique_ptr<transport::Transport> make_tcp() { return std::make_unique<Tcp>(); }

/// Returns the largest number of participants. Each needs two descriptors, and two more for its
/// connection to the other side.
RankCount participants() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<RankCount>(std::clamp<rlim_t>(limit.rlim_cur, 100, 2102) - 100) / 4;
}

std::unique_ptr<Rig> make_rig() {
  return std::make_unique<ThreadRig>(
      participants(), first_way(*make_tcp()), make_tcp,
      [](Side survivor, Traffic traffic) { return start_victim(make_tcp, survivor, traffic); },
      /*is_readable=*/true);
}

/// Returns a rig that combines tcp with shared memory.
std::unique_ptr<Rig> make_hybrid_rig() {
  // Participants are dealt to two machines alternately.
  const auto dealt = std::make_shared<std::atomic<int>>(0);
  return std::make_unique<ThreadRig>(
      participants() / 2, "local+" + first_way(*make_tcp()),
      [dealt] {
        return std::make_unique<HybridTransport>(make_tcp(), std::to_string((*dealt)++ % 2));
      },
      nullptr, /*is_readable=*/true);
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Tcp, TransportContract,
                         testing::Values(RigFactory{"alone", make_rig},
                                         RigFactory{"and_local_on_two_machines", make_hybrid_rig}),
                         name_of);

}  // namespace tremula::contract

int main(int count, char** arguments) {
  if (const auto status = tremula::contract::be_a_victim(
          tremula::contract::make_tcp, {arguments, static_cast<std::size_t>(count)}))
    return *status;
  testing::InitGoogleTest(&count, arguments);
  return RUN_ALL_TESTS();
}
