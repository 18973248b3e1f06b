// SPDX-License-Identifier: Apache-2.0
#pragma once
// Command lines that the man pages show as examples.
#include <span>
#include <string_view>

namespace tremula::cli::manual {

struct Example {
  std::string_view line;    // as it is typed
  std::string_view effect;  // whole sentences
};

/// Returns the examples of a command, e.g. of "plan"; empty if there are no examples.
std::span<const Example> examples(std::string_view command);

}  // namespace tremula::cli::manual
