// SPDX-License-Identifier: Apache-2.0
#include "client/stream/field_update.hpp"

#include <fmt/format.h>

#include <limits>

#include "core/error.hpp"

namespace tremula::client {

Target apply(const FieldUpdate& update, proto::Field& field, Rank me) {
  Target target{.part = local_part(field.layout, me),
                .transformation = {.from = field.type,
                                   .to = field.type,
                                   .alpha = update.alpha,
                                   .beta = update.beta,
                                   .conjugates = update.conjugates}};
  validate(target.transformation);
  if (update.of_data) {
    target.part = selected_part(field.layout, *update.of_data, me);
    field.layout = selected(field.layout, *update.of_data);
    const std::size_t dimensions = field.layout.dims.size();
    field.origin = update.from_origin.empty() ? std::vector<Index>(dimensions) : update.from_origin;
    core::expects(field.origin.size() == dimensions, [&] {
      return fmt::format("from_origin: expected one index for each of the {} dimensions, found {}",
                         dimensions, field.origin.size());
    });
    for (const Index index : field.origin)
      core::expects(index >= 0 && index < std::numeric_limits<Index>::max(), [&] {
        return fmt::format("from_origin: expected indices from 0 on, found {}", index);
      });
  }
  if (update.axes.empty()) return target;
  const auto back = index_calc::inverse(update.axes, field.layout.dims.size());
  target.part = permuted(target.part, back);
  field.layout = permuted(field.layout, back);
  return target;
}

}  // namespace tremula::client
