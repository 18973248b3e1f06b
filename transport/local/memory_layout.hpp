// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tremula::transport::local {

/// Version of what ranks lay into the memory that they share: doors, inboxes, rings. Changed with each of
/// them, one digit. It is a part of the identity of the host, so that ranks with different layouts have no
/// offer of `local` in common, are not near each other, and use a network.
inline constexpr int memory_layout = 2;

}  // namespace tremula::transport::local
