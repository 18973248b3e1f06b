// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "proto/control.pb.h"

namespace tremula::cli {

/// Returns the output of `tremula status`: the server, a table of groups, and for each stream its
/// fields, its counters (and those of each rank, if the status has them), its consumers with their
/// transport and the reason for it, and which group waits for which. Ends with a newline.
std::string status_text(const wire::Status& status);
/// Returns one line for each waiting rank, saying what it waits for.
std::string waits_text(const wire::Status& status);

}  // namespace tremula::cli
