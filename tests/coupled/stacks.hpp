// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where a job that does not end is.
#include <sys/types.h>

#include <string_view>

namespace tremula::coupled {

/// Call it first in every program that a test starts: from then on ask_for_stacks is answered.
void answer_with_stacks();

/// Every thread of `process`, and of all that it has started, writes its call stack to its standard
/// error, soon, and `stack_end` after it. Those that do not answer are left alone.
/// @return how many will answer
int ask_for_stacks(pid_t process);
inline constexpr std::string_view stack_end = "---- so far this thread\n";

}  // namespace tremula::coupled
