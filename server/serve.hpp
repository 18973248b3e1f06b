// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "core/log.hpp"
#include "server/config.hpp"

namespace tremula::server {

/// Runs a whole server: opens the port, writes the port file, serves until SIGINT, SIGTERM or
/// SIGHUP, removes the port file. Blocks. At most once in a process: it handles these signals and
/// raises the limit of open files.
/// @throws core::Error invalid_argument as Listener and write_port_file do
void serve(const Config& config, const std::string& version, const core::Log& log);

}  // namespace tremula::server
