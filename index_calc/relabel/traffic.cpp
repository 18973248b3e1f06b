// SPDX-License-Identifier: Apache-2.0
#include "index_calc/relabel/traffic.hpp"

#include <fmt/format.h>

#include "core/error.hpp"
#include "index_calc/relabel/assignment.hpp"

namespace tremula::index_calc {
namespace {

void expect_rank(Rank rank, Rank ranks, std::string_view side) {
  core::expects(rank < ranks, [&] {
    return fmt::format(
        "expected the place of each {0} that takes part, found those of {1} and {0} {2}", side,
        ranks, rank);
  });
}

}  // namespace

Traffic::Traffic(std::span<const Transfer> arrays, Rank producers, Rank consumers)
    : labels_(consumers), bytes_from_(at(producers)) {
  Index total = 0;
  for (const Transfer& array : arrays) {
    core::expects(array.element_bytes >= 1, "expected elements of at least 1 byte");
    validate_pair(array.from, array.to);
    const Index bytes = bytes_of(array.from, static_cast<std::size_t>(array.element_bytes));
    core::expects(bytes <= Gains::largest - total,
                  "expected arrays of at most 2^61 - 1 bytes together, found more; relabel for "
                  "some of them");
    total += bytes;
    Array& a = arrays_.emplace_back(Volumes(array.to, array.from, Role::sink), ranks_of(array.from),
                                    std::vector<Rank>(at(consumers), -1), array.element_bytes);
    for (const Rank p : a.producers) expect_rank(p, producers, "producer");
    Rank position = 0;
    for (const Rank label : ranks_of(array.to)) {
      expect_rank(label, consumers, "consumer");
      a.position[at(label)] = position++;
    }
  }
}

void Traffic::collect(Rank label) {
  senders_.clear();
  for (const Array& a : arrays_) {
    if (a.position[at(label)] < 0) continue;
    for (const Volume& v : a.volumes.row(a.position[at(label)])) {
      const Rank producer = a.producers[at(v.peer)];
      if (bytes_from_[at(producer)] == 0) senders_.push_back(producer);
      bytes_from_[at(producer)] += v.elements * a.element_bytes;
    }
  }
}

}  // namespace tremula::index_calc
