// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tremula::testing_only {

/// How often operator new was called in this program; always 0 where a sanitizer has its own.
long allocations();
/// Whether this build can count.
bool counts_allocations();
/// The allocation of this number, as allocations() counts, finds no memory.
void fail_allocation(long number);

}  // namespace tremula::testing_only
