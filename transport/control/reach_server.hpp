// SPDX-License-Identifier: Apache-2.0
#pragma once
// Reaches the server that a user names, even if the server starts later.
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

/// The server as a user names it, and the place where it was named; messages show both.
struct ServerName {
  std::string text;       ///< "host:port", or "file:PATH" of the server's port file
  std::string from;       ///< "TREMULA_SERVER", "--server" and so on
  core::KeySource key{};  ///< if it names no key: the key next to the port file, or of the port
  TlsTrust tls{};         ///< how to recognize its certificate; for `ServerAttempt` to use
};

/// Returns the file in which a server leaves its key for processes that find the server by its port
/// file and may also read the key.
std::filesystem::path key_file_beside(const std::filesystem::path& port_file);

/// Connects to the address and makes the caller's request there.
using ServerAttempt = std::function<void(
    const HostPort& address, const std::optional<core::Key>& key, core::Deadline deadline)>;

/// Returns the users whose server an attempt may use within this host: without a key only this user
/// and root, unless the key file `none` is named.
TrustedUsers trusted_users(const ServerName& server, const std::optional<core::Key>& key);

/// Makes one attempt at the address that `server` currently stands for: its files are read each
/// time.
/// @throws core::Error as `attempt`; if that is no_server, the text also says where the address was
/// given, and, for a port file, that it is stale. invalid_argument or no_server if there is no
/// address, or no key although one was named
void try_server(const ServerName& server, const ServerAttempt& attempt, core::Deadline deadline);

/// Makes attempts until one does not throw no_server or `deadline` has passed: the server, or its
/// port file, may appear later. Blocks.
/// @param report  called once, after about a second, with the error of an attempt
/// @throws core::Error as try_server: the error of the last attempt
void wait_for_server(const ServerName& server, const ServerAttempt& attempt,
                     core::Deadline deadline,
                     const std::function<void(const std::string& found)>& report);

}  // namespace tremula::transport
