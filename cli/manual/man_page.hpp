// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "cli/manual/definitions.hpp"

namespace tremula::cli::manual {

/// Returns tremula.1, as source for man.
/// @param version "0.2.0"
std::string program_page(const Program& program, const std::string& version);
/// Returns tremula-serve.1 and so on.
std::string command_page(const Program& program, const Command& command,
                         const std::string& version);

}  // namespace tremula::cli::manual
