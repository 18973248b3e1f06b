// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <boost/asio/ip/tcp.hpp>
#include <filesystem>
#include <optional>
#include <string_view>

#include "core/deadline.hpp"
#include "core/error.hpp"

namespace tremula::transport {

/// Text in every error of objection_to_peer, and in no other error.
inline constexpr std::string_view accepted_connection = "has accepted the connection";

/// Waits until a process has accepted the other end of a connection within this host. Returns an
/// error, no_server, if that process is neither this user's nor root's, or if no process has accepted
/// the connection by the deadline. Returns nullopt if the process belongs to one of the two, if the
/// other side has closed, or if the user cannot be determined (another user namespace, or a system
/// without /proc). A port that is forwarded to another network namespace counts as not accepted.
/// @param net  the folder in which the system lists its sockets
std::optional<core::Error> objection_to_peer(const boost::asio::ip::tcp::endpoint& own,
                                             const boost::asio::ip::tcp::endpoint& other,
                                             core::Deadline deadline,
                                             const std::filesystem::path& net = "/proc/net");

}  // namespace tremula::transport
