// SPDX-License-Identifier: Apache-2.0
#pragma once
// The way from what a user calls the server to the server itself, which may start later.
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "core/deadline.hpp"
#include "core/key.hpp"
#include "transport/control/address.hpp"
#include "transport/control/control_connection.hpp"
#include "transport/control/tls.hpp"

namespace tremula::transport {

/// The server as a user names it, and where: both are for messages, too.
struct ServerName {
  std::string text;       ///< "host:port", or "file:PATH" of the server's port file
  std::string from;       ///< "TREMULA_SERVER", "--server" and so on
  core::KeySource key{};  ///< if it names none, the key beside the port file or of the port serves
  TlsTrust tls{};         ///< how its certificate is known; for `Attempt` to use
};

/// Where a server leaves its key for those that find it by its port file and may read this, too.
std::filesystem::path key_file_beside(const std::filesystem::path& port_file);

/// Connects to the address and asks for what is wanted there.
using Attempt = std::function<void(const HostPort& address, const std::optional<core::Key>& key,
                                   core::Deadline deadline)>;

/// Returns whose server `Attempt` may use inside this host: without a key only this user's and root's, unless the key
/// file `none` is named.
TrustedUsers trusted_users(const ServerName& server, const std::optional<core::Key>& key);

/// One attempt at the address that `server` stands for now: its files are read each time.
/// @throws core::Error what `attempt` throws; if that is no_server, also where the address was
/// given, and that a port file is stale. invalid_argument or no_server if there is no address, or no
/// key where one was named
void try_server(const ServerName& server, const Attempt& attempt, core::Deadline deadline);

/// Attempts, again and again, until one does not throw no_server or `deadline` has passed: the
/// server, or its port file, may come later. Blocks.
/// @param tell  called once, after about a second, with what an attempt has found
/// @throws core::Error as try_server: what the last attempt has thrown
void wait_for_server(const ServerName& server, const Attempt& attempt, core::Deadline deadline,
                     const std::function<void(const std::string& found)>& tell);

}  // namespace tremula::transport
