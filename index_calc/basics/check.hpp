// SPDX-License-Identifier: Apache-2.0
#pragma once
// A check that formats its error text only if it fails; private to this room.
#include <fmt/format.h>

#include "core/error.hpp"

namespace tremula::index_calc {

template <class... Values>
void check(bool ok, fmt::format_string<const Values&...> text, const Values&... values) {
  if (!ok) throw core::Error(core::Errc::invalid_argument, fmt::format(text, values...));
}

}  // namespace tremula::index_calc
