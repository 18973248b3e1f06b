// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to this folder.
#include <string>

namespace tremula::transport::ofi {

/// Equal in two processes exactly if 127.0.0.1 is the same place for both: the boot of the machine,
/// and "4026531840" of the namespace "net:[4026531840]"; "0" where there is no /proc.
std::string loopback_identity();

}  // namespace tremula::transport::ofi
