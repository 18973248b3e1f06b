// SPDX-License-Identifier: Apache-2.0
#pragma once
// Connections belong to the process that made them. A forked child would hold them open even after
// its parent has closed them or died, and the other end would not notice that the connection has
// ended.

namespace tremula::core {

/// Makes every child that is forked later close `descriptor` immediately, as FD_CLOFORK does on
/// other systems; has no such effect on a descriptor of 2^20 or above. Also sets FD_CLOEXEC, because
/// system(), popen() and posix_spawn() start programs without running the fork handlers. Does
/// nothing, and keeps errno, if `descriptor` is negative.
void set_close_on_fork(int descriptor) noexcept;
/// Undoes set_close_on_fork() for children that are forked. Must be called before `descriptor` is
/// closed, because another file may get its number afterwards.
void clear_close_on_fork(int descriptor) noexcept;

}  // namespace tremula::core
