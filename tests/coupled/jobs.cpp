// SPDX-License-Identifier: Apache-2.0
#include "tests/coupled/jobs.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>

#include "core/error.hpp"
#include "tests/coupled/stacks.hpp"

extern char** environ;

namespace tremula::coupled {

using core::Errc, core::Error;
namespace fs = std::filesystem;

namespace {

constexpr double service_seconds = 60;
constexpr double stack_seconds = 10;  // a thread may end before it answers

void nap() { std::this_thread::sleep_for(std::chrono::milliseconds(2)); }

std::string contents(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Returns a null-terminated array of C strings, valid while `texts` exists.
std::vector<char*> c_strings(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (auto& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> merged(const Environment& changes) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (!changes.contains(text.substr(0, text.find('=')))) all.push_back(text);
  }
  for (const auto& [name, value] : changes) all.push_back(name + "=" + value);
  return all;
}

/// Returns the last `count` lines.
std::string tail(const std::string& text, int count) {
  auto at = text.size();
  for (int line = 0; line <= count && at != std::string::npos && at != 0; ++line)
    at = text.rfind('\n', at - 1);
  return at == std::string::npos || at == 0 ? text : text.substr(at + 1);
}

}  // namespace

void die_with_parent() { prctl(PR_SET_PDEATHSIG, SIGKILL); }

Process::Process(const Arguments& command, const Environment& environment, fs::path output)
    : output_(std::move(output)) {
  // All memory is allocated before the fork: the child may only call async-signal-safe functions.
  std::vector<std::string> arguments = command, variables = merged(environment);
  const auto argv = c_strings(arguments), envp = c_strings(variables);
  const int file = open(output_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0)
    throw Error(Errc::transport, "cannot write " + output_.string() + ": " + std::strerror(errno));
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ == 0) {
    setpgid(0, 0);
    die_with_parent();
    if (getppid() != parent) _exit(127);  // the parent died before prctl took effect
    dup2(file, STDOUT_FILENO);
    dup2(file, STDERR_FILENO);
    const int nothing = open("/dev/null", O_RDONLY);
    dup2(nothing, STDIN_FILENO);
    execvpe(argv[0], argv.data(), envp.data());
    const char text[] = "cannot be started\n";
    [[maybe_unused]] const auto written = write(STDERR_FILENO, text, sizeof text - 1);
    _exit(127);
  }
  close(file);
  if (pid_ < 0)
    throw Error(Errc::transport, "cannot start " + command[0] + ": " + std::strerror(errno));
  setpgid(pid_, pid_);  // both processes call it, since either may run first
}

Process::~Process() {
  signal(SIGTERM);  // mpirun cleans up after itself
  if (wait(Deadline::after(2))) return;
  signal(SIGKILL);
  wait(Deadline::after(10));
}

std::optional<int> Process::wait(Deadline deadline) {
  while (!status_) {
    siginfo_t ended{};
    if (waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        ended.si_pid == pid_) {
      ::kill(-pid_, SIGKILL);  // the group's number is not reused before its first process is
                               // reaped
      waitpid(pid_, nullptr, 0);
      status_ = ended.si_code == CLD_EXITED ? ended.si_status : 128 + ended.si_status;
    } else if (deadline.expired()) {
      break;
    } else {
      nap();
    }
  }
  return status_;
}

void Process::signal(int number) {
  if (!status_) ::kill(-pid_, number);
}

std::string Process::output() const { return contents(output_); }

std::optional<int> Job::wait(Deadline deadline) {
  int first_failure = 0;
  for (auto& process : processes_) {
    const auto status = process->wait(deadline);
    if (!status) return std::nullopt;
    if (first_failure == 0) first_failure = *status;
  }
  return first_failure;
}

std::string Job::output() const {
  std::string all;
  for (const auto& process : processes_) all += process->output();
  return all;
}

void Job::show_stacks() {
  if (wait(Deadline::after(0))) return;
  const auto written = [this] {
    const std::string text = output();
    int count = 0;
    for (auto at = text.find(stack_end); at != text.npos; at = text.find(stack_end, at + 1))
      ++count;
    return count;
  };
  int expected = written();
  for (const auto& process : processes_)
    if (!process->wait(Deadline::after(0))) expected += ask_for_stacks(process->pid());
  const auto deadline = Deadline::after(stack_seconds);
  while (written() < expected && !deadline.expired()) nap();
}

bool Job::was_stopped_by_mpi() {
  const auto status = wait(Deadline::after(0));
  show_stacks();
  const std::string text = output();
  const auto says = [&](const char* what) { return text.find(what) != std::string::npos; };
  return status ? status == 255 && says("pml_ob1_") && says(" FATAL")
                : says("mca_pml_ob1_send_fin") && says("mca_btl_tcp_endpoint_close");
}

Stage::Stage() {
  std::string pattern = (fs::temp_directory_path() / "tremula-coupled-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr)
    throw Error(Errc::transport, "cannot make " + pattern + ": " + std::strerror(errno));
  directory_ = pattern;
}

Stage::~Stage() {
  jobs_.clear();
  services_.clear();
  std::error_code ignored;
  fs::remove_all(directory_, ignored);
}

Process& Stage::start_service(const std::string& name, const Arguments& command,
                              const fs::path& ready_file) {
  auto& service = services_[name];
  fs::remove(ready_file);  // left by an earlier service of that name
  service = std::make_unique<Process>(command, Environment{}, directory_ / (name + ".out"));
  const auto deadline = Deadline::after(service_seconds);
  while (!contents(ready_file).ends_with('\n')) {
    if (deadline.expired() || service->wait(Deadline::after(0)))
      throw Error(Errc::timed_out, "expected " + name + " to write " + ready_file.string() +
                                       ", found: " + service->output());
    nap();
  }
  return *service;
}

Process& Stage::start_server(const Arguments& more) {
  const fs::path port_file = directory_ / "server.port";
  Arguments command{TREMULA_PROGRAM, "serve", "--bind",      "127.0.0.1",
                    "--port",        "0",     "--port-file", port_file.string()};
  // Jobs get only the server's address, not a key.
  if (std::ranges::find(more, "--key-file") == more.end())
    command.insert(command.end(), {"--key-file", "none"});
  command.insert(command.end(), more.begin(), more.end());
  auto& server = start_service("server", command, port_file);
  std::istringstream(contents(port_file)) >> server_;
  if (server_.find(':') == std::string::npos) server_ = "127.0.0.1:" + server_;
  return server;
}

void Stage::stop_server(int signal) {
  Process& server = *services_.at("server");
  server.signal(signal);
  server.wait(Deadline::after(5));
}

Process& Stage::start_ompi_server() {
  const fs::path uri_file = directory_ / "ompi-server.uri";
  auto& server = start_service("ompi-server",
                               {"ompi-server", "--no-daemonize", "--mca", "oob_tcp_if_include",
                                "lo", "--report-uri", uri_file.string()},
                               uri_file);
  ompi_server_ = "file:" + uri_file.string();
  return server;
}

Job& Stage::start(const Role& role, Launcher launcher, const Arguments& command,
                  const Environment& environment) {
  const std::string name = std::to_string(jobs_.size()) + "-" + role.name;
  const fs::path scratch =
      directory_ / name;  // two mpiruns that share a directory may both fail to create it
  fs::create_directory(scratch);
  // A rank that waits in Tremula yields its core itself. Open MPI would yield in every call that finds
  // nothing, and would then get the core back from busy programs only after 4 ms.
  Environment all{
      {"OMPI_ALLOW_RUN_AS_ROOT", "1"},       {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
      {"OMPI_MCA_mpi_yield_when_idle", "0"}, {"OMPI_MCA_btl_tcp_if_include", "lo"},
      {"OMPI_MCA_oob_tcp_if_include", "lo"}, {"OMPI_MCA_orte_tmpdir_base", scratch.string()}};
  if (!server_.empty()) all["TREMULA_SERVER"] = server_;
  for (const auto& [variable, value] : environment) all[variable] = value;

  std::vector<std::unique_ptr<Process>> processes;
  if (launcher == Launcher::mpirun) {
    Arguments full{MPIRUN_PROGRAM, "--oversubscribe",         "--bind-to", "none",
                   "-n",           std::to_string(role.ranks)};
    if (!ompi_server_.empty()) full.insert(full.end(), {"--ompi-server", ompi_server_});
    full.insert(full.end(), command.begin(), command.end());
    processes.push_back(std::make_unique<Process>(full, all, directory_ / (name + ".out")));
  } else {
    all["WORLD_SIZE"] = std::to_string(role.ranks);
    all["TREMULA_JOB"] = directory_.filename().string() + "-" + name;
    for (int rank = 0; rank < role.ranks; ++rank) {
      all["RANK"] = std::to_string(rank);
      processes.push_back(std::make_unique<Process>(
          command, all, directory_ / (name + "." + std::to_string(rank) + ".out")));
    }
  }
  return *jobs_.emplace_back(std::make_unique<Job>(role.name, std::move(processes)));
}

std::string Stage::report() {
  std::string text;
  for (const auto& [name, service] : services_)
    text += "---- " + name + "\n" + tail(service->output(), 20) + "\n";
  for (const auto& job : jobs_) {
    const std::string before = job->output();
    job->show_stacks();
    text += "---- " + job->name() + "\n" + tail(before, 40) + "\n" +
            job->output().substr(before.size()) + "\n";
  }
  return text;
}

}  // namespace tremula::coupled
