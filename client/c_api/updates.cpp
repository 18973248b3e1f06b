// SPDX-License-Identifier: Apache-2.0
#include "client/c_api/updates.hpp"

#include "client/c_api/sized_struct.hpp"

namespace tremula::client {

core::ElementType type_from(tremula_type type) {
  core::expects(core::is_element_type(type), [&] {
    return "expected an element type of enum tremula_type; found " + std::to_string(type);
  });
  return static_cast<core::ElementType>(type);
}

tremula_update read_update(const tremula_update* given) {
  expects_pointer(given, "update");
  return read_struct(given, tremula_update_init(nullptr, nullptr, TREMULA_F64));
}

FieldUpdate update_from(const tremula_update& u, std::size_t dimensions) {
  FieldUpdate update{.alpha = {u.alpha[0], u.alpha[1]},
                     .beta = {u.beta[0], u.beta[1]},
                     .conjugates = u.conjugate != 0,
                     .axes = {},
                     .of_data = {},
                     .from_origin = {}};
  if (u.axes != nullptr)
    for (std::size_t d = 0; d < dimensions; ++d) {
      core::expects(u.axes[d] >= 0, [&] {
        return "update.axes: expected each dimension once; found " + std::to_string(u.axes[d]);
      });
      update.axes.push_back(static_cast<std::size_t>(u.axes[d]));
    }
  if (u.extents == nullptr) {
    core::expects(
        u.from_origin == nullptr && u.to_origin == nullptr,
        "update.extents: expected the extents of the part that begins at the origins; found "
        "NULL");
    return update;
  }
  const auto origin = [&](const int64_t* given) {
    return given == nullptr ? std::vector<core::Index>(dimensions)
                            : std::vector<core::Index>(given, given + dimensions);
  };
  update.of_data = {.origin = origin(u.to_origin),
                    .extents = std::vector<core::Index>(u.extents, u.extents + dimensions)};
  update.from_origin = origin(u.from_origin);
  return update;
}

Update update_of(const tremula_update* given) {
  const tremula_update u = read_update(given);
  expects_pointer(u.from, "update.from");
  expects_pointer(u.to, "update.to");
  const std::size_t dimensions = index_calc::dimensions(u.to->layout);
  core::expects(
      index_calc::dimensions(u.from->layout) == dimensions,
      "update: expected two layouts with the same number of dimensions; found different numbers");
  auto wanted = update_from(u, dimensions);
  Update update{.from = u.from->layout,
                .to = u.to->layout,
                .transformation = {.from = type_from(u.from_type),
                                   .to = type_from(u.to_type),
                                   .alpha = wanted.alpha,
                                   .beta = wanted.beta,
                                   .conjugates = wanted.conjugates},
                .axes = std::move(wanted.axes),
                .of_from = {},
                .of_to = std::move(wanted.of_data)};
  if (!update.of_to) return update;
  std::vector<core::Index> extents = update.of_to->extents;
  if (!update.axes.empty()) {
    const auto back = index_calc::inverse(update.axes, dimensions);
    for (std::size_t d = 0; d < dimensions; ++d) extents[d] = update.of_to->extents[back[d]];
  }
  update.of_from = {.origin = std::move(wanted.from_origin), .extents = std::move(extents)};
  return update;
}

std::vector<Update> updates_of(const tremula_update* given, std::size_t count, std::size_t stride) {
  if (count > 0) expects_pointer(given, "updates");
  std::vector<Update> updates;
  updates.reserve(count);
  for (std::size_t i = 0; i < count; ++i) updates.push_back(update_of(element(given, i, stride)));
  return updates;
}

}  // namespace tremula::client
