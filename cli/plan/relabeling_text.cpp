// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <ranges>

#include "cli/plan/relabeling.hpp"
#include "cli/table.hpp"
#include "cli/units.hpp"

namespace tremula::cli {

namespace {

constexpr std::size_t longest_layout = 160;

/// Returns e.g. "12.5 %"; "-" if there is nothing to compare with.
std::string less_text(double before, double after) {
  return before == 0 ? "-" : fmt::format("{:.1f} %", 100 * (before - after) / before);
}

std::string layout_text(const index_calc::Layout& layout) {
  std::string text = to_string(layout);
  if (text.size() <= longest_layout) return text;
  return text.substr(0, text.rfind('/', longest_layout)) + "/... (--json has all)";
}

Row row_of(std::string name, const Labels& labels, const Labels& given) {
  const auto less = [&](double before, double after) {
    return &labels == &given ? "" : less_text(before, after);
  };
  Row row{std::move(name)};
  if (labels.cost && given.cost) {
    row.push_back(fmt::format("{:.4g}", *labels.cost));
    row.push_back(less(*given.cost, *labels.cost));
  }
  row.push_back(bytes_text(static_cast<double>(labels.remote_bytes)));
  row.push_back(
      less(static_cast<double>(given.remote_bytes), static_cast<double>(labels.remote_bytes)));
  return row;
}

std::string labels_json(const Labels& labels) {
  return fmt::format(R"({{{}"remote_bytes": {}, "to": "{}", "process": [{}]}})",
                     labels.cost ? fmt::format(R"("cost": {}, )", *labels.cost) : std::string(),
                     labels.remote_bytes, to_string(labels.to),
                     fmt::join(labels.process | std::views::transform(&Rank::value), ", "));
}

}  // namespace

std::string relabeling_text(const RelabelingResult& result) {
  std::vector<Row> rows{result.given.cost ? Row{"labels", "cost", "less", "remote bytes", "less"}
                                          : Row{"labels", "remote bytes", "less"},
                        row_of("as given", result.given, result.given),
                        row_of("greedy", result.greedy, result.given),
                        row_of("optimal", result.optimal, result.given)};
  std::string out = fmt::format("\nremote bytes are bytes between {}\n", result.words);
  append_table(out, rows, Align::right);
  out += fmt::format(
      "\n  greedy   {}\n  optimal  {}\n\n"
      "A label is the part that --to gives to a rank; members lists, in grid order, the rank that\n"
      "takes each label.\n",
      layout_text(result.greedy.to), layout_text(result.optimal.to));
  return out;
}

std::string relabeling_json(const Redistribution& redistribution, const RelabelingResult& result) {
  return fmt::format(
      "{{\n  \"from\": \"{}\",\n  \"to\": \"{}\",\n  \"element_bytes\": {},\n  \"cost\": \"{}\",\n"
      "  \"given\": {},\n  \"greedy\": {},\n  \"optimal\": {}\n}}\n",
      to_string(redistribution.from), to_string(redistribution.to), redistribution.element_bytes,
      result.cost, labels_json(result.given), labels_json(result.greedy),
      labels_json(result.optimal));
}

}  // namespace tremula::cli
