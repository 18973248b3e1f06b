// SPDX-License-Identifier: Apache-2.0
#pragma once
// Processes that a command starts and a folder that it fills. Both disappear with the command.
#include <signal.h>
#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace tremula::cli {

/// Blocks SIGINT and SIGTERM while this object exists. expect_no_signal() finds a pending signal,
/// which ends the process when this object is destroyed, after everything else has been cleaned up.
class HeldSignals {
public:
  HeldSignals();
  ~HeldSignals();
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

private:
  sigset_t before_;
};

/// @throws core::Error cancelled if SIGINT or SIGTERM is pending
void expect_no_signal();

/// A temporary directory.
class Folder {
public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::filesystem::path& path() const { return path_; }

private:
  std::filesystem::path path_;
};

/// Child processes that end with this process or with this object.
class Children {
public:
  Children() = default;
  ~Children();
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;

  /// Starts a child.
  /// @param name    name in errors, e.g. "the server"
  /// @param work    work of the child, which then ends
  /// @param output  file for the output of the child; empty: it writes where this process does
  void start(const std::string& name, const std::function<void()>& work,
             const std::filesystem::path& output = {});
  /// Returns how many children have not ended.
  /// @throws core::Error internal naming a child that ended with a status other than 0, with its
  /// output
  std::size_t count_running();

private:
  struct Child {
    pid_t pid;
    std::string name;
    std::filesystem::path output;
  };
  std::vector<Child> children_;
};

/// Returns the path of the program of this process.
std::filesystem::path own_program();
/// Replaces this process with a command.
/// @throws core::Error unsupported if the program cannot be run
[[noreturn]] void become(std::vector<std::string> command);

}  // namespace tremula::cli
