// SPDX-License-Identifier: Apache-2.0
// Exit code: 0 success, 1 the command failed, 2 the command line is not valid.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>

#include "cli/command.hpp"

namespace {

int run(int argc, char** argv) {
  CLI::App app;
  tremula::cli::add_commands(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = error.get_exit_code();
    const bool has_words_left = code == static_cast<int>(CLI::ExitCodes::ExtrasError) ||
                                code == static_cast<int>(CLI::ExitCodes::RequiredError);
    const std::string complaint = has_words_left ? tremula::cli::complaint(app) : "";
    if (complaint.empty()) return app.exit(error) == 0 ? 0 : 2;
    std::fprintf(stderr, "%s", complaint.c_str());
    return 2;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tremula: %s\n", error.what());
    return 1;
  }
}
