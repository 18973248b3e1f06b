// SPDX-License-Identifier: Apache-2.0
#include "tests/transport/count_allocations.hpp"

#include <atomic>
#include <cstdlib>
#include <new>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

long tremula::testing_only::allocations() { return 0; }
bool tremula::testing_only::counts_allocations() { return false; }
void tremula::testing_only::fail_allocation(long) {}

#else

static std::atomic<long> counted = 0, fails = 0;

long tremula::testing_only::allocations() { return counted; }
bool tremula::testing_only::counts_allocations() { return true; }
void tremula::testing_only::fail_allocation(long number) { fails = number; }

void* operator new(std::size_t bytes) {
  const bool is_to_fail = ++counted == fails;
  if (void* const memory = is_to_fail ? nullptr : std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

#endif
