// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "client/c_api/c_api.hpp"
#include "client/stream/describe.hpp"

struct tremula_description {
  tremula::client::Description value;
  std::vector<std::unique_ptr<tremula_layout>> layouts;             ///< parallel to value.fields
  std::vector<std::vector<std::unique_ptr<tremula_layout>>> boxes;  ///< shape: [part][field]
};

using namespace tremula;
using client::call, client::expects_pointer, client::guarded;

tremula_status tremula_describe(tremula_session* session, const char* stream, double seconds,
                                tremula_description** description) {
  return call(session, "session", [&] {
    expects_pointer(stream, "stream");
    expects_pointer(description, "description");
    client::Session& own = *session->session;
    auto found = std::make_unique<tremula_description>();
    found->value = client::describe(own, stream,
                                    seconds < 0 ? own.deadline() : core::Deadline::after(seconds));
    for (const proto::Field& field : found->value.fields)
      found->layouts.emplace_back(new tremula_layout{field.layout});
    for (const auto& part : found->value.parts) {
      auto& boxes = found->boxes.emplace_back();
      for (const proto::Field& field : part.fields)
        boxes.emplace_back(new tremula_layout{field.layout});
    }
    *description = found.release();
  });
}

void tremula_description_free(tremula_description* description) { delete description; }

const char* tremula_description_producer(const tremula_description* description) {
  return description ? description->value.producer.c_str() : "";
}
int tremula_description_ranks(const tremula_description* description) {
  return description ? description->value.ranks : 0;
}
int tremula_description_queue_depth(const tremula_description* description) {
  return description ? description->value.queue_depth : 0;
}
int tremula_description_fields(const tremula_description* description) {
  return description ? static_cast<int>(description->value.fields.size()) : 0;
}

int tremula_description_parts(const tremula_description* description) {
  return description ? static_cast<int>(description->value.parts.size()) : 0;
}

tremula_status tremula_description_part(const tremula_description* description, int field, int part,
                                        const char** group, const tremula_layout** layout,
                                        int64_t* origin) {
  return guarded([&] {
    expects_pointer(description, "description");
    const auto& parts = description->value.parts;
    const auto f = static_cast<std::size_t>(field), p = static_cast<std::size_t>(part);
    core::expects(part >= 0 && p < parts.size() && field >= 0 && f < parts[p].fields.size(), [&] {
      return fmt::format("expected one of {} fields and of {} parts; found field {} and part {}",
                         description->value.fields.size(), parts.size(), field, part);
    });
    if (group) *group = parts[p].group.c_str();
    if (layout) *layout = description->boxes[p][f].get();
    if (origin) std::ranges::copy(parts[p].fields[f].origin, origin);
  });
}

tremula_status tremula_description_attributes(const tremula_description* description, int of,
                                              tremula_attributes** attributes) {
  return guarded([&] {
    expects_pointer(description, "description");
    expects_pointer(attributes, "attributes");
    const auto& fields = description->value.fields;
    core::expects(of >= TREMULA_OF_STREAM && of < static_cast<int>(fields.size()), [&] {
      return fmt::format("of: expected TREMULA_OF_STREAM or a field below {}; found {}",
                         fields.size(), of);
    });
    client::make_attributes(
        proto::decode_attributes(of == TREMULA_OF_STREAM
                                     ? description->value.attributes
                                     : fields[static_cast<std::size_t>(of)].attributes),
        attributes);
  });
}

tremula_status tremula_description_field(const tremula_description* description, int field,
                                         const char** name, tremula_type* type,
                                         const tremula_layout** layout) {
  return guarded([&] {
    expects_pointer(description, "description");
    const auto& fields = description->value.fields;
    core::expects(field >= 0 && static_cast<std::size_t>(field) < fields.size(), [&] {
      return fmt::format("field: expected 0 to {}; found {}", fields.size() - 1, field);
    });
    const auto f = static_cast<std::size_t>(field);
    if (name) *name = fields[f].name.c_str();
    if (type) *type = static_cast<tremula_type>(fields[f].type);
    if (layout) *layout = description->layouts[f].get();
  });
}
