// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <mpi.h>

#include <string>

#include "core/deadline.hpp"
#include "transport/transport.hpp"

namespace tremula::transport::mpi {

/// Joins two groups through a port: MPI_Comm_accept for the producer, MPI_Comm_connect for the
/// consumer. Collective over `local`. The MPI call runs in a thread of its own, because only its
/// partner can end it. If the deadline passes first, that thread stays behind and no later call of
/// this process can succeed: MPI libraries do not survive two such calls at once. The first call
/// makes the process ignore SIGPIPE, unless it has a handler of its own: MPI writes to sockets
/// whose other end may have died, at any time and in any thread.
/// @return the intercommunicator, whose errors are returned as codes
/// @throws core::Error timed_out, transport
MPI_Comm connect_groups(MPI_Comm local, Side side, const std::string& port,
                        core::Deadline deadline);

}  // namespace tremula::transport::mpi
