// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "proto/control.pb.h"

namespace tremula::cli {

/// Returns the output of `tremula status --json`: the fields of the message by name, including those
/// that are not set. Numbers have up to 64 bits; element types are given by name. Ends with a newline.
std::string status_json(const wire::Status& status);

}  // namespace tremula::cli
