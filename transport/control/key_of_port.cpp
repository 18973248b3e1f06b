// SPDX-License-Identifier: Apache-2.0
#include "transport/control/key_of_port.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <system_error>
#include <vector>

#include "core/error.hpp"

namespace tremula::transport {

using core::Errc, core::Error;

namespace fs = std::filesystem;

namespace {

/// Returns the runtime folder of this user; empty if there is none or other users can write to it.
fs::path runtime_folder_of(const std::string& given) {
  const fs::path folder = given.empty() ? fmt::format("/run/user/{}", ::geteuid()) : given;
  struct stat found {};
  const bool is_own = folder.is_absolute() && ::stat(folder.c_str(), &found) == 0 &&
                      S_ISDIR(found.st_mode) && found.st_uid == ::geteuid() &&
                      (found.st_mode & 022u) == 0;
  return is_own ? folder : fs::path();
}

/// Returns the folders that may hold the key; a new key goes into the first.
std::vector<fs::path> folders(const std::string& runtime_folder) {
  std::vector<fs::path> out;
  const fs::path runtime = runtime_folder_of(runtime_folder);
  if (!runtime.empty()) out.push_back(runtime / "tremula");
  // TMPDIR is not used, because job launchers set it for each job.
  out.emplace_back(fmt::format("/tmp/tremula-{}", ::geteuid()));
  return out;
}

/// Returns why other users might be able to enter a folder; nullopt if only this user can.
std::optional<std::string> fault_of(const fs::path& folder) {
  struct stat found {};
  if (::lstat(folder.c_str(), &found) != 0) return std::generic_category().message(errno);
  if (!S_ISDIR(found.st_mode)) return "a link or a file";
  if (found.st_uid != ::geteuid()) return fmt::format("one of user {}", found.st_uid);
  if ((found.st_mode & 077u) != 0) return fmt::format("mode {:04o}", found.st_mode & 07777u);
  return std::nullopt;
}

std::string name_of(std::uint16_t port) { return fmt::format("{}.key", port); }

}  // namespace

fs::path find_key_of_port(std::uint16_t port, const std::string& runtime_folder) {
  for (const fs::path& folder : folders(runtime_folder)) {
    const fs::path file = folder / name_of(port);
    std::error_code unknown;
    if (!fault_of(folder) && fs::exists(file, unknown)) return file;
  }
  return {};
}

fs::path place_of_key(std::uint16_t port, const std::string& runtime_folder) {
  if (const fs::path found = find_key_of_port(port, runtime_folder); !found.empty()) return found;
  const fs::path folder = folders(runtime_folder).front();
  ::mkdir(folder.c_str(), 0700);  // fault_of() checks below whether it exists now
  if (const auto fault = fault_of(folder))
    throw Error(
        Errc::invalid_argument,
        fmt::format("key folder '{}': expected a folder of this user ({}) that no other user "
                    "can enter (mode 0700), found {}; remove it, let XDG_RUNTIME_DIR name a "
                    "folder of this user, or give --key-file PATH",
                    folder.string(), ::geteuid(), *fault));
  return folder / name_of(port);
}

}  // namespace tremula::transport
