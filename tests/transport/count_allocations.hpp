// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tremula::testing_only {

/// Returns how many times operator new was called in this program; always 0 if a sanitizer replaces
/// it.
long allocations();
/// Returns whether this build can count allocations.
bool counts_allocations();
/// Makes the allocation with this number, as counted by allocations(), fail.
void fail_allocation(long number);

}  // namespace tremula::testing_only
