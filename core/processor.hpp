// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the system says of the processor at hand.
#include <unistd.h>

#include <cstddef>

namespace tremula::core {

/// Of the cache of the second level of a core; 0 if the system does not say. The C library asked the
/// processor when the process began: in a virtual machine each question takes some microseconds.
inline std::size_t second_cache_bytes() noexcept {
#ifdef _SC_LEVEL2_CACHE_SIZE
  if (const long bytes = ::sysconf(_SC_LEVEL2_CACHE_SIZE); bytes > 0)
    return static_cast<std::size_t>(bytes);
#endif
  return 0;
}

}  // namespace tremula::core
