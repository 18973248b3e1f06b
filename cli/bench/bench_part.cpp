// SPDX-License-Identifier: Apache-2.0
#include "cli/bench/bench_part.hpp"

#include <fmt/format.h>

#include <cstring>

#include "core/error.hpp"
#include "index_calc/layout/process_grid.hpp"
#include "transport/local/shared_memory.hpp"

namespace tremula::cli {

using core::Index;

namespace {

/// Returns the words whose bytes the element with this global number holds in a step.
std::array<std::uint64_t, 2> words_of(std::uint64_t number, std::uint64_t step) {
  std::uint64_t word = (number + 1) * 0x9E3779B97F4A7C15u ^ step * 0xD1B54A32D192ED03u;
  word ^= word >> 29;
  return {word, word * 0xBF58476D1CE4E5B9u};
}

}  // namespace

BenchPart::BenchPart(const index_calc::Layout& layout, core::Rank rank, std::size_t element_bytes,
                     bool is_allocated)
    : part_(local_part(layout, rank)), element_bytes_(element_bytes) {
  const std::size_t bytes = static_cast<std::size_t>(part_.allocated) * element_bytes;
  if (is_allocated && bytes > 0)
    bytes_ = {allocated_ = transport::local::allocate(bytes), bytes};
  else
    bytes_ = (own_ = core::Buffer(bytes)).span();
  if (!bytes_.empty()) std::memset(bytes_.data(), 0, bytes);
  const auto& dims = expect_grid(layout, "benchmark").dims;
  const auto coords = coords_of(layout, rank);
  if (!coords) return;
  Index faster = 1;  // elements of the faster dimensions, for row-major numbers
  const auto extents = shape(layout);
  for (std::size_t d = part_.dimensions; d-- > 0;) {
    for (Index i = 0; i < part_.extent[d]; ++i)
      numbers_[d].push_back(to_global(dims[d], (*coords)[d], {i}).value * faster);
    faster *= extents[d];
  }
}

BenchPart::~BenchPart() {
  if (allocated_ != nullptr) transport::local::deallocate(allocated_);
}

template <class Visit>
void BenchPart::walk(std::size_t d, Index at, Index number, Visit&& visit) const {
  if (part_.elements == 0) return;
  for (Index i = 0; i < part_.extent[d]; ++i, at += part_.stride[d]) {
    const Index here = number + numbers_[d][static_cast<std::size_t>(i)];
    if (d + 1 < part_.dimensions)
      walk(d + 1, at, here, visit);
    else
      visit(bytes_.data() + static_cast<std::size_t>(at) * element_bytes_, here);
  }
}

void BenchPart::fill(std::uint64_t step) {
  walk(0, part_.first, 0, [&](std::byte* at, Index number) {
    std::memcpy(at, words_of(static_cast<std::uint64_t>(number), step).data(), element_bytes_);
  });
}

void BenchPart::verify(std::uint64_t step) const {
  walk(0, part_.first, 0, [&](const std::byte* at, Index number) {
    if (std::memcmp(at, words_of(static_cast<std::uint64_t>(number), step).data(),
                    element_bytes_) != 0)
      throw core::Error(
          core::Errc::mismatch,
          fmt::format(
              "step {}: expected element {} at its position, found other bytes; please report this",
              step, number));
  });
}

}  // namespace tremula::cli
