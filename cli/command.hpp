// SPDX-License-Identifier: Apache-2.0
#pragma once
// The commands of `tremula`. Each is in a file that is named after it, adds itself to the command
// line, and runs if it is chosen; it fails by throwing core::Error.
#include <string>

namespace CLI {
class App;
}

namespace tremula::cli {

/// Adds all commands, and the options of `tremula` itself.
void add_commands(CLI::App& app);
void add_bench(CLI::App& app);
void add_plan(CLI::App& app);
void add_serve(CLI::App& app);
void add_status(CLI::App& app);
void add_version(CLI::App& app);
/// Parses the command line and runs the command that it names.
/// @return the exit code: 0; 2 if the command line is not valid, which is reported on stderr
/// @throws std::exception if the command fails
int run(int argc, char** argv);
/// Returns e.g. "tremula 0.2.0 (protocol 2)".
std::string version_text();

}  // namespace tremula::cli
