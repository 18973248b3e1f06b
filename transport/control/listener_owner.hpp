// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <sys/types.h>

#include <filesystem>
#include <optional>

#include "transport/control/address.hpp"

namespace tremula::transport {

/// Returns the user whose process listens at a port of this host, where that is neither this user nor root;
/// of several the first one that the system lists. None if nobody else does, or it cannot be known: another
/// network or user namespace, a system without /proc.
/// @param server  "localhost", or a numeric address of the loopback network
/// @param net     the folder in which the system lists its sockets
std::optional<uid_t> foreign_listener(const HostPort& server,
                                      const std::filesystem::path& net = "/proc/net");

}  // namespace tremula::transport
