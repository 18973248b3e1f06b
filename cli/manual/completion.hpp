// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "cli/manual/definitions.hpp"

namespace tremula::cli::manual {

/// Scripts that complete commands, options and values from a list of choices; else names of files.
std::string bash_completion(const Program& program);
std::string zsh_completion(const Program& program);

}  // namespace tremula::cli::manual
