// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>

#include <algorithm>

#include "tests/contract/process_victim.hpp"
#include "tests/contract/thread_rig.hpp"
#include "transport/local/local.hpp"

namespace tremula::contract {

std::unique_ptr<transport::Transport> make_local(const std::string&) {
  return std::make_unique<transport::Local>();
}

namespace {

/// Two descriptors each while they connect.
Rank seats() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<Rank>(std::clamp<rlim_t>(limit.rlim_cur, 100, 2102) - 100) / 2;
}

RigFactory rig() {
  return {"threads", []() -> std::unique_ptr<Rig> {
            return std::make_unique<ThreadRig>(
                seats(), transport::Local().offers().front(),
                [] { return std::make_unique<transport::Local>(); },
                [](Side survivor, Act act) {
                  return start_victim(make_local, "local", survivor, act);
                });
          }};
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Local, TransportContract, testing::Values(rig()), name_of);

}  // namespace tremula::contract

int main(int count, char** arguments) {
  if (const auto status = tremula::contract::be_a_victim(
          tremula::contract::make_local, {arguments, static_cast<std::size_t>(count)}))
    return *status;
  testing::InitGoogleTest(&count, arguments);
  return RUN_ALL_TESTS();
}
