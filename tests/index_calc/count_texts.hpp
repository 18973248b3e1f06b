// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tremula::testing_only {

/// Returns how often Layout::parse was called in this program, which must link against
/// tremula_count_texts. The linker redirects the calls to that library.
long parsed_layouts();
/// Returns how often to_string(const Layout&) was called.
long printed_layouts();

}  // namespace tremula::testing_only
