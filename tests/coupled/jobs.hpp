// SPDX-License-Identifier: Apache-2.0
#pragma once
// Starts real, separate jobs for a test, and leaves nothing behind: the processes of a test are killed
// when the test ends, fails or is killed.
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

/// Makes this process die with the process that started it. Every program that a test starts calls
/// this function first.
void die_with_parent();

/// A process with its own process group. Its standard output and error go to one file.
class Process {
public:
  /// @param command      program (a path, or a name to find in PATH) and arguments
  /// @param environment  in addition to this process' own
  /// @throws core::Error transport if no further process can be created
  Process(const Arguments& command, const Environment& environment, std::filesystem::path output);
  /// Asks the process group to end, then kills it.
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  /// Waits until the process has ended and returns its exit status, or 128 + signal if a signal ended
  /// it; nullopt if it is still running at the deadline.
  std::optional<int> wait(Deadline deadline);
  /// Sends signal `number` to every process of the group, if it is still running.
  void signal(int number);
  pid_t pid() const { return pid_; }
  /// Returns everything that the process has written so far.
  std::string output() const;

private:
  pid_t pid_ = -1;
  std::optional<int> status_;
  std::filesystem::path output_;
};

/// How the ranks of a job are started.
enum class Launcher {
  mpirun,  ///< one mpirun
  plain,  ///< one process per rank, with RANK and WORLD_SIZE in its environment, as torchrun sets them
};

/// The role of a group of ranks, and its size: Roles{{"producer", 3}, {"consumer", 2}}.
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
  /// Waits until all processes have ended. Returns 0 if all ended with 0, else the first other status;
  /// nullopt if one is still running at the deadline.
  std::optional<int> wait(Deadline deadline);
  std::string output() const;
  /// Makes every thread of each rank that is still running write its call stack to the output.
  void show_stacks();
  /// Returns true if Open MPI 4.1 itself has ended the job, or leaves it hanging forever, as it may
  /// do to the surviving job when a peer is lost (transport/mpi/README.md). A job that hangs for any
  /// other reason does not count.
  bool was_stopped_by_mpi();
  /// Returns process `i`: an mpirun job has one process, a plain job one per rank.
  Process& process(std::size_t i) { return *processes_.at(i); }

private:
  std::string name_;
  std::vector<std::unique_ptr<Process>> processes_;
};

/// Everything that jobs need to find each other: a directory, a Tremula server and, for the mpi
/// transport, an ompi-server.
class Stage {
public:
  Stage();
  /// Ends all services and jobs that this stage has started.
  ~Stage();
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  /// Starts `tremula serve` on a free port, which later jobs find in TREMULA_SERVER.
  /// @throws core::Error timed_out, with the server's output, if it does not start
  /// @param more  options of `tremula serve`
  Process& start_server(const Arguments& more = {});
  /// Ends the server with `signal`.
  void stop_server(int signal);
  /// Starts an ompi-server, so that later jobs can open MPI ports.
  /// @throws core::Error timed_out, with the server's output, if it does not start
  Process& start_ompi_server();
  /// Starts every rank of `role` with `command`.
  Job& start(const Role& role, Launcher launcher, const Arguments& command,
             const Environment& environment = {});

  const std::filesystem::path& directory() const { return directory_; }
  /// Returns "127.0.0.1:PORT".  @pre start_server() was called
  const std::string& server() const { return server_; }
  /// Returns the last output lines of all services and jobs, with the call stacks of processes that
  /// are still running; for a test that has failed.
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
