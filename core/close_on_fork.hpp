// SPDX-License-Identifier: Apache-2.0
#pragma once
// Connections belong to the process that made them. A child that fork has made holds them open,
// too, even when its parent has closed them or has died: the other end would then see no end of the
// connection.

namespace tremula::core {

/// Makes every child that is forked from now on close `descriptor` at once, as FD_CLOFORK does on
/// other systems. O_CLOEXEC does so only for a child that executes another program. Without effect
/// on a descriptor of 2^20 or above.
void set_close_on_fork(int descriptor) noexcept;
/// Takes set_close_on_fork() back. Call it before `descriptor` is closed: another file may have its
/// number then.
void clear_close_on_fork(int descriptor) noexcept;

}  // namespace tremula::core
