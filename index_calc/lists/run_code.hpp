// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs on their way between ranks: numbers of 7 bits a byte (LEB128), each as its distance from where the
// run before has ended, so that points which lie close take two bytes.
#include <cstddef>
#include <span>
#include <vector>

#include "core/types.hpp"
#include "index_calc/lists/index_list.hpp"

namespace tremula::index_calc {

/// Ascending runs of one list, with or without their places. Runs that continue the one before are made
/// one with it.
class RunWriter {
public:
  explicit RunWriter(bool has_places) : has_places_(has_places) {}
  /// @pre ascending
  void add(const ListRun& run);
  /// Appends how many there are, and all of them.
  void write_to(core::Bytes& out);

private:
  void put_pending();
  void put(std::uint64_t value);
  bool has_places_;
  ListRun pending_{};
  Index end_ = 0, local_end_ = 0;
  std::size_t count_ = 0;
  core::Bytes bytes_;
};

/// Reads lists one after the other. The bytes are foreign.
class RunReader {
public:
  explicit RunReader(core::BytesView bytes) : left_(bytes) {}
  bool is_at_end() const noexcept { return left_.empty(); }
  /// The next list.
  /// @param begin, end  in which the numbers must lie
  /// @throws core::Error protocol
  std::vector<ListRun> read(bool has_places, Index begin, Index end);

private:
  std::uint64_t get();
  core::BytesView left_;
};

}  // namespace tremula::index_calc
