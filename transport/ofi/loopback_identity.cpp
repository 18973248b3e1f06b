// SPDX-License-Identifier: Apache-2.0
#include "transport/ofi/loopback_identity.hpp"

#include <filesystem>
#include <fstream>

namespace tremula::transport::ofi {

std::string loopback_identity() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  std::error_code ignored;
  const auto link = std::filesystem::read_symlink("/proc/self/ns/net", ignored).string();
  const auto open = link.find('['), close = link.find(']');
  return boot + '.' + (close == std::string::npos ? "0" : link.substr(open + 1, close - open - 1));
}

}  // namespace tremula::transport::ofi
