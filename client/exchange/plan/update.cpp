// SPDX-License-Identifier: Apache-2.0
#include "client/exchange/plan/update.hpp"

#include <fmt/format.h>

#include "core/error.hpp"

namespace tremula::client {

using index_calc::inverse, index_calc::LocalPart, index_calc::Layout, index_calc::Selection;

namespace {

using Wanted = std::optional<Selection>;

Layout part_of(const Layout& layout, const Wanted& wanted) {
  return wanted ? selected(layout, *wanted) : layout;
}
LocalPart part_of(const Layout& layout, const Wanted& wanted, Rank me) {
  return wanted && layout.listed() == nullptr ? selected_part(layout, *wanted, me)
                                              : local_part(layout, me);
}

}  // namespace

RankCount pass_count(const Update& update) noexcept {
  return update.transformation.alpha == 0.0 ? 1 : layer_count(update.from);
}

Update in_pass(const Update& update, RankCount pass) {
  Update result = update;
  const bool moves = pass < pass_count(update);
  result.from = layer(update.from, moves ? pass : 0);
  result.to = layer(update.to, 0);
  if (pass > 0) result.transformation.beta = 1;
  if (!moves) result.transformation.alpha = 0;
  return result;
}

void validate_sums(const Update& update) {
  const auto& how = update.transformation;
  const auto refuse = [](const Layout& summed, std::string_view expected,
                         const std::string& found) {
    throw core::Error(core::Errc::unsupported,
                      fmt::format("expected {} where ranks hold partial sums (sum=), found {} and "
                                  "\"{}\": leave sum out",
                                  expected, found, to_string(summed)));
  };
  for (const Layout* const layout : {&update.from, &update.to})
    if (layer_count(*layout) > 1 && (is_opaque(how.from) || is_opaque(how.to)))
      refuse(*layout, "elements that can be added up", std::string(core::to_string(how.from)));
  if (layer_count(update.to) > 1 && is_partial(update.from) && how.beta != 1.0)
    refuse(update.to,
           "a source that has every element, or beta 1, as the ranks of the other layers cannot "
           "know which elements stay unchanged,",
           fmt::format("\"{}\", beta {}", to_string(update.from), how.beta.real()));
}

Moved moved(const Update& update) {
  Moved result{part_of(update.from, update.of_from), part_of(update.to, update.of_to)};
  if (!update.axes.empty())
    result.to = permuted(result.to, inverse(update.axes, dimensions(result.to)));
  return result;
}

MovedParts moved_parts(const Update& update, Rank me) {
  MovedParts result{part_of(update.from, update.of_from, me), part_of(update.to, update.of_to, me)};
  if (!update.axes.empty() && update.to.listed() == nullptr)
    result.to = permuted(result.to, inverse(update.axes, dimensions(update.to)));
  return result;
}

}  // namespace tremula::client
