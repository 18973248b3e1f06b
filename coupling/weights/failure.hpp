// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <stdexcept>
#include <string>

#include "tremula/tremula.h"

namespace tremula::weights {

/// An error that a C function returns as its status, with a text.
class Failure : public std::runtime_error {
public:
  Failure(tremula_status status, const std::string& text)
      : std::runtime_error(text), status_(status) {}
  tremula_status status() const noexcept { return status_; }

private:
  tremula_status status_;
};

/// Checks the status of a function of tremula.h.
/// @throws Failure with the status and the text of the function's error
inline void check(tremula_status status) {
  if (status < 0) throw Failure(status, tremula_last_error());
}

}  // namespace tremula::weights
