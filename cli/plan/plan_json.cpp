// SPDX-License-Identifier: Apache-2.0
#include "cli/plan/plan_json.hpp"

#include <fmt/format.h>

#include <iterator>

#include "index_calc/layout/blocks.hpp"

namespace tremula::cli {

namespace {

using index_calc::Family, index_calc::Package, index_calc::SegmentList;

std::string package_json(const Package& package, const PackageFacts& facts) {
  std::string out;
  fmt::format_to(
      std::back_inserter(out),
      R"({{"peer": {}, "elements": {}, "bytes": {}, "runs": {}, "longest_run": {}, "shortest_run": )"
      R"({}, "packing": "{}", "path": "{}", "dimensions": [)",
      facts.peer.value, facts.elements, facts.bytes, facts.runs.count, facts.runs.longest,
      facts.runs.shortest, facts.packing(), facts.path);
  for (std::size_t d = 0; d < package.dimensions; ++d) {
    out += d == 0 ? R"({"segments": [)" : R"(, {"segments": [)";
    bool is_first = true;
    for (const RepeatedSegment& s : flattened(package.along[d])) {
      fmt::format_to(
          std::back_inserter(out),
          R"({}{{"begin": {}, "peer_begin": {}, "length": {}, "repeat": {}, "stride": {}, )"
          R"("peer_stride": {}}})",
          is_first ? "" : ", ", s.begin, s.peer_begin, s.length, s.repeat, s.stride, s.peer_stride);
      is_first = false;
    }
    out += "]}";
  }
  return out + "]}";
}

}  // namespace

std::vector<RepeatedSegment> flattened(const SegmentList& list) {
  std::vector<RepeatedSegment> result;
  /// Adds `count` segments, beginning with the `segment`-th of the family in turn `turn`.
  const auto add = [&](const Family& f, Index segment, Index turn, Index count, Index stride,
                       Index peer_stride) {
    const bool is_one = count == 1;
    result.push_back(
        {.begin = f.first.begin.value + segment * list.family_stride + turn * list.stride,
         .peer_begin =
             f.first.peer_begin.value + segment * list.family_peer_stride + turn * list.peer_stride,
         .length = f.first.length,
         .repeat = count,
         .stride = is_one ? 0 : stride,
         .peer_stride = is_one ? 0 : peer_stride});
  };
  if (list.skip > 0) {  // a slice may begin inside a turn: add its families one by one
    list.for_each_family([&](const Family& f) {
      add(f, 0, 0, f.count, list.family_stride, list.family_peer_stride);
    });
    return result;
  }
  for (const Family& f : list.period) {
    if (list.repeat == 0) break;  // the period holds only the tail
    if (f.count < list.repeat)
      for (Index i = 0; i < f.count; ++i) add(f, i, 0, list.repeat, list.stride, list.peer_stride);
    else
      for (Index turn = 0; turn < list.repeat; ++turn)
        add(f, 0, turn, f.count, list.family_stride, list.family_peer_stride);
  }
  // The tail is an incomplete turn after the complete ones: walk it as a list without complete
  // turns, and place it at turn `repeat`.
  SegmentList tail = list;
  tail.repeat = 0;
  tail.for_each_family([&](const Family& f) {
    add(f, 0, list.repeat, f.count, list.family_stride, list.family_peer_stride);
  });
  return result;
}

std::string plan_json_begin(const Redistribution& redistribution) {
  return fmt::format(
      "{{\n  \"from\": \"{}\",\n  \"to\": \"{}\",\n  \"algorithm\": \"{}\",\n"
      "  \"element_bytes\": {},\n  \"far\": {},\n  \"queue_depth\": {},\n"
      "  \"allocated\": {},\n  \"async\": {},\n  \"ranks\": [\n",
      to_string(redistribution.from), to_string(redistribution.to), planned_by(redistribution),
      redistribution.element_bytes, !redistribution.stream.is_near,
      redistribution.stream.queue_depth, redistribution.stream.is_allocated,
      redistribution.stream.is_lent);
}

void plan_json_rank(const Redistribution& redistribution, const RankPlan& plan, bool is_first,
                    const std::function<void(std::string_view)>& print) {
  print(fmt::format(
      "{}    {{\"rank\": {}, \"plan_seconds\": {:.9f}, \"plan_bytes\": {}, \"packages\": [",
      is_first ? "" : ",\n", plan.rank.value, plan.seconds, plan.plan.memory_bytes()));
  std::string_view before = "\n      ";
  Index kept_bytes = 0;
  plan.plan.for_each_package([&](const Package& package) {
    const PackageFacts known = facts(redistribution, plan, package);
    print(before);
    print(package_json(package, known));
    before = ",\n      ";
    kept_bytes = index_calc::saturating_sum(kept_bytes, known.kept_bytes);
  });
  print(fmt::format("], \"queue_bytes\": {}}}", queue_bytes(redistribution, kept_bytes)));
}

std::string plan_json_end() { return "\n  ]\n}\n"; }

}  // namespace tremula::cli
