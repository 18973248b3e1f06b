// SPDX-License-Identifier: Apache-2.0
#include "tests/transport/count_allocations.hpp"

#include <atomic>
#include <cstddef>
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

static void* counted_new(std::size_t bytes, std::size_t alignment) {
  const bool is_to_fail = ++counted == fails;
  // aligned_alloc takes multiples of the alignment.
  const std::size_t whole = (bytes + alignment - 1) / alignment * alignment;
  if (void* const memory = is_to_fail ? nullptr : std::aligned_alloc(alignment, whole))
    return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes) { return counted_new(bytes, alignof(std::max_align_t)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return counted_new(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

#endif
