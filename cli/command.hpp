// SPDX-License-Identifier: Apache-2.0
#pragma once
// The commands of `tremula`. Each lives in a file of its name, adds itself to the command line, and
// runs when it was chosen; it fails by throwing core::Error.
#include <CLI/App.hpp>
#include <string>

namespace tremula::cli {

/// All of them, and what `tremula` itself has.
void add_commands(CLI::App& app);
void add_bench(CLI::App& app);
void add_plan(CLI::App& app);
void add_serve(CLI::App& app);
void add_status(CLI::App& app);
void add_version(CLI::App& app);
/// Returns which word of the command line no command takes, and which command or option was probably
/// meant; empty if there is no such word.
/// @param app  has parsed that line
std::string complaint(const CLI::App& app);
/// "tremula 0.2.0 (protocol 2)"
std::string version_text();

}  // namespace tremula::cli
