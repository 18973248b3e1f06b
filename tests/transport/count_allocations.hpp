// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tremula::testing_only {

/// Returns how often operator new was called in this program; always 0 where a sanitizer has its
/// own.
long allocations();
/// Returns whether this build can count.
bool counts_allocations();
/// Makes the allocation of this number, as allocations() counts, find no memory.
void fail_allocation(long number);

}  // namespace tremula::testing_only
