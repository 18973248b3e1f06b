// SPDX-License-Identifier: Apache-2.0
#include "tests/contract/process_victim.hpp"
#include "tests/contract/thread_rig.hpp"
#include "transport/ofi/ofi.hpp"

namespace tremula::contract {

namespace {

std::unique_ptr<transport::Transport> make_ofi() {
  return std::make_unique<transport::Ofi>(
      transport::OfiOptions{.provider = "tcp;ofi_rxm", .bind = {}});
}

std::unique_ptr<Rig> make_rig() {
  return std::make_unique<ThreadRig>(
      9, first_way(*make_ofi()), make_ofi,
      [](Side survivor, Traffic traffic) { return start_victim(make_ofi, survivor, traffic); },
      /*is_readable=*/false);
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Ofi, TransportContract, testing::Values(RigFactory{"tcp", make_rig}),
                         name_of);

}  // namespace tremula::contract

int main(int count, char** arguments) {
  if (const auto status = tremula::contract::be_a_victim(
          tremula::contract::make_ofi, {arguments, static_cast<std::size_t>(count)}))
    return *status;
  testing::InitGoogleTest(&count, arguments);
  return RUN_ALL_TESTS();
}
