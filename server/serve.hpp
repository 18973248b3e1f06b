// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "core/log.hpp"
#include "server/config.hpp"

namespace tremula::server {

/// Runs a server: opens the port, writes the port file, serves until SIGINT, SIGTERM or SIGHUP, and
/// removes the port file. Blocks. May be called at most once in a process, because it handles these
/// signals and raises the limit on open files.
/// @throws core::Error invalid_argument as Listener and write_port_file do
void serve(const Config& config, const std::string& version, const core::Log& log);

}  // namespace tremula::server
