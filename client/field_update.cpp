// SPDX-License-Identifier: Apache-2.0
#include "client/field_update.hpp"

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
    field.origin = update.from_origin;
    field.origin.resize(field.layout.dims.size());
  }
  if (update.axes.empty()) return target;
  const auto back = index_calc::inverse(update.axes, field.layout.dims.size());
  target.part = permuted(target.part, back);
  field.layout = permuted(field.layout, back);
  return target;
}

}  // namespace tremula::client
