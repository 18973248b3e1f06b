// SPDX-License-Identifier: Apache-2.0
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "index_calc/layout/blocks.hpp"
#include "proto/check.hpp"
#include "proto/convert.hpp"
#include "proto/parts.hpp"

namespace tremula::proto {

namespace {

/// The name of a field's part, by the field's number in a message: "Announce.fields[0].name".
struct FieldPart {
  std::string_view before;
  int number;
  auto operator()(std::string_view of) const {
    return [this, of] { return fmt::format("{}fields[{}].{}", before, number, of); };
  }
};

void check(const FieldPart& part, const wire::Field& field) {
  check_name(part("name"), field.name());
  if (!core::is_element_type(field.element_type()))
    reject(part("element_type"), "1 (i8) to 15 (bool), or 65536 and 1 to 16384 bytes",
           fmt::format("{}", field.element_type()));
  check_text(part("layout"), field.layout(), max_layout_bytes);
  for (const auto index : field.origin())
    check_range(part("origin"), index, std::int64_t{0},
                std::numeric_limits<std::int64_t>::max() - 1);
  check_attributes(part("attributes"), field.attributes());
  for (const auto extent : field.whole())
    check_range(part("whole"), extent, std::int64_t{1}, std::numeric_limits<std::int64_t>::max());
}

Field decode_at(const FieldPart& part, const wire::Field& field) {
  check(part, field);
  Field out{.name = field.name(),
            .type = static_cast<core::ElementType>(field.element_type()),
            .layout = {},
            .origin = {field.origin().begin(), field.origin().end()},
            .attributes = {},
            .whole = {field.whole().begin(), field.whole().end()}};
  const auto attributes = bytes_of(field.attributes());
  out.attributes.assign(attributes.begin(), attributes.end());
  try {
    out.layout = index_calc::Layout::parse(field.layout());
    if (is_part(out)) check_part(out);
  } catch (const core::Error& error) {
    throw core::Error(core::Errc::protocol, fmt::format("{} of field {}: {}", part("layout")(),
                                                        shown(field.name()), error.what()));
  }
  const auto dimensions = static_cast<int>(index_calc::dimensions(out.layout));
  if (field.origin_size() != 0 && field.origin_size() != dimensions)
    reject(part("origin"), fmt::format("none or as many numbers as dimensions, {}", dimensions),
           fmt::format("{}", field.origin_size()));
  if (!out.layout.storage().ghost.empty() || out.layout.storage().leading != 0)
    reject(part("layout"), "a layout without ghost and leading", shown(field.layout()));
  return out;
}

/// Calls each(part, field) for each field. Checks that their names are unique.
template <class Each>
void for_each_field(std::string_view before, const WireFields& fields, Each&& each) {
  check_range([before] { return fmt::format("{}fields, count", before); }, fields.size(), 0,
              max_fields);
  std::set<std::string_view> names;
  std::size_t attribute_bytes = 0;
  for (int i = 0; i < fields.size(); ++i) {
    const FieldPart part{before, i};
    each(part, fields[i]);
    attribute_bytes += fields[i].attributes().size();
    if (attribute_bytes > max_field_attributes_bytes)
      reject(part("attributes"),
             fmt::format("at most {} bytes of all fields", max_field_attributes_bytes),
             fmt::format("{}", attribute_bytes));
    if (!names.insert(fields[i].name()).second)
      reject(part("name"), "unique names", shown(fields[i].name()) + " twice");
  }
}

std::string shape_of(const Field& field) {
  return is_part(field) ? fmt::format("{}", fmt::join(field.whole, "x"))
                        : index_calc::shape_text(field.layout);
}

std::string listed(std::span<const Field> fields) {
  std::vector<std::string> items;
  for (const Field& field : fields)
    items.push_back(
        fmt::format("'{}' ({} {})", field.name, core::to_string(field.type), shape_of(field)));
  return items.empty() ? "no field" : fmt::format("{}", fmt::join(items, ", "));
}

/// Returns whether two shapes differ only in the order of their extents.
bool is_permuted(std::vector<core::Index> one, std::vector<core::Index> other) {
  std::ranges::sort(one);
  std::ranges::sort(other);
  return one == other;
}

/// Returns whether the wanted part is inside the array.
bool holds(const Field& have, const Field& want) {
  const auto outer = whole_shape(have), inner = index_calc::shape(want.layout);
  bool is_inside = outer.size() == inner.size();
  for (std::size_t d = 0; d < inner.size() && is_inside; ++d)
    is_inside = inner[d] <= outer[d] && want.origin[d] <= outer[d] - inner[d];
  return is_inside;
}

}  // namespace

wire::Field encode(const Field& field) {
  wire::Field out;
  out.set_name(field.name);
  out.set_element_type(static_cast<int>(field.type));
  out.set_layout(index_calc::to_string(field.layout.dense()));
  for (const core::Index index : field.origin) out.add_origin(index);
  out.set_attributes(field.attributes.data(), field.attributes.size());
  for (const core::Index extent : field.whole) out.add_whole(extent);
  return out;
}

WireFields encode(std::span<const Field> fields) {
  WireFields out;
  for (const Field& field : fields) *out.Add() = encode(field);
  return out;
}

std::vector<Field> decode(const WireFields& fields) {
  std::vector<Field> out;
  for_each_field("", fields, [&](const FieldPart& part, const wire::Field& field) {
    out.push_back(decode_at(part, field));
  });
  return out;
}

void check_fields(std::string_view part, const WireFields& fields) {
  for_each_field(part, fields,
                 [](const FieldPart& of, const wire::Field& field) { check(of, field); });
}

void check_compatible(std::span<const Field> wanted, std::span<const Field> offered,
                      std::string_view stream, std::string_view consumer,
                      std::string_view producer) {
  std::map<std::string_view, const Field*> by_name;
  for (const Field& field : offered) by_name.emplace(field.name, &field);
  for (const Field& want : wanted) {
    const auto found = by_name.find(want.name);
    const Field* const have = found == by_name.end() ? nullptr : found->second;
    if (have == nullptr)
      throw core::Error(
          core::Errc::mismatch,
          fmt::format("stream '{}': consumer '{}' wants field '{}', producer '{}' offers {}; "
                      "ask for one of these or add the field to the producer",
                      stream, consumer, want.name, producer, listed(offered)));
    const auto disagree = [&](std::string_view what, std::string_view mine, std::string_view theirs,
                              std::string_view remedy = "") {
      throw core::Error(
          core::Errc::mismatch,
          fmt::format(
              "stream '{}', field '{}': consumer '{}' wants {} {}, producer '{}' offers {} {}; "
              "make both sides declare the same {}{}",
              stream, want.name, consumer, what, mine, producer, what, theirs, what, remedy));
    };
    const bool is_opaque = core::is_opaque(have->type) || core::is_opaque(want.type);
    if ((core::is_complex(have->type) && !core::is_complex(want.type)) ||
        (is_opaque && have->type != want.type))
      disagree("type", core::to_string(want.type), core::to_string(have->type));
    const bool changes = want.layout.changing() || have->layout.changing();
    if ((changes && (!want.origin.empty() || is_part(*have))) ||
        changing_dimension(want.layout) != changing_dimension(have->layout) ||
        (want.origin.empty() && index_calc::shape(want.layout) != whole_shape(*have)))
      disagree(
          "shape", shape_of(want), shape_of(*have),
          is_permuted(index_calc::shape(want.layout), whole_shape(*have))
              ? ", in the producer's order: with axes, dimension d of the consumer's array has "
                "the extent of dimension axes[d] of the field"
              : "");
    if (!want.origin.empty() && !holds(*have, want))
      throw core::Error(
          core::Errc::mismatch,
          fmt::format("stream '{}', field '{}': consumer '{}' wants a part of {} at {}, producer "
                      "'{}' offers {}, which does not contain it; take a part that is inside it",
                      stream, want.name, consumer, shape_of(want), fmt::join(want.origin, "x"),
                      producer, shape_of(*have)));
  }
}

std::int64_t step_bytes(std::span<const Field> wanted, std::span<const Field> offered) {
  std::map<std::string_view, const Field*> by_name;
  for (const Field& field : offered) by_name.emplace(field.name, &field);
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  std::int64_t bytes = 0;
  for (const Field& want : wanted) {
    const Field& have = *by_name.at(want.name);
    auto of_field = index_calc::saturating_product(
        static_cast<std::int64_t>(core::element_bytes(have.type)), copy_count(want.layout));
    for (const core::Index extent : shared_box(want, have).of_wanted.extents)
      of_field = index_calc::saturating_product(of_field, extent);
    bytes = of_field > most - bytes ? most : bytes + of_field;
  }
  return std::max<std::int64_t>(bytes, 1);
}

bool are_copied(std::span<const Field> wanted, std::span<const Field> offered) {
  std::map<std::string_view, const Field*> by_name;
  for (const Field& field : offered) by_name.emplace(field.name, &field);
  return std::ranges::any_of(wanted, [&](const Field& want) {
    return copy_count(want.layout) > 1 && copy_count(by_name.at(want.name)->layout) > 1;
  });
}

void check_fits_group(std::span<const Field> fields, core::RankCount group_size,
                      std::string_view stream, std::string_view group) {
  for (const Field& field : fields) {
    try {
      index_calc::validate_for_group(field.layout, group_size);
    } catch (const core::Error& error) {
      throw core::Error(core::Errc::mismatch,
                        fmt::format("stream '{}', field '{}' of group '{}': {}", stream, field.name,
                                    group, error.what()));
    }
  }
}

}  // namespace tremula::proto
