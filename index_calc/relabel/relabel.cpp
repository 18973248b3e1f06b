// SPDX-License-Identifier: Apache-2.0
#include "index_calc/relabel/relabel.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.hpp"
#include "index_calc/relabel/assignment.hpp"
#include "index_calc/relabel/process_classes.hpp"
#include "index_calc/relabel/traffic.hpp"

namespace tremula::index_calc {
namespace {

/// Assigns labels to processes; keeps all labels if nothing is saved.
/// @param cost  returns the cost of a label at a class of processes
template <class Cost, class CostOf>
Relabeling<Cost> relabeling(const Gains& gains, const ProcessClasses& classes, Method method,
                            CostOf&& cost) {
  const std::vector<RankCount> assigned =
      method == Method::exact ? best_assignment(gains) : greedy_assignment(gains);
  Relabeling<Cost> result{.process = classes.processes_for(assigned)};
  for (std::size_t r = 0; r < assigned.size(); ++r) {
    result.before += cost(r, classes.class_of()[r]);
    result.after += cost(r, assigned[r]);
  }
  if (result.after >= result.before) {
    result.after = result.before;
    std::iota(result.process.begin(), result.process.end(), Rank{0});
  }
  return result;
}

void validate(const Places& places) {
  for (const auto* side : {&places.producers, &places.consumers})
    core::expects(std::ranges::all_of(*side, [](RankCount place) { return place >= 0; }),
                  "expected places of at least 0, found a negative one");
}

/// Turns the costs of all labels at all classes into gains relative to the worst class, and assigns
/// labels by these gains. Shape of cost: [label, class].
Relabeling<double> relabeling(const std::vector<double>& cost, const ProcessClasses& classes,
                              Method method) {
  core::expects(std::ranges::all_of(cost, [](double c) { return std::isfinite(c); }),
                "expected costs that are finite, found one that is not");
  const std::size_t columns = classes.places().size();
  const auto row = [&](std::size_t r) { return std::span(cost).subspan(r * columns, columns); };
  std::vector<double> worst;
  double largest = 0;
  for (std::size_t r = 0; r < classes.class_of().size(); ++r) {
    const auto [low, high] = std::ranges::minmax(row(r));
    worst.push_back(high);
    largest = std::max(largest, high - low);
  }
  core::expects(std::isfinite(largest), "expected costs whose difference is finite");
  // Gains are scaled by a power of two, which is exact, and rounded to whole numbers.
  const int exponent = largest > 0 ? 60 - std::ilogb(largest) : 0;
  Gains gains;
  gains.seats = classes.sizes();
  for (std::size_t r = 0; r < classes.class_of().size(); ++r) {
    for (std::size_t k = 0; k < columns; ++k) {
      const auto gain = std::llround(std::ldexp(worst[r] - row(r)[k], exponent));
      if (gain == 0) continue;
      gains.column.push_back(static_cast<RankCount>(k));
      gains.gain.push_back(std::min<Index>(gain, Gains::largest));
    }
    gains.begin.push_back(gains.gain.size());
  }
  return relabeling<double>(gains, classes, method,
                            [&](std::size_t r, RankCount k) { return row(r)[at(k)]; });
}

/// Computes what a relabeling actually saves, from the bytes that plans move, and undoes it if it saves
/// nothing.
/// @param count  returns the cost of arrays whose labels stay as they are
template <class Cost, class Count>
void count_again(Relabeling<Cost>& result, std::span<const Transfer> arrays, Count&& count) {
  std::vector<Transfer> moved(arrays.begin(), arrays.end());
  for (Transfer& array : moved) array.to = relabeled(array.to, result.process);
  result.before = count(arrays);
  result.after = count(std::span<const Transfer>(moved));
  if (result.after < result.before) return;
  result.after = result.before;
  std::iota(result.process.begin(), result.process.end(), Rank{0});
}

/// Returns the cost of each label at each class. Shape: [label, class].
std::vector<double> costs(Traffic& traffic, const CostTable& table, const ProcessClasses& classes) {
  const std::size_t places = at(table.places);
  std::vector<double> cost;
  cost.reserve(classes.class_of().size() * classes.places().size());
  constexpr RankCount block = 16;  // labels that use a row of the table while it is in the cache
  struct Sent {
    double messages = 0, bytes = 0;
  };
  std::vector<Sent> sent(block * places);        // shape: [label of the block, place of p]
  std::vector<double> at_place(block * places);  // cost; shape: [label of the block, place of j]
  for (RankCount first = 0; first < traffic.labels(); first += block) {
    const std::size_t labels = at(std::min(block, traffic.labels() - first));
    std::ranges::fill(sent, Sent{});
    std::ranges::fill(at_place, 0.0);
    for (std::size_t i = 0; i < labels; ++i)
      traffic.for_each_sender(Rank{first + static_cast<RankCount>(i)}, [&](Rank p, Index bytes) {
        Sent& from = sent[i * places + at(table.at.producers[at(p)])];
        ++from.messages;
        from.bytes += static_cast<double>(bytes);
      });
    for (std::size_t place = 0; place < places; ++place)
      for (std::size_t i = 0; i < labels; ++i) {
        const auto [messages, bytes] = sent[i * places + place];
        if (messages == 0) continue;
        for (std::size_t k = 0; k < places; ++k)
          at_place[i * places + k] += messages * table.latency[place * places + k] +
                                      bytes * table.per_byte[place * places + k];
      }
    for (std::size_t i = 0; i < labels; ++i)
      for (const RankCount place : classes.places())
        cost.push_back(at_place[i * places + at(place)]);
  }
  return cost;
}

}  // namespace

Places one_job(RankCount size) {
  core::expects(size >= 0, "expected a job of at least 0 processes");
  std::vector<RankCount> all(at(size));
  std::iota(all.begin(), all.end(), 0);
  return {all, all, true};
}

Relabeling<Index> relabel(std::span<const Transfer> arrays, const Places& places, Method method) {
  validate(places);
  Traffic traffic(arrays, places);
  const ProcessClasses classes(places.consumers);
  Gains gains;
  gains.seats = classes.sizes();
  std::vector<Index> bytes(classes.places().size());  // bytes sent to one label by each class
  std::vector<RankCount> senders;                     // classes that send to it
  std::vector<Index> worst;                           // shape: [label]
  for (const Rank r : all_ranks(traffic.labels())) {
    senders.clear();
    worst.push_back(0);
    if (traffic.depends_on_labels())
      traffic.for_each_sender(r, [&](Rank, Index sent) { worst.back() += sent; });
    traffic.for_each_near_sender(r, [&](Rank p, Index sent) {
      if (!traffic.depends_on_labels()) worst.back() += sent;
      const auto k = classes.at(places.producers[at(p)]);
      if (!k) return;
      if (bytes[at(*k)] == 0) senders.push_back(*k);
      bytes[at(*k)] += sent;
    });
    const Index anywhere = senders.size() == bytes.size() ? std::ranges::min(bytes) : 0;
    worst.back() -= anywhere;
    for (const RankCount k : senders) {
      const Index gain = std::exchange(bytes[at(k)], 0) - anywhere;
      if (gain == 0) continue;
      gains.column.push_back(k);
      gains.gain.push_back(gain);
    }
    gains.begin.push_back(gains.gain.size());
  }
  auto result = relabeling<Index>(gains, classes, method, [&](std::size_t r, RankCount k) {
    for (std::size_t e = gains.begin[r]; e < gains.begin[r + 1]; ++e)
      if (gains.column[e] == k) return worst[r] - gains.gain[e];
    return worst[r];
  });
  if (traffic.depends_on_labels())
    count_again(result, arrays,
                [&](std::span<const Transfer> moved) { return remote_bytes(moved, places); });
  return result;
}

Relabeling<double> relabel(std::span<const Transfer> arrays, const CostTable& table,
                           Method method) {
  validate(table.at);
  const std::size_t places = at(table.places);
  core::expects(table.latency.size() == places * places && table.per_byte.size() == places * places,
                [&] {
                  return fmt::format(
                      "expected {0} x {0} latencies and costs per byte, found {1} "
                      "and {2}",
                      places, table.latency.size(), table.per_byte.size());
                });
  for (const auto* side : {&table.at.producers, &table.at.consumers})
    core::expects(
        std::ranges::all_of(*side, [&](RankCount place) { return place < table.places; }), [&] {
          return fmt::format("expected places from 0 to {}, those of the table", table.places - 1);
        });
  Traffic traffic(arrays, table.at);
  const ProcessClasses classes(table.at.consumers);
  const auto cost = costs(traffic, table, classes);
  auto result = relabeling(cost, classes, method);
  if (traffic.depends_on_labels())
    count_again(result, arrays, [&](std::span<const Transfer> moved) {
      Traffic of_moved(moved, table.at);
      const auto of_all = costs(of_moved, table, classes);
      double sum = 0;
      for (std::size_t r = 0; r < classes.class_of().size(); ++r)
        sum += of_all[r * classes.places().size() + at(classes.class_of()[r])];
      return sum;
    });
  return result;
}

Layout relabeled(const Layout& layout, std::span<const Rank> process) {
  const std::vector<Rank> labels = ranks_of(layout);
  std::vector<RankRange> members;
  bool is_same = true;
  for (const Rank label : labels) {
    core::expects(at(label) < process.size(), [&] {
      return fmt::format("expected a process for rank {} of \"{}\", found processes for {} labels",
                         label.value, to_string(layout), process.size());
    });
    const Rank taken_by = process[at(label)];
    is_same = is_same && taken_by == label;
    if (!members.empty() && members.back().first.value + members.back().count == taken_by.value)
      ++members.back().count;
    else
      members.push_back({taken_by, 1});
  }
  if (is_same) return layout;
  const bool is_in_order = members.size() == 1 && members[0].first == Rank{0};
  if (is_in_order && labels.size() == process.size()) members.clear();  // none is idle
  return layout.with_members(std::move(members));
}

Index remote_bytes(std::span<const Transfer> arrays, const Places& places) {
  validate(places);
  Traffic traffic(arrays, places);
  Index remote = 0;
  for (const Rank r : all_ranks(traffic.labels()))
    traffic.for_each_sender(r, [&](Rank p, Index bytes) {
      if (places.producers[at(p)] != places.consumers[at(r)]) remote += bytes;
    });
  return remote;
}

}  // namespace tremula::index_calc
