// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "core/log.hpp"
#include "server/config.hpp"

namespace tremula::server {

/// A whole server: opens the port, writes the port file, serves until SIGINT or SIGTERM, removes
/// the port file. Blocks. At most once in a process: it handles the two signals and raises the
/// limit of open files.
/// @throws core::Error invalid_argument as Listener and write_port_file
void serve(const Config& config, const std::string& version, const core::Log& log);

}  // namespace tremula::server
