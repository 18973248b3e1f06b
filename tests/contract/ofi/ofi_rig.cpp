// SPDX-License-Identifier: Apache-2.0
#include "tests/contract/process_victim.hpp"
#include "tests/contract/thread_rig.hpp"
#include "transport/ofi/ofi.hpp"

namespace tremula::contract {

namespace {

std::unique_ptr<transport::Transport> make_ofi(const std::string& provider) {
  return std::make_unique<transport::Ofi>(transport::OfiOptions{.provider = provider, .bind = {}});
}

RigFactory rig(std::string name, const std::string& provider) {
  return {std::move(name), [provider]() -> std::unique_ptr<Rig> {
            return std::make_unique<ThreadRig>(
                9, make_ofi(provider)->offers().front(), [provider] { return make_ofi(provider); },
                [provider](Side survivor, Act act) {
                  return start_victim(make_ofi, provider, survivor, act);
                },
                /*is_readable=*/provider != "shm");
          }};
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Ofi, TransportContract,
                         testing::Values(rig("shm", "shm"), rig("tcp", "tcp;ofi_rxm")), name_of);

}  // namespace tremula::contract

int main(int count, char** arguments) {
  if (const auto status = tremula::contract::be_a_victim(
          tremula::contract::make_ofi, {arguments, static_cast<std::size_t>(count)}))
    return *status;
  testing::InitGoogleTest(&count, arguments);
  return RUN_ALL_TESTS();
}
