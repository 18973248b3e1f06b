// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tremula::transport::local {

/// Version of the layout of the memory that ranks share: locators, inboxes, rings. One digit, to be
/// increased whenever one of these changes. It is part of the identity of the host, so ranks
/// with different layouts have no offer of `local` in common, are not near each other, and use a
/// network.
inline constexpr int memory_layout = 2;

}  // namespace tremula::transport::local
