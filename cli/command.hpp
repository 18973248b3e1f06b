// SPDX-License-Identifier: Apache-2.0
#pragma once
// The commands of `tremula`. Each is in a file that is named after it, adds itself to the command
// line, and runs if it is chosen; it fails by throwing core::Error.
#include <CLI/App.hpp>
#include <string>

namespace tremula::cli {

/// Adds all commands, and the options of `tremula` itself.
void add_commands(CLI::App& app);
void add_bench(CLI::App& app);
void add_plan(CLI::App& app);
void add_serve(CLI::App& app);
void add_status(CLI::App& app);
void add_version(CLI::App& app);
/// Returns a text that names the word of the command line that no command takes and the command or
/// option that was probably meant; empty if there is no such word.
/// @param app  the app that has parsed the command line
std::string complaint(const CLI::App& app);
/// Returns e.g. "tremula 0.2.0 (protocol 2)".
std::string version_text();

}  // namespace tremula::cli
