// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "proto/control.pb.h"

namespace tremula::cli {

/// What `tremula status` prints: the server, a table of groups, and for each stream its fields, its
/// counters (those of each rank where the status has them), its consumers with their transport and
/// the reason for it, and which group waits for which. Ends with a new line.
std::string status_text(const wire::Status& status);
/// What ranks wait for, a line each.
std::string waits_text(const wire::Status& status);

}  // namespace tremula::cli
