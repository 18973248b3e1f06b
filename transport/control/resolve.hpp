// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <boost/asio/ip/tcp.hpp>
#include <vector>

#include "core/deadline.hpp"
#include "transport/control/address.hpp"

namespace tremula::transport {

/// Returns the addresses of a host name, in the system's order of preference.
/// @throws core::Error no_server if the name is unknown or the name service does not answer in time
std::vector<boost::asio::ip::tcp::endpoint> resolve(const HostPort& address,
                                                    core::Deadline deadline);

}  // namespace tremula::transport
