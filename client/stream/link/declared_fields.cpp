// SPDX-License-Identifier: Apache-2.0
#include "client/stream/link/declared_fields.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "client/stream/link/link.hpp"
#include "index_calc/layout/changing.hpp"
#include "index_calc/relabel/relabel.hpp"
#include "proto/parts.hpp"

namespace tremula::client {

using core::Errc, core::Error, core::expects;

namespace {
std::string attributes_text(const std::string& bytes) {
  return bytes.empty() ? ""
                       : ' ' + proto::to_json(proto::decode_attributes(proto::bytes_of(bytes)));
}

std::string text_of(const wire::Announce& fields) {
  std::string text;
  for (const auto& f : fields.fields())
    text += fmt::format("{}'{}' {} {}{}", text.empty() ? "" : ", ", f.name(),
                        core::to_string(static_cast<core::ElementType>(f.element_type())),
                        f.layout(), attributes_text(f.attributes()));
  return (text.empty() ? "no field" : text) + attributes_text(fields.attributes());
}
std::size_t buffer_bytes(const index_calc::LocalPart& part, core::ElementType type) {
  std::size_t bytes = 0;
  expects(!__builtin_mul_overflow(static_cast<std::size_t>(part.allocated),
                                  core::element_bytes(type), &bytes),
          [&] {
            return fmt::format(
                "local buffer: expected at most 2^64 - 1 bytes; found {} elements of {}: list "
                "fewer places",
                part.allocated, core::to_string(type));
          });
  return bytes;
}
void check_time_unit(const proto::AttributeValues& values) {
  const auto* const texts = std::get_if<std::vector<std::string>>(&values);
  expects(texts != nullptr && texts->size() == 1 && proto::is_name(texts->front()), [&] {
    return fmt::format(
        "attribute '{}': expected one text, such as \"s\" or \"day\", of {}; found {}",
        proto::time_unit, proto::name_rule, proto::to_json(values));
  });
}
}  // namespace

Target apply(const FieldUpdate& update, proto::Field& field, Rank me) {
  Target target{.part = local_part(field.layout, me),
                .transformation = {.from = field.type,
                                   .to = field.type,
                                   .alpha = update.alpha,
                                   .beta = update.beta,
                                   .conjugates = update.conjugates}};
  validate(target.transformation);
  if (update.of_data) {
    const auto whole = std::exchange(field.layout, selected(field.layout, *update.of_data));
    target.part =
        whole.listed() ? local_part(field.layout, me) : selected_part(whole, *update.of_data, me);
    const std::size_t dimensions = index_calc::dimensions(field.layout);
    field.origin = update.from_origin.empty() ? std::vector<Index>(dimensions) : update.from_origin;
    core::expects(field.origin.size() == dimensions, [&] {
      return fmt::format("from_origin: expected one index for each of the {} dimensions, found {}",
                         dimensions, field.origin.size());
    });
    for (const Index index : field.origin)
      core::expects(index >= 0 && index < std::numeric_limits<Index>::max(), [&] {
        return fmt::format("from_origin: expected indices of at least 0, found {}", index);
      });
  }
  if (update.axes.empty()) return target;
  const auto back = index_calc::inverse(update.axes, dimensions(field.layout));
  field.layout = permuted(field.layout, back);
  if (field.layout.listed() == nullptr) target.part = permuted(target.part, back);
  return target;
}

DeclaredFields::DeclaredFields(Session& session, std::string stream)
    : session_(&session), stream_(std::move(stream)) {
  expects(proto::is_name(stream_), [&] {
    return fmt::format("stream name: expected {}; found '{}'", proto::name_rule, stream_);
  });
}

int DeclaredFields::declare(proto::Field field, const FieldUpdate& update) {
  expects(proto::is_name(field.name), [&] {
    return fmt::format("stream '{}': field name: expected {}; found '{}'", stream_,
                       proto::name_rule, field.name);
  });
  expects(!names_.contains(field.name), [&] {
    return fmt::format(
        "stream '{}': field '{}' is declared twice; declare it once, in a type and a layout that "
        "serve all uses; another group may take it in others",
        stream_, field.name);
  });
  Checked made = checked(field, update);
  names_.insert(field.name);
  bytes_.push_back(buffer_bytes(made.data.part, field.type));
  is_changing_.push_back(field.layout.changing() != nullptr);
  has_idle_ = has_idle_ || made.data.idle;
  data_.push_back(std::move(made.data));
  targets_.push_back(made.target);
  fields_.push_back(std::move(field));
  *encoded_.Add() = std::move(made.encoded);
  return static_cast<int>(fields_.size()) - 1;
}

void DeclaredFields::redeclare(std::span<const std::pair<int, index_calc::Layout>> layouts) {
  std::set<std::size_t> named;
  for (const auto& [field, layout] : layouts) {
    const std::size_t f = check(field);
    expects(named.insert(f).second, [&] {
      return fmt::format(
          "stream '{}': redeclare: expected each field once; found '{}' twice: name it once, with "
          "its new layout",
          stream_, fields_[f].name);
    });
    redeclare(f, layout);
  }
}

void DeclaredFields::redeclare(std::size_t f, index_calc::Layout layout) {
  const index_calc::Layout& before = data_[f].layout;
  expects(
      shape(layout) == shape(before) && changing_dimension(layout) == changing_dimension(before),
      [&] {
        return fmt::format(
            "stream '{}', field '{}': expected a layout of the same shape as \"{}\"; found \"{}\"",
            stream_, fields_[f].name, to_string(before), to_string(layout));
      });
  if (proto::is_part(fields_[f]))
    throw Error(
        Errc::unsupported,
        fmt::format("stream '{}', field '{}': expected an array that one group produces, found "
                    "a part of one: its layout stays as it was declared",
                    stream_, fields_[f].name));
  proto::Field next{.name = fields_[f].name, .type = fields_[f].type, .layout = std::move(layout)};
  next.attributes = fields_[f].attributes;
  Checked made = checked(next, data_[f].update);
  made.data.attributes = std::move(data_[f].attributes);
  bytes_[f] = buffer_bytes(made.data.part, next.type);
  has_idle_ = has_idle_ || made.data.idle;
  data_[f] = std::move(made.data);
  targets_[f] = made.target;
  fields_[f] = std::move(next);
  encoded_[static_cast<int>(f)] = std::move(made.encoded);
}

DeclaredFields::Checked DeclaredFields::checked(proto::Field& field,
                                                const FieldUpdate& update) const {
  Checked made;
  try {
    validate_for_group(field.layout, session_->size());
    bytes_of(field.layout, core::element_bytes(field.type));
    if (proto::is_part(field)) {
      proto::check_part(field);
      expect_grid(field.layout, "part of an array that several groups produce");
    }
    made.data = {field.layout, local_part(field.layout, session_->rank()), update};
    made.target = apply(update, field, session_->rank());
    if (has_sums(field.layout)) {
      validate_sums(
          {.from = {}, .to = made.data.layout, .transformation = made.target.transformation});
      made.target.has_layers = layer_count(made.data.layout) > 1;
      field.layout = layer(field.layout, 0);
      if (coords_of(made.data.layout, session_->rank()) &&
          !coords_of(field.layout, session_->rank()))
        made.data.idle = std::exchange(made.target.part, {});
    }
    made.encoded = proto::encode(field);
    if (const auto bytes = made.encoded.layout().size(); bytes > proto::max_layout_bytes)
      throw Error(Errc::unsupported,
                  fmt::format("expected a layout whose text has at most {} bytes, found {}: take "
                              "one with fewer intervals, a smaller table of owners or ranks in "
                              "longer ranges",
                              proto::max_layout_bytes, bytes));
  } catch (const Error& e) {
    throw Error(e.code(), fmt::format("stream '{}', field '{}', group '{}': {}", stream_,
                                      field.name, session_->name(), e.what()));
  }
  return made;
}

void DeclaredFields::scale_idle(std::size_t field, std::span<std::byte> local) const {
  if (!has_idle_) return;
  if (const auto& idle = data_[field].idle)
    index_calc::scale(*idle, targets_[field].transformation, local);
}

DeclaredFields DeclaredFields::relabeled(std::span<const Rank> process) const {
  DeclaredFields result(*session_, stream_);
  for (std::size_t f = 0; f < size(); ++f)
    result.declare({.name = fields_[f].name,
                    .type = fields_[f].type,
                    .layout = index_calc::relabeled(data_[f].layout, process)},
                   data_[f].update);
  return result;
}

void DeclaredFields::set_attribute(int of, std::string_view name, proto::AttributeValues values) {
  const std::size_t f = of == of_stream ? 0 : check(of);
  proto::Attributes& all = of == of_stream ? attributes_ : data_[f].attributes;
  proto::Attributes changed = all;
  try {
    changed.set(name, std::move(values));
    if (of == of_stream && name == proto::time_unit) check_time_unit(changed.find(name)->values);
    const std::size_t bytes =
        field_attribute_bytes_ - all.encoded_bytes() + changed.encoded_bytes();
    expects(of == of_stream || bytes <= proto::max_field_attributes_bytes, [&] {
      return fmt::format(
          "attribute '{}': expected at most {} bytes of attributes of all fields, "
          "found {}; set what they have in common on the stream",
          name, proto::max_field_attributes_bytes, bytes);
    });
    if (of != of_stream) field_attribute_bytes_ = bytes;
  } catch (const Error& e) {
    throw Error(
        e.code(),
        fmt::format("stream '{}'{}: {}", stream_,
                    of == of_stream ? "" : fmt::format(", field '{}'", fields_[f].name), e.what()));
  }
  all = std::move(changed);
  core::Bytes bytes = proto::encode(all);
  if (of == of_stream) {
    encoded_attributes_ = std::move(bytes);
  } else {
    encoded_[static_cast<int>(f)].set_attributes(bytes.data(), bytes.size());
    fields_[f].attributes = std::move(bytes);
  }
}

wire::Announce DeclaredFields::announced() const {
  wire::Announce mine;
  *mine.mutable_fields() = encoded_;
  mine.set_attributes(encoded_attributes_.data(), encoded_attributes_.size());
  return mine;
}

std::uint64_t DeclaredFields::hash() const {
  return std::hash<std::string>{}(announced().SerializeAsString());
}

void DeclaredFields::check_alike() const {
  check_alike([this](core::Bytes mine, core::Deadline until) {
    return session_->allgather(std::move(mine), until);
  });
}

void DeclaredFields::check_alike(const Gather& gather) const {
  expects(!fields_.empty(), [&] {
    return fmt::format("stream '{}': expected at least one field before the first step", stream_);
  });
  // Layouts may be long: all ranks tell a number for them, and what they are only if it differs.
  const std::uint64_t number = hash();
  const auto bytes = std::as_bytes(std::span(&number, 1));
  const auto numbers = gather({bytes.begin(), bytes.end()}, session_->deadline());
  const auto other = std::ranges::find_if(numbers, [&](const auto& n) { return n != numbers[0]; });
  if (other == numbers.end()) return;
  constexpr std::size_t longest = 2000;
  const std::string text = text_of(announced()).substr(0, longest);
  const auto view = std::as_bytes(std::span(text));
  const auto texts = gather({view.begin(), view.end()}, session_->deadline());
  const auto text_at = [&](Rank rank) {
    const core::Bytes& its = texts[at(rank)];
    return std::string(reinterpret_cast<const char*>(its.data()), its.size());
  };
  const Rank rank{static_cast<RankCount>(other - numbers.begin())};
  throw Error(
      Errc::mismatch,
      fmt::format("stream '{}': expected every rank of group '{}' to declare the same fields in "
                  "the same order; rank 0 declares {}; rank {} declares {}",
                  stream_, session_->name(), text_at(Rank{0}), rank.value, text_at(rank)));
}

std::size_t DeclaredFields::check(int field) const {
  expects(field >= 0 && field < static_cast<int>(fields_.size()), [&] {
    return fmt::format("stream '{}': expected a field from 0 to {}; found {}", stream_,
                       static_cast<int>(fields_.size()) - 1, field);
  });
  return static_cast<std::size_t>(field);
}

Index DeclaredFields::count_in(std::size_t f, std::size_t bytes) const {
  const auto slice = static_cast<std::size_t>(slice_elements(data_[f].layout, session_->rank())) *
                     core::element_bytes(fields_[f].type);
  const std::size_t unit = std::max<std::size_t>(slice, 1);
  expects(slice == 0 ? bytes == 0 : bytes % slice == 0, [&] {
    return fmt::format(
        "stream '{}', field '{}', rank {}: expected a buffer of a multiple of {} bytes, the size "
        "of one element along dimension {} of \"{}\"; found {} bytes",
        stream_, fields_[f].name, session_->rank().value, slice,
        changing_dimension(data_[f].layout), to_string(data_[f].layout), bytes);
  });
  return static_cast<Index>(bytes / unit);
}

std::size_t DeclaredFields::check(int field, const index_calc::Layout& layout,
                                  std::size_t bytes) const {
  const std::size_t f = check(field);
  const auto elements = local_part(layout, session_->rank()).allocated;
  const auto expected = static_cast<std::size_t>(elements) * core::element_bytes(fields_[f].type);
  expects(bytes == expected, [&] {
    return fmt::format(
        "stream '{}', field '{}', rank {}: expected a buffer of {} bytes ({} elements of {}, which "
        "this rank has of \"{}\" in this step); found {} bytes; ask for the layout of the step "
        "first",
        stream_, fields_[f].name, session_->rank().value, expected, elements,
        core::to_string(fields_[f].type), to_string(layout), bytes);
  });
  return f;
}

std::size_t DeclaredFields::check(int field, std::size_t bytes) const {
  const std::size_t f = check(field), expected = bytes_[f];
  expects(bytes == expected, [&] {
    return fmt::format(
        "stream '{}', field '{}', rank {}: expected a buffer of {} bytes ({} "
        "elements of {}, layout {}); "
        "found {} bytes; pass the whole local part, ghost cells included",
        stream_, fields_[f].name, session_->rank().value, expected, data_[f].part.allocated,
        core::to_string(fields_[f].type), to_string(data_[f].layout), bytes);
  });
  return f;
}

}  // namespace tremula::client
