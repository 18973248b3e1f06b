// SPDX-License-Identifier: Apache-2.0
#include "cli/plan/fields_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "cli/plan/lists_file.hpp"
#include "cli/table.hpp"
#include "cli/units.hpp"
#include "core/error.hpp"
#include "index_calc/layout/blocks.hpp"
#include "index_calc/plan/skewed_plan.hpp"
#include "index_calc/plan/volumes.hpp"

namespace tremula::cli {

namespace {

using core::Index, core::Rank, core::RankCount;
using index_calc::Layout, index_calc::saturating_sum;

constexpr const char* keys[] = {"name", "type", "from", "to", "from-lists", "to-lists"};
constexpr std::size_t most_columns = 12;  // consumers shown as columns of the table

[[noreturn]] void fail(const std::string& file, const std::string& text) {
  throw core::Error(core::Errc::invalid_argument, fmt::format("--fields {}: {}", file, text));
}

PlannedField field_of(const YAML::Node& node) {
  if (!node.IsMap()) throw std::invalid_argument("expected name, type, from and to");
  for (const auto& entry : node) {
    const auto key = entry.first.as<std::string>();
    if (std::ranges::find(keys, key) == std::end(keys))
      throw std::invalid_argument(
          fmt::format("expected the keys {}, found '{}'", fmt::join(keys, ", "), key));
  }
  const auto text = [&](const char* key) {
    if (!node[key]) throw std::invalid_argument(fmt::format("expected the key '{}'", key));
    return node[key].as<std::string>();
  };
  PlannedField field;
  field.name = text("name");
  const std::string type = node["type"] ? text("type") : "f64";
  const auto known = core::parse_element_type(type);
  if (!known)
    throw std::invalid_argument(
        fmt::format("type: expected {}, found '{}'", core::all_element_types, type));
  field.type = *known;
  Layout &from = field.arrays.from, &to = field.arrays.to;
  from = Layout::parse(text("from"));
  to = Layout::parse(text("to"));
  validate_pair(from, to);
  index_calc::expect_dense(from, to);
  const auto file = [&](const char* key) { return node[key] ? text(key) : std::string(); };
  auto producers = lists_beside("from", file("from-lists"), from),
       consumers = lists_beside("to", file("to-lists"), to);
  if (producers || consumers)
    field.arrays.lists = match_all(from, to, std::move(producers), std::move(consumers));
  return field;
}

/// The bytes that ranks exchange in a step; 2^63 - 1 stands for more.
struct Traffic {
  std::map<std::pair<Rank, Rank>, Index> pairs;  ///< producer and consumer
  std::map<Rank, Index> sent, received;
  Index total = 0;
  std::size_t signatures = 0;  ///< pairs of layouts, each of which is planned once
};

/// Calls visit(producer, consumer, elements) for each pair that exchanges elements.
template <class Visit>
void for_each_pair(const Redistribution& arrays, const Visit& visit) {
  const auto producers = ranks_of(arrays.from), consumers = ranks_of(arrays.to);
  if (has_flat_plans(arrays)) {
    for (const Rank producer : producers)
      make_plan(arrays, Side::producer, producer)
          .for_each_package([&](const index_calc::Package& package) {
            visit(producer, package.peer, package.elements);
          });
    return;
  }
  const index_calc::Volumes volumes(arrays.from, arrays.to);
  for (std::size_t p = 0; p < producers.size(); ++p)
    for (const index_calc::Volume& v : volumes.row(static_cast<RankCount>(p)))
      visit(producers[p], consumers[static_cast<std::size_t>(v.peer)], v.elements);
}

Traffic traffic_of(const std::vector<PlannedField>& fields) {
  // Lists are not part of the text of a layout, so a field with lists equals no other field.
  using Signature = std::tuple<std::string, std::string, const PlannedField*>;
  std::map<Signature, std::pair<Index, const PlannedField*>> alike;
  for (const PlannedField& field : fields) {
    const Layout &from = field.arrays.from, &to = field.arrays.to;
    auto& [bytes, one] =
        alike[{to_string(from), to_string(to), field.arrays.lists ? &field : nullptr}];
    bytes += static_cast<Index>(core::element_bytes(field.type));
    one = &field;
  }
  Traffic traffic;
  traffic.signatures = alike.size();
  for (const auto& [signature, both] : alike) {
    const Index bytes = both.first;
    for_each_pair(both.second->arrays, [&](Rank producer, Rank consumer, Index elements) {
      const Index moved = index_calc::saturating_product(elements, bytes);
      for (Index* const sum : {&traffic.pairs[{producer, consumer}], &traffic.sent[producer],
                               &traffic.received[consumer], &traffic.total})
        *sum = saturating_sum(*sum, moved);
    });
  }
  return traffic;
}

std::string amount(Index bytes) { return bytes_text(static_cast<double>(bytes)); }

std::string busiest_text(const char* side, const char* does, const std::map<Rank, Index>& by_rank,
                         Index total) {
  if (by_rank.empty()) return "";
  const auto most = std::ranges::max_element(by_rank, {}, [](const auto& e) { return e.second; });
  const double mean = static_cast<double>(total) / static_cast<double>(by_rank.size());
  return fmt::format("  busiest {} {}: {} {}, {:.2f} times the mean\n", side, most->first.value,
                     does, amount(most->second), static_cast<double>(most->second) / mean);
}

}  // namespace

std::vector<PlannedField> read_fields(const std::string& file) {
  YAML::Node list;
  try {
    list = YAML::LoadFile(file);
  } catch (const YAML::Exception& e) {
    fail(file, e.what());
  }
  if (!list.IsSequence()) fail(file, "expected a list of fields");
  std::vector<PlannedField> fields;
  for (std::size_t i = 0; i < list.size(); ++i) try {
      fields.push_back(field_of(list[i]));
    } catch (const std::exception& e) {
      const YAML::Mark mark = list[i].Mark();
      fail(file, fmt::format("field {}, line {}: {}", i, mark.line + 1, e.what()));
    }
  return fields;
}

std::string fields_text(const std::vector<PlannedField>& fields) {
  const Traffic traffic = traffic_of(fields);
  Index array_bytes = 0;
  for (const PlannedField& f : fields)
    array_bytes = saturating_sum(array_bytes, bytes_of(f.arrays.from, core::element_bytes(f.type)));
  const auto count = [](std::size_t number, std::string_view thing) {
    return counted(static_cast<Index>(number), thing);
  };
  std::string out = fmt::format(
      "{} with arrays of {} in total: {} {} to {}\n"
      "  {} in {}, one for each pair and step; {} of layouts to plan\n",
      count(fields.size(), "field"), amount(array_bytes), count(traffic.sent.size(), "producer"),
      traffic.sent.size() == 1 ? "sends" : "send", count(traffic.received.size(), "consumer"),
      amount(traffic.total), count(traffic.pairs.size(), "message"),
      count(traffic.signatures, "pair"));
  out += busiest_text("producer", "sends", traffic.sent, traffic.total);
  out += busiest_text("consumer", "receives", traffic.received, traffic.total);
  if (traffic.received.size() > most_columns || traffic.pairs.empty()) return out;
  std::vector<Row> rows{{"producer"}};
  for (const auto& [consumer, bytes] : traffic.received)
    rows.front().push_back(fmt::format("to {}", consumer.value));
  rows.front().push_back("total");
  for (const auto& [producer, sent] : traffic.sent) {
    Row& row = rows.emplace_back(Row{std::to_string(producer.value)});
    for (const auto& [consumer, bytes] : traffic.received) {
      const auto pair = traffic.pairs.find({producer, consumer});
      row.push_back(pair == traffic.pairs.end() ? "-" : amount(pair->second));
    }
    row.push_back(amount(sent));
  }
  Row& last = rows.emplace_back(Row{"total"});
  for (const auto& [consumer, bytes] : traffic.received) last.push_back(amount(bytes));
  last.push_back(amount(traffic.total));
  append_table(out, rows, Align::right);
  return out;
}

}  // namespace tremula::cli
