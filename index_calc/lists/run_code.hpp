// SPDX-License-Identifier: Apache-2.0
#pragma once
// The encoding of runs in messages between ranks: numbers with 7 bits per byte (LEB128). The
// position of a run is stored as the distance from the end of the previous run, so points close to
// each other take two bytes. In a list with places, a run may repeat elements of earlier runs.
#include <cstddef>
#include <span>
#include <vector>

#include "core/types.hpp"
#include "index_calc/lists/index_list.hpp"

namespace tremula::index_calc {

/// Encodes the ascending runs of one list, with or without their places. A run that continues the
/// previous one is joined with it.
class RunWriter {
public:
  explicit RunWriter(bool has_places) : has_places_(has_places) {}
  /// @pre runs are added in ascending order; without places, none repeats an element
  void add(const ListRun& run);
  /// Appends the number of runs, and the runs.
  void write_to(core::Bytes& out);

private:
  void put_pending();
  bool has_places_;
  ListRun pending_{};
  Index end_ = 0, local_end_ = 0;
  std::size_t count_ = 0;
  core::Bytes bytes_;
};

/// Reads lists one after another. The bytes come from another process and are checked.
class RunReader {
public:
  explicit RunReader(core::BytesView bytes) : left_(bytes) {}
  bool is_at_end() const noexcept { return left_.empty(); }
  /// Reads the next list.
  /// @param begin, end  bounds of the numbers
  /// @param may_repeat  whether runs may repeat elements; only for a list with places
  /// @throws core::Error protocol
  std::vector<ListRun> read(bool has_places, Index begin, Index end, bool may_repeat = false);

private:
  std::uint64_t get();
  core::BytesView left_;
};

}  // namespace tremula::index_calc
