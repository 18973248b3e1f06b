// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>

#include "transport/control/reach_server.hpp"

namespace tremula::cli {

/// The server that a command asks.
/// @param server       --server: "host:port" or "file:PATH"
/// @param port_file    --port-file
/// @param environment  TREMULA_SERVER, as --server; nullptr if it is not set
/// @param key          where its key is
/// @param tls          how its certificate is known
/// @return the first of the three that is given, else localhost:7423
transport::ServerName find_server(const std::optional<std::string>& server,
                                  const std::optional<std::string>& port_file,
                                  const char* environment, const core::KeySource& key = {},
                                  const transport::TlsTrust& tls = {});

}  // namespace tremula::cli
