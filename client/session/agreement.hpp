// SPDX-License-Identifier: Apache-2.0
#pragma once
// How the ranks of a group fail together: what goes wrong on one rank is thrown on all of them, so
// that none waits for another that has given up.
#include <functional>
#include <string>

#include "transport/group.hpp"

namespace tremula::client {

/// Collective. Runs `work` on rank 0 and gives everybody its bytes; where it throws, everybody
/// throws that error.
/// @param deadline  of work; the other ranks wait a little longer for its outcome
core::Bytes run_on_root(transport::Group& group, const std::function<core::Bytes()>& work,
                        core::Deadline deadline);

/// Collective. Runs `work` on every rank; where any rank throws, every rank throws the error of the
/// lowest such rank, which is named.
/// @param name  of the group
void run_collectively(transport::Group& group, const std::string& name,
                      const std::function<void()>& work, core::Deadline deadline);

}  // namespace tremula::client
