// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "client/c_api/c_api.hpp"

using namespace tremula;
using client::call, client::expects_pointer, client::guarded;

static_assert(client::of_stream == TREMULA_OF_STREAM && client::of_step == TREMULA_OF_STEP);

namespace {

/// Returns a copy of all values that the application passes.
proto::AttributeValues values_from(tremula_attribute_type type, const void* values, size_t count) {
  if (count > 0) expects_pointer(values, "values");
  // A larger count would be refused later as well, but an uninitialised one would first cause reads
  // beyond the values.
  core::expects(count <= proto::max_attributes_bytes, [&] {
    return fmt::format("count: expected at most {} values; found {}", proto::max_attributes_bytes,
                       count);
  });
  switch (type) {
    case TREMULA_INTEGER: {
      const auto* const first = static_cast<const std::int64_t*>(values);
      return std::vector<std::int64_t>(first, first + count);
    }
    case TREMULA_REAL: {
      const auto* const first = static_cast<const double*>(values);
      return std::vector<double>(first, first + count);
    }
    case TREMULA_TEXT: {
      std::vector<std::string> texts;
      for (const char* const text : std::span(static_cast<const char* const*>(values), count)) {
        expects_pointer(text, "a text of values");
        texts.emplace_back(text);
      }
      return texts;
    }
  }
  throw core::Error(core::Errc::invalid_argument,
                    fmt::format("type: expected a type of enum tremula_attribute_type; found {}",
                                static_cast<int>(type)));
}

}  // namespace

void tremula::client::make_attributes(proto::Attributes value, tremula_attributes** out) {
  auto made = std::make_unique<tremula_attributes>();
  made->value = std::move(value);
  for (const proto::Attribute& attribute : made->value.all()) {
    auto& texts = made->texts.emplace_back();
    if (const auto* const values = std::get_if<std::vector<std::string>>(&attribute.values))
      for (const std::string& text : *values) texts.push_back(text.c_str());
  }
  *out = made.release();
}

tremula_status tremula_out_attribute(tremula_out_stream* out, int of, const char* name,
                                     tremula_attribute_type type, const void* values,
                                     size_t count) {
  return call(out, "out", [&] {
    expects_pointer(name, "name");
    out->stream->set_attribute(of, name, values_from(type, values, count));
  });
}

tremula_status tremula_out_time(tremula_out_stream* out, int64_t time) {
  return call(out, "out", [&] { out->stream->set_time(time); });
}

tremula_status tremula_in_time(const tremula_in_stream* in, int64_t* time) {
  return call(in, "in", [&] {
    expects_pointer(time, "time");
    *time = in->stream->time();
  });
}

tremula_status tremula_in_attributes(const tremula_in_stream* in, int of,
                                     tremula_attributes** attributes) {
  return call(in, "in", [&] {
    expects_pointer(attributes, "attributes");
    client::make_attributes(in->stream->attributes(of), attributes);
  });
}

void tremula_attributes_free(tremula_attributes* attributes) { delete attributes; }

int tremula_attributes_count(const tremula_attributes* attributes) {
  return attributes ? static_cast<int>(attributes->value.all().size()) : 0;
}

tremula_status tremula_attributes_at(const tremula_attributes* attributes, int number,
                                     const char** name, tremula_attribute_type* type, size_t* count,
                                     const void** values) {
  return guarded([&] {
    expects_pointer(attributes, "attributes");
    const auto all = attributes->value.all();
    core::expects(number >= 0 && static_cast<std::size_t>(number) < all.size(), [&] {
      return fmt::format("attribute: expected a number below {}; found {}", all.size(), number);
    });
    const auto n = static_cast<std::size_t>(number);
    if (name) *name = all[n].name.c_str();
    if (type) *type = static_cast<tremula_attribute_type>(all[n].values.index() + 1);
    std::visit(
        [&]<class T>(const std::vector<T>& of) {
          if (count) *count = of.size();
          if (!values) return;
          if constexpr (std::is_same_v<T, std::string>)
            *values = attributes->texts[n].data();
          else
            *values = of.data();
        },
        all[n].values);
  });
}

tremula_status tremula_attributes_find(const tremula_attributes* attributes, const char* name,
                                       int* number) {
  return guarded([&] {
    expects_pointer(name, "name");
    expects_pointer(number, "number");
    const auto* const found = attributes == nullptr ? nullptr : attributes->value.find(name);
    *number = found == nullptr ? -1 : static_cast<int>(found - attributes->value.all().data());
  });
}
