// SPDX-License-Identifier: Apache-2.0
#pragma once
// Processes that a command starts and a folder that it fills; both are gone when the command is.
#include <signal.h>
#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace tremula::cli {

/// While it lives, SIGINT and SIGTERM wait: for expect_no_signal, and in the end for this object to
/// go, so that the process ends by them when everything else has been tidied up.
class HeldSignals {
public:
  HeldSignals();
  ~HeldSignals();
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

private:
  sigset_t before_;
};

/// @throws core::Error cancelled if a signal is held
void expect_no_signal();

/// A directory of this run's own.
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

/// Children that end with this process, or with this object.
class Children {
public:
  Children() = default;
  ~Children();
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;

  /// @param name    for an error: "the server"
  /// @param work    runs in the child, which then ends
  /// @param output  takes what the child writes; empty: it writes where this process does
  void start(const std::string& name, const std::function<void()>& work,
             const std::filesystem::path& output = {});
  /// How many have not ended.
  /// @throws core::Error internal naming one that has ended with another status than 0, and what
  /// it wrote
  std::size_t still_running();

private:
  struct Child {
    pid_t pid;
    std::string name;
    std::filesystem::path output;
  };
  std::vector<Child> children_;
};

/// Of the program that runs here.
std::filesystem::path own_program();
/// Replaces this process.
/// @throws core::Error internal if that cannot be
[[noreturn]] void become(std::vector<std::string> command);

}  // namespace tremula::cli
