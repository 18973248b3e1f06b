// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "proto/control.pb.h"

namespace tremula::cli {

/// Returns the output of `tremula status --json`: the fields of the message by their names,
/// including fields that are not set; numbers as numbers of up to 64 bits; element types by name.
/// Ends with a new line.
std::string status_json(const wire::Status& status);

}  // namespace tremula::cli
