// SPDX-License-Identifier: Apache-2.0
#pragma once
// Prints the call stacks of a job that does not end.
#include <sys/types.h>

#include <string_view>

namespace tremula::coupled {

/// Makes this process answer ask_for_stacks. Every program that a test starts calls this function at
/// its start.
void answer_with_stacks();

/// Asks every thread of `process`, and of all processes that it has started, to write its call stack
/// to its standard error, followed by `stack_end`. Does not wait for the stacks, and skips threads
/// that cannot answer.
/// @return the number of threads that will answer
int ask_for_stacks(pid_t process);
inline constexpr std::string_view stack_end = "---- end of this thread\n";

}  // namespace tremula::coupled
