// SPDX-License-Identifier: Apache-2.0
#include "transport/ofi/host.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

namespace tremula::transport::ofi {

namespace {

const std::string folder = "/dev/shm/";

/// "4026531836" of the namespace "pid:[4026531836]"; "0" where there is no /proc.
std::string namespace_number(const char* kind) {
  std::error_code ignored;
  const auto link =
      std::filesystem::read_symlink(std::string("/proc/self/ns/") + kind, ignored).string();
  const auto open = link.find('['), close = link.find(']');
  return close == std::string::npos ? "0" : link.substr(open + 1, close - open - 1);
}

std::string boot_identity() {
  std::string line;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), line);
  return line;
}

/// A field of a file like /proc/<pid>/stat, numbered as in proc(5), from the third on; empty if
/// there is none.
std::string stat_field(const std::string& file, int wanted) {
  std::string line, field;
  std::ifstream in(file);
  std::getline(in, line);
  const auto name_end = line.rfind(')');  // the name before it may hold anything
  if (name_end == std::string::npos) return {};
  std::istringstream fields(line.substr(name_end + 1));
  for (int number = 3; number <= wanted; ++number) fields >> field;
  return field;
}

/// When a process was started, in ticks since boot: tells it from a later one of the same number.
/// Empty if it has ended.
std::string start_of(const std::string& pid) {
  const auto stat = "/proc/" + pid + "/stat";
  return stat_field(stat, 3) == "Z" ? "" : stat_field(stat, 22);
}

/// What the name of one of our files says.
struct Owner {
  std::string processes;  ///< namespace in which `pid` counts
  std::string pid, start;
};
std::optional<Owner> owner_of(const std::string& name) {
  if (!name.starts_with(shared_memory_prefix)) return std::nullopt;
  std::istringstream parts(name.substr(shared_memory_prefix.size()));
  Owner owner;
  for (auto* part : {&owner.processes, &owner.pid, &owner.start}) std::getline(parts, *part, '-');
  if (owner.start.empty()) return std::nullopt;
  return owner;
}

}  // namespace

void FileTraits::close(int file) noexcept { ::close(file); }

std::string shared_memory_identity() {
  struct stat found {};
  if (stat(folder.c_str(), &found) != 0) return {};
  return boot_identity() + '.' + namespace_number("pid") + '.' + std::to_string(found.st_dev) +
         '.' + std::to_string(found.st_ino) + '.' + std::to_string(getuid());
}

std::string loopback_identity() { return boot_identity() + '.' + namespace_number("net"); }

std::string next_shared_memory_name() {
  static std::atomic<unsigned> made =
      0;  // names are the process's, whatever the number of transports in it
  const auto pid = std::to_string(getpid());
  return std::string(shared_memory_prefix) + namespace_number("pid") + '-' + pid + '-' +
         start_of(pid) + '-' + std::to_string(made++);
}

pid_t process_of(const std::string& name) {
  const auto owner = owner_of(name);
  if (!owner || owner->processes != namespace_number("pid") || owner->start != start_of(owner->pid))
    return 0;
  return static_cast<pid_t>(std::strtol(owner->pid.c_str(), nullptr, 10));
}

double processor_seconds(pid_t thread) {
  const auto file = "/proc/self/task/" + std::to_string(thread) + "/stat";
  double ticks = 0;
  for (int field : {14, 15}) ticks += std::strtod(stat_field(file, field).c_str(), nullptr);
  return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

File hold(const std::string& name) {
  File file(open((folder + name).c_str(), O_RDONLY | O_CLOEXEC));
  if (file) flock(file.get(), LOCK_SH | LOCK_NB);
  return file;
}

void remove_shared_file(const std::string& name) noexcept { unlink((folder + name).c_str()); }

int remove_leftovers() noexcept {
  int removed = 0;
  try {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      const auto name = entry.path().filename().string();
      const auto owner = owner_of(name);
      if (!owner || owner->processes != namespace_number("pid") || process_of(name) != 0) continue;
      const File file(open(entry.path().c_str(), O_RDONLY | O_CLOEXEC));
      if (file && flock(file.get(), LOCK_EX | LOCK_NB) == 0 && unlink(entry.path().c_str()) == 0)
        ++removed;
    }
  } catch (const std::exception&) {
    // what cannot be read stays
  }
  return removed;
}

}  // namespace tremula::transport::ofi
