// SPDX-License-Identifier: Apache-2.0
#pragma once
// Who can meet whom on one machine, and what dead processes left behind. Private to this folder.
#include <sys/types.h>

#include <string>
#include <string_view>

#include "core/unique_handle.hpp"

namespace tremula::transport::ofi {

struct FileTraits {
  using Handle = int;
  static int none() { return -1; }
  static void close(int file) noexcept;
};
using File = core::UniqueHandle<FileTraits>;

/// Equal in two processes exactly if they can share memory through /dev/shm: same boot, same mount
/// of /dev/shm, same process numbers, same user.
std::string shared_memory_identity();
/// Equal in two processes exactly if 127.0.0.1 is the same place for both.
std::string loopback_identity();

/// What libfabric puts before the name of a file in /dev/shm, and what ours begin with.
inline constexpr std::string_view shared_memory_scheme = "fi_ns://",
                                  shared_memory_prefix = "tremula-";
/// A name for a file in /dev/shm that tells whose it is; another one at each call.
std::string next_shared_memory_name();
/// The process whose file has this name; 0 if it has ended or is not of this process's numbers.
pid_t process_of(const std::string& name);
/// Processor time that a thread of this process has used.
double processor_seconds(pid_t thread);
/// Opens the file of this name, if it is there, and keeps remove_leftovers() off it.
File hold(const std::string& name);
void remove_shared_file(const std::string& name) noexcept;
/// Removes the files in /dev/shm whose process is dead and that nobody holds: SIGKILL leaves them,
/// 16 MiB each. Never throws.
/// @return how many were removed
int remove_leftovers() noexcept;

}  // namespace tremula::transport::ofi
