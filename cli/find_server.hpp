// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>

#include "transport/control/address.hpp"

namespace tremula::cli {

/// The server that a command asks, and where its address was given.
struct ServerChoice {
  transport::HostPort address;
  std::string from;  ///< "--server", "TREMULA_SERVER" and so on, for messages
  std::optional<std::string> port_file;
};

/// @param server       --server: "host:port" or "file:PATH"
/// @param port_file    --port-file
/// @param environment  TREMULA_SERVER, as --server; nullptr if it is not set
/// @return the first of the three that is given, else localhost:7423
/// @throws core::Error invalid_argument, or no_server for a port file that is missing or holds no
/// address
ServerChoice find_server(const std::optional<std::string>& server,
                         const std::optional<std::string>& port_file, const char* environment);

}  // namespace tremula::cli
