// SPDX-License-Identifier: Apache-2.0
#include "index_calc/relabel/traffic.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.hpp"
#include "index_calc/layout/blocks.hpp"
#include "index_calc/relabel/assignment.hpp"

namespace tremula::index_calc {
namespace {

void expect_rank(Rank rank, RankCount ranks, std::string_view side) {
  core::expects(rank.value < ranks, [&] {
    return fmt::format(
        "expected a place for each {0} that takes part, found {1} places and {0} {2}", side, ranks,
        rank.value);
  });
}

}  // namespace

Traffic::Traffic(std::span<const Transfer> arrays, const Places& places)
    : labels_(static_cast<RankCount>(places.consumers.size())),
      place_of_(places.producers),
      of_producers_(places.producers.begin(), places.producers.end()),
      of_consumers_(places.consumers.begin(), places.consumers.end()),
      hosts_{.of_mine = of_consumers_, .of_theirs = of_producers_, .is_one_job = places.is_one_job},
      bytes_from_(places.producers.size()) {
  const auto producers = static_cast<RankCount>(places.producers.size());
  Index total = 0;
  for (const Transfer& array : arrays) {
    core::expects(array.element_bytes >= 1, "expected elements of at least 1 byte");
    validate_pair(array.from, array.to);
    const Index bytes = saturating_product(
        bytes_of(array.from, static_cast<std::size_t>(array.element_bytes)), copy_count(array.to));
    core::expects(bytes <= Gains::largest - total,
                  "expected arrays of at most 2^61 - 1 bytes in total, each as often as the "
                  "consumer has copies of it, found more; relabel for fewer arrays");
    total += bytes;
    const std::vector<Rank> of_producer = ranks_of(array.from), of_label = ranks_of(array.to);
    for (const Rank p : of_producer) expect_rank(p, producers, "producer");
    for (const Rank label : of_label) expect_rank(label, labels_, "consumer");
    Array& a = arrays_.emplace_back(Volumes(array.to, array.from, Role::sink, hosts_), of_producer,
                                    std::vector<RankCount>(at(labels_), -1), array.element_bytes,
                                    copy_count(array.to));
    depends_on_labels_ =
        depends_on_labels_ || (copy_count(array.from) > 1 && (places.is_one_job || a.sinks > 1));
    RankCount position = 0;
    for (const Rank label : of_label) a.position[at(label)] = position++;
  }
}

void Traffic::add(Rank producer, Index bytes) {
  if (bytes_from_[at(producer)] == 0) senders_.push_back(producer);
  bytes_from_[at(producer)] += bytes;
}

void Traffic::collect(Rank label) {
  senders_.clear();
  for (const Array& a : arrays_) {
    if (a.position[at(label)] < 0) continue;
    for (const Volume& v : a.volumes.row(a.position[at(label)]))
      add(a.producers[at(v.peer)], v.elements * a.element_bytes);
  }
}

void Traffic::collect_near(Rank label) {
  senders_.clear();
  std::vector<Rank> copies;  // copies of one cell, sorted by place
  for (const Array& a : arrays_) {
    if (a.position[at(label)] < 0) continue;
    a.volumes.for_each_cell(a.position[at(label)], [&](std::span<const RankCount> peers,
                                                       Index elements) {
      copies.clear();
      for (const RankCount peer : peers) copies.push_back(a.producers[at(peer)]);
      const auto place = [&](Rank p) { return place_of_[at(p)]; };
      std::ranges::stable_sort(copies, {}, place);
      const auto all = static_cast<Index>(copies.size());
      for (std::size_t i = 0, end = 0; i < copies.size(); i = end) {
        while (end < copies.size() && place(copies[end]) == place(copies[i])) ++end;
        // Every copy sends the same amount to all copies of the label together.
        const Index parts = std::min(static_cast<Index>(end - i) * a.sinks, all);
        const Index share =
            hosts_.is_one_job ? elements : elements / all * parts + elements % all * parts / all;
        if (share > 0) add(copies[i], share * a.element_bytes);
      }
    });
  }
}

}  // namespace tremula::index_calc
