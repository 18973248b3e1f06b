// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tremula::testing_only {

/// How often Layout::parse was called in this program. Links against tremula_count_texts, which the
/// linker asks to stand in for it.
long parsed_layouts();
/// How often to_string(const Layout&) was called.
long printed_layouts();

}  // namespace tremula::testing_only
