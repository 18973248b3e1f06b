// SPDX-License-Identifier: Apache-2.0
#pragma once
// Starts real, separate jobs for a test, and leaves nothing behind: what a test has started is
// killed when the test ends, fails or dies itself.
#include <sys/types.h>

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/deadline.hpp"

namespace tremula::coupled {

using core::Deadline;
using Environment = std::map<std::string, std::string>;
using Arguments = std::vector<std::string>;

/// Call it first in every program that a test starts: the program dies with the process that
/// started it.
void die_with_parent();

/// A process in a process group of its own. Its standard output and error go to one file.
class Process {
public:
  /// @param command      program (a path, or a name to find in PATH) and arguments
  /// @param environment  in addition to this process' own
  /// @throws core::Error transport if there can be no further process
  Process(const Arguments& command, const Environment& environment, std::filesystem::path output);
  /// Asks the group to end, then kills it.
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  /// The exit status, 128 + signal for a process that a signal ended, as soon as it has ended;
  /// empty at the deadline.
  std::optional<int> wait(Deadline deadline);
  /// To every process of the group, if it still runs.
  void signal(int number);
  pid_t pid() const { return pid_; }
  /// All that it has written until now.
  std::string output() const;

private:
  pid_t pid_ = -1;
  std::optional<int> status_;
  std::filesystem::path output_;
};

/// How the ranks of a job are started.
enum class Launcher {
  mpirun,  ///< one mpirun
  plain,   ///< one process a rank, told by RANK and WORLD_SIZE as torchrun does
};

/// What a group of ranks is to do, and how many there are: Roles{{"producer", 3}, {"consumer", 2}}.
struct Role {
  std::string name;
  int ranks;
};
using Roles = std::vector<Role>;

/// All ranks of one role.
class Job {
public:
  Job(std::string name, std::vector<std::unique_ptr<Process>> processes)
      : name_(std::move(name)), processes_(std::move(processes)) {}

  const std::string& name() const { return name_; }
  /// 0 if all processes have ended with 0, else the first other status; empty if one still runs at
  /// the deadline.
  std::optional<int> wait(Deadline deadline);
  std::string output() const;
  /// Every thread of a rank that still runs writes where it is to the output.
  void show_stacks();
  /// Open MPI 4.1 itself has ended it, or holds it for ever, as it may do with the survivor of a
  /// lost peer (transport/mpi/README.md). One that hangs elsewhere is not held.
  bool was_stopped_by_mpi();
  /// mpirun is one process; a plain job has one for each rank.
  Process& process(std::size_t i) { return *processes_.at(i); }

private:
  std::string name_;
  std::vector<std::unique_ptr<Process>> processes_;
};

/// A directory, a Tremula server and, for the mpi transport, an ompi-server: what jobs need to
/// meet.
class Stage {
public:
  Stage();
  /// Ends everything that was started here.
  ~Stage();
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  /// `tremula serve` on a free port, which later jobs find in TREMULA_SERVER.
  /// @throws core::Error timed_out with its output if it does not come up
  /// @param more  options of `tremula serve`
  Process& start_server(const Arguments& more = {});
  /// Ends the server with that signal.
  void stop_server(int signal);
  /// Later jobs can open MPI ports.
  /// @throws core::Error timed_out with its output if it does not come up
  Process& start_ompi_server();
  /// Starts every rank of `role` with `command`.
  Job& start(const Role& role, Launcher launcher, const Arguments& command,
             const Environment& environment = {});

  const std::filesystem::path& directory() const { return directory_; }
  /// "127.0.0.1:PORT".  @pre start_server() was called
  const std::string& server() const { return server_; }
  /// The last lines of all that was started here, and where it is if it still runs: for a test that
  /// has failed.
  std::string report();

private:
  Process& start_service(const std::string& name, const Arguments& command,
                         const std::filesystem::path& ready_file);

  std::filesystem::path directory_;
  std::string server_;
  std::string ompi_server_;
  std::map<std::string, std::unique_ptr<Process>> services_;
  std::vector<std::unique_ptr<Job>> jobs_;
};

}  // namespace tremula::coupled
