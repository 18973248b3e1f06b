// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>

#include "transport/control/reach_server.hpp"

namespace tremula::cli {

/// Returns the server that a command contacts.
/// @param server       --server: "host:port" or "file:PATH"
/// @param port_file    --port-file
/// @param environment  TREMULA_SERVER, in the form of --server; nullptr if it is not set
/// @param key          where to find the server's key
/// @param tls          how to recognise the server's certificate
/// @return the first of the three that is given, else localhost:7423
transport::ServerName find_server(const std::optional<std::string>& server,
                                  const std::optional<std::string>& port_file,
                                  const char* environment, const core::KeySource& key = {},
                                  const transport::TlsTrust& tls = {});

}  // namespace tremula::cli
