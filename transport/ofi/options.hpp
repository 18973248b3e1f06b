// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

namespace tremula::transport {

struct OfiOptions {
  /// libfabric's name of the only provider to use, e.g. "tcp;ofi_rxm"; empty for all that are known
  /// to work.
  std::string provider;
  /// Address or interface that peers on other machines may use, e.g. "10.0.0.5" or "eth0"; empty
  /// if nothing is to listen beyond this machine.
  std::string bind;
};

}  // namespace tremula::transport
