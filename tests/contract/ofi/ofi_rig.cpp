// SPDX-License-Identifier: Apache-2.0
#include "tests/contract/ofi/process_victim.hpp"
#include "tests/contract/thread_rig.hpp"
#include "transport/ofi/ofi.hpp"

namespace tremula::contract {

namespace {

RigFactory rig(std::string name, const std::string& provider) {
  return {
      std::move(name), [provider]() -> std::unique_ptr<Rig> {
        const transport::OfiOptions options{.provider = provider, .bind = {}};
        return std::make_unique<ThreadRig>(
            9, transport::Ofi(options).offers().front(),
            [options] { return std::make_unique<transport::Ofi>(options); },
            [provider](Side survivor, Act act) { return start_victim(provider, survivor, act); });
      }};
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Ofi, TransportContract,
                         testing::Values(rig("shm", "shm"), rig("tcp", "tcp;ofi_rxm")), name_of);

}  // namespace tremula::contract

int main(int count, char** arguments) {
  if (const auto status =
          tremula::contract::be_a_victim({arguments, static_cast<std::size_t>(count)}))
    return *status;
  testing::InitGoogleTest(&count, arguments);
  return RUN_ALL_TESTS();
}
