// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <mpi.h>

#include <string>

#include "core/deadline.hpp"
#include "transport/transport.hpp"

namespace tremula::transport::mpi {

/// Joins two groups through a port: MPI_Comm_accept for the producer, MPI_Comm_connect for the
/// consumer. Collective over `local`. The MPI call runs in a separate thread, because only the other
/// group can end it. If the deadline passes first, that thread keeps waiting, and no later call of
/// this process can succeed: MPI libraries do not survive two concurrent calls of this kind. The
/// first call makes the process ignore SIGPIPE, unless the process handles it: MPI writes to sockets
/// whose other end may have died, at any time and in any thread.
/// @return the intercommunicator, whose errors are returned as codes
/// @throws core::Error timed_out, transport
MPI_Comm connect_groups(MPI_Comm local, Side side, const std::string& port,
                        core::Deadline deadline);

}  // namespace tremula::transport::mpi
