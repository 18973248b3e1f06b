// SPDX-License-Identifier: Apache-2.0
#include "scalapack.hpp"

#include <dlfcn.h>

namespace tremula::bench {

std::optional<Scalapack> Scalapack::load() {
  // Stays loaded, because it loads MPI, which cannot be unloaded.
  void* library = dlopen("libscalapack-openmpi.so.2.2", RTLD_NOW | RTLD_LOCAL);
  void* symbol = library == nullptr ? nullptr : dlsym(library, "dgescan_intervals");
  if (symbol == nullptr) return std::nullopt;
  return Scalapack(reinterpret_cast<ScanIntervals>(symbol));
}

int Scalapack::scan(const index_calc::BlockCyclic& mine, index_calc::Index me,
                    const index_calc::BlockCyclic& theirs, index_calc::Index peer,
                    Interval* out) const {
  const auto descriptor = [](const index_calc::BlockCyclic& d) {
    const int n = static_cast<int>(d.extent), block = static_cast<int>(d.block),
              source = static_cast<int>(d.source);
    return Descriptor{1, 0, n, n, block, block, source, source, n};
  };
  Descriptor a = descriptor(mine), b = descriptor(theirs);
  return scan_('c', 0, 0, a.columns, &a, &b, static_cast<int>(mine.grid),
               static_cast<int>(theirs.grid), static_cast<int>(me), static_cast<int>(peer), out);
}

}  // namespace tremula::bench
