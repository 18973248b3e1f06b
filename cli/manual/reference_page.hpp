// SPDX-License-Identifier: Apache-2.0
#pragma once
// The page "Commands" of the manual, as Markdown.
#include <string>

#include "cli/manual/definitions.hpp"

namespace tremula::cli::manual {

/// Returns a page that describes all commands, each with its options and notes.
std::string reference_page(const Program& program);

}  // namespace tremula::cli::manual
