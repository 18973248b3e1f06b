// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <mpi.h>

#include <string>

#include "core/deadline.hpp"
#include "transport/transport.hpp"

namespace tremula::transport::mpi {

/// Joins two groups through a port: MPI_Comm_accept for the producer, MPI_Comm_connect for the
/// consumer. Collective over `local`. The MPI call runs in a thread of its own, because nothing but
/// its partner can end it; when the deadline passes first, that thread stays behind and no later
/// call of this process can succeed, since MPI libraries do not survive two of them at once.
/// @return the intercommunicator, whose errors come back as return codes
/// @throws core::Error timed_out, transport
MPI_Comm connect_groups(MPI_Comm local, Side side, const std::string& port,
                        core::Deadline deadline);

/// Ends what connect_groups began. Collective over both groups; gives up after `seconds`, because a
/// rank that is gone never joins. @return whether both sides are separate again
bool disconnect_groups(MPI_Comm link, double seconds) noexcept;

}  // namespace tremula::transport::mpi
