// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "cli/manual/definitions.hpp"

namespace tremula::cli::manual {

/// Returns a script that completes commands, options and values from lists of choices, and
/// otherwise file names.
std::string bash_completion(const Program& program);
std::string zsh_completion(const Program& program);

}  // namespace tremula::cli::manual
