// SPDX-License-Identifier: Apache-2.0
#pragma once
// The set-up of ScaLAPACK's own redistribution (p?gemr2d), from the installed library.
#include <memory>
#include <optional>
#include <vector>

#include "index_calc/layout/distribution.hpp"

namespace tremula::bench {

/// An interval of local indices.
struct Interval {
  int begin, length;
};

/// Calls `dgescan_intervals` of the ScaLAPACK library, which finds the intervals that two coordinates
/// share. It walks the blocks of both along the whole extent.
///
/// Source: Prylli & Tourancheau 1997; REDIST/SRC/pdgemr.c of ScaLAPACK 2.2.
class Scalapack {
public:
  /// Loads the library. Returns nullopt if it is not installed.
  static std::optional<Scalapack> load();

  /// @param out  receives the intervals; must have room for all of them
  /// @return the number of intervals
  /// @pre extents below 2^31
  int scan(const index_calc::BlockCyclic& mine, index_calc::Index me,
           const index_calc::BlockCyclic& theirs, index_calc::Index peer, Interval* out) const;

private:
  struct Descriptor {
    int type, context, rows, columns, row_block, column_block, row_source, column_source, leading;
  };
  using ScanIntervals = int (*)(char type, int ja, int jb, int n, Descriptor* ma, Descriptor* mb,
                                int q0, int q1, int col0, int col1, Interval* result);
  explicit Scalapack(ScanIntervals function) : scan_(function) {}
  ScanIntervals scan_;
};

}  // namespace tremula::bench
