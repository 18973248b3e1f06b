// SPDX-License-Identifier: Apache-2.0
#pragma once
// The copies of one message with many small parts, compiled once: gathering or scattering the
// message is one pass over a list, however many packages and arrays are involved. pack and unpack,
// in contrast, find the runs of a package anew in each call, which takes longer than copying a few
// runs.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "index_calc/plan/plan.hpp"

namespace tremula::index_calc {

struct CopyList {
  /// Bytes that are contiguous both in an array and in the message.
  struct Entry {
    std::uint64_t local = 0;  ///< byte offset in the array
    std::uint64_t wire = 0;   ///< byte offset in the message
    std::uint32_t bytes = 0;  ///< > 0
    std::uint32_t array = 0;  ///< number of the array
    friend bool operator==(const Entry&, const Entry&) = default;
  };
  std::vector<Entry> entries;
};

/// Appends the runs of a package in wire order. A run that continues the list's last entry both in
/// the array and in the message becomes part of it; one of more than 2 GiB becomes several entries.
/// If packages are appended with ascending `wire_at`, the entries ascend on the wire.
/// @param element_bytes  >= 1
/// @param array          number of the array that `part` describes
/// @param wire_at        byte offset in the message of the package's first element
/// @return false, with the list unchanged, if the package has more than `most_runs` runs
/// @throws core::Error invalid_argument, as pack does for a buffer of part.allocated elements. gather
/// and scatter do not check anything.
/// Cost: a few walks over the package's runs.
bool append(CopyList& list, const Package& package, const LocalPart& part, Order order,
            std::size_t element_bytes, std::uint32_t array, std::size_t wire_at,
            std::size_t most_runs);

/// Copies the bytes of the entries from the arrays to the message.
/// @param arrays  the address of each array, indexed by the numbers passed to append
/// @param wire    address of the message's byte 0
void gather(std::span<const CopyList::Entry> entries, std::span<const std::byte* const> arrays,
            std::byte* wire);

/// Copies the bytes of the entries from the message to the arrays: the inverse of gather.
void scatter(std::span<const CopyList::Entry> entries, const std::byte* wire,
             std::span<std::byte* const> arrays);

}  // namespace tremula::index_calc
