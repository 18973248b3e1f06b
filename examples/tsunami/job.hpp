// SPDX-License-Identifier: Apache-2.0
#pragma once
// The common frame of both programs: MPI, a command line, and an exit that never leaves ranks
// waiting.
#include <mpi.h>

#include <cstdio>
#include <exception>
#include <map>
#include <stdexcept>
#include <string>

namespace tsunami {

/// `--name value` pairs with defaults; `--help` lists them.
class CommandLine {
public:
  CommandLine(int argc, char** argv, std::map<std::string, std::string> defaults)
      : values_(std::move(defaults)) {
    for (int i = 1; i < argc; i += 2) {
      const std::string name = argv[i];
      if (name == "--help") {
        asks_help_ = true;
        return;
      }
      if (!name.starts_with("--") || !values_.contains(name.substr(2)) || i + 1 == argc) {
        throw std::runtime_error("expected options with a value, found " + name +
                                 "; the options are:\n" + text());
      }
      values_[name.substr(2)] = argv[i + 1];
    }
  }
  bool asks_help() const { return asks_help_; }
  const std::string& operator[](const std::string& name) const { return values_.at(name); }
  /// Returns a line for each option, with its value.
  std::string text() const {
    std::string lines;
    for (const auto& [name, value] : values_) {
      lines.append("  --").append(name).append(" ").append(value).append("\n");
    }
    return lines;
  }

private:
  std::map<std::string, std::string> values_;
  bool asks_help_ = false;
};

/// Returns the number of relief points along a cell's side, from the option --cell-minutes.
inline long nodes_per_cell(const CommandLine& options) {
  const std::string& minutes = options["cell-minutes"];
  if (minutes == "5") return 1;
  if (minutes == "10") return 2;
  if (minutes == "20") return 4;
  throw std::runtime_error("--cell-minutes: expected 5, 10 or 20, found " + minutes);
}

/// Runs `work` between MPI_Init_thread and MPI_Finalize. An exception on one rank ends the whole
/// job with status 1, because the other ranks wait for this one.
/// @return what main must return
template <class Work>
int run_job(int argc, char** argv, Work work) {
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE,
                  &provided);  // Tremula's mpi transport needs it
  int status = 1;
  try {
    status = work();
  } catch (const std::exception& error) {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    std::fprintf(stderr, "%s rank %d: %s\n", argv[0], rank, error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return status;
}

}  // namespace tsunami
