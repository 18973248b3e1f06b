// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace tremula::cli {

/// The command `tremula` as a separate process, with only the given TREMULA_* variables. The
/// destructor kills it if it is still running.
class Process {
public:
  enum class Output { pipe, terminal };
  /// @param user  user to run the process as, which only root can choose; nullopt for the test's user
  explicit Process(const std::vector<std::string>& arguments,
                   const std::vector<std::string>& variables = {}, Output output = Output::pipe,
                   std::optional<uid_t> user = std::nullopt);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void signal(int number) const;
  /// Returns the exit code; 128 + number for a signal; -1 if the process has not ended in time.
  int wait(double seconds = 60);
  /// Returns the output so far, which is complete once wait() has returned. On a terminal, output()
  /// holds both streams.
  std::string output();
  std::string errors();
  /// Stops reading its standard error and closes the pipe.
  void close_errors();

private:
  void drain(int& fd, std::string& into, bool until_end);
  pid_t pid_ = -1;
  int output_fd_ = -1, errors_fd_ = -1;
  std::string output_, errors_;
};

/// Result of a command.
struct Outcome {
  int code = 0;
  std::string output, errors;
};
/// Runs the commands in parallel.
std::vector<Outcome> run_all(const std::vector<std::vector<std::string>>& commands);

}  // namespace tremula::cli
