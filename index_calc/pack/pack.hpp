// SPDX-License-Identifier: Apache-2.0
#pragma once
// Moves the elements of a package inside one process: gathers them into contiguous bytes, scatters
// them back, or copies them directly between the local buffers of two ranks.
//
// Wire order: the elements of a package in ascending global index, numbered in `order` (row: last
// dimension fastest; column: first dimension fastest). Both sides use the producer's storage order.
//
// For all functions:
// @param element_bytes  >= 1; 1, 2, 4, 8 and 16 have their own kernels
// @param tuning         which kernels are used: by default those that suit this processor; no
// result depends on it
// @throws core::Error invalid_argument, before anything is moved, if a buffer is smaller than its
// part says, an element would be outside it, or the number of bytes on the wire is wrong; the text
// names what was expected and found
// Buffers need no alignment; those of one call must not overlap. Nothing is allocated. Calls may
// be made from any thread, and simultaneous calls may write different stretches of one buffer.
#include <cstddef>
#include <span>
#include <vector>

#include "index_calc/plan/plan.hpp"

namespace tremula::index_calc {

struct CopyTuning;  // copy_lines.hpp
const CopyTuning& copy_tuning();

/// Consecutive elements of a package in wire order.
struct Stretch {
  Index first = 0;  ///< number of the first one in wire order, 0-based
  Index count = 0;
};

/// Copies the elements of `package` out of the local buffer.
/// @param local  the rank's buffer, `part.allocated * element_bytes` bytes or more
/// @param wire   package.elements * element_bytes bytes
void pack(const Package& package, const LocalPart& part, Order order, std::size_t element_bytes,
          std::span<const std::byte> local, std::span<std::byte> wire);

/// Copies the elements of `package` into the local buffer: the inverse of pack.
void unpack(const Package& package, const LocalPart& part, Order order, std::size_t element_bytes,
            std::span<const std::byte> wire, std::span<std::byte> local);

/// Packs only a stretch: packing the stretches of a package one after another gives the bytes of
/// the whole package.
/// @param wire  stretch.count * element_bytes bytes
/// Cost: in addition to the copying, proportional to the families of one period along each
/// dimension, not to the elements before the stretch. If the local buffer is stored in the other
/// order, a stretch should consist of several cache lines of whole rows: fewer elements would use
/// only a part of each line that is read.
void pack(const Package& package, const LocalPart& part, Order order, std::size_t element_bytes,
          Stretch stretch, std::span<const std::byte> local, std::span<std::byte> wire,
          const CopyTuning& tuning = copy_tuning());

/// Unpacks only a stretch: the inverse of pack for the same stretch.
void unpack(const Package& package, const LocalPart& part, Order order, std::size_t element_bytes,
            Stretch stretch, std::span<const std::byte> wire, std::span<std::byte> local,
            const CopyTuning& tuning = copy_tuning());

/// Copies the elements of `package` from the peer's local buffer to their places in mine. This does
/// what pack by the peer and unpack by this rank do, without the bytes in between. Both buffers are
/// in this address space.
/// @param package  package of my plan: the peer is the rank that `theirs` belongs to
/// @param theirs   need not be trusted: no element is touched unless all are inside `their_local`
void copy_from_peer(const Package& package, const LocalPart& mine, const LocalPart& theirs,
                    std::size_t element_bytes, std::span<const std::byte> their_local,
                    std::span<std::byte> my_local);

/// Copies the elements of `package` from my local buffer to their places in the peer's.
void copy_to_peer(const Package& package, const LocalPart& mine, const LocalPart& theirs,
                  std::size_t element_bytes, std::span<const std::byte> my_local,
                  std::span<std::byte> their_local);

/// Copy only a stretch, so that several threads can share a package.
/// @param order  order in which the elements of the stretch are counted; the storage order of the
/// side that is written is the fastest
void copy_from_peer(const Package& package, const LocalPart& mine, const LocalPart& theirs,
                    Order order, std::size_t element_bytes, Stretch stretch,
                    std::span<const std::byte> their_local, std::span<std::byte> my_local,
                    const CopyTuning& tuning = copy_tuning());
void copy_to_peer(const Package& package, const LocalPart& mine, const LocalPart& theirs,
                  Order order, std::size_t element_bytes, Stretch stretch,
                  std::span<const std::byte> my_local, std::span<std::byte> their_local,
                  const CopyTuning& tuning = copy_tuning());

/// Bytes that are contiguous in the local buffers of both ranks. Offsets in bytes.
struct CommonRun {
  std::size_t theirs = 0, mine = 0, bytes = 0;
};

/// Appends the runs that copy_from_peer would copy for a stretch, in ascending order of mine if
/// `order` is my storage order. This is for callers that move the runs by other means. The peer's
/// buffer need not be in this address space.
/// @param theirs    need not be trusted: all runs are inside its `allocated` elements
/// @param my_local  only its length is used
/// Cost: that of copying the stretch, without the bytes; `runs` grows by at most stretch.count.
void list_common_runs(const Package& package, const LocalPart& mine, const LocalPart& theirs,
                      Order order, std::size_t element_bytes, Stretch stretch,
                      std::span<const std::byte> my_local, std::vector<CommonRun>& runs);

}  // namespace tremula::index_calc
