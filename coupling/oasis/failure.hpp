// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <tremula/tremula.hpp>

namespace tremula::oasis {

/// Throws an error.
/// @param text  what was expected, what was found and what to do
[[noreturn]] inline void fail(const std::string& text) {
  throw Error(TREMULA_INVALID_ARGUMENT, text);
}

/// Throws the error for a feature of OASIS3-MCT that is not supported.
[[noreturn]] inline void refuse(const std::string& what, const std::string& instead) {
  throw Error(TREMULA_UNSUPPORTED, what + " is not supported by tremula_oasis; " + instead);
}

}  // namespace tremula::oasis
