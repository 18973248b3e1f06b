// SPDX-License-Identifier: Apache-2.0
#pragma once
// Return codes and handles of the MPI library.
#include <mpi.h>

#include <source_location>
#include <string>
#include <string_view>

#include "core/unique_handle.hpp"

namespace tremula::transport::mpi {

/// Returns true between MPI_Init and MPI_Finalize.
bool is_running();
/// Checks that MPI is running.
/// @throws core::Error invalid_argument if MPI is not running
void expect_running();

/// Returns MPI's own text for a return code.
std::string error_text(int code);

/// Checks a return code.
/// @param what  the MPI function and the purpose of the call: "MPI_Isend to rank 3"
/// @throws core::Error transport with MPI's own text, if `code` is not MPI_SUCCESS
void check(int code, std::string_view what,
           std::source_location where = std::source_location::current());

struct CommTraits {
  using Handle = MPI_Comm;
  static Handle none() { return MPI_COMM_NULL; }
  /// Does nothing once MPI is finalised.
  static void close(Handle comm) noexcept;
};
using Comm = core::UniqueHandle<CommTraits>;

/// Frees `comm` when MPI_Finalize begins. Used for a communicator on which messages may still arrive:
/// its number must not pass to another communicator earlier, and MPI_Finalize would wait for `comm`,
/// or end the process, if it still existed.
void free_at_finalize(MPI_Comm comm) noexcept;

/// Prepares has_finalize_begun(), which is valid only after this call.
/// @throws core::Error transport
void watch_finalize();
/// Returns true inside MPI_Finalize, while communicators of the application are taken down: MPI
/// objects that are kept with them may no longer be freed.
bool has_finalize_begun() noexcept;

/// Returns a duplicate of `comm` whose errors are returned as codes. Collective.
/// @param timeout  seconds to wait for the other ranks
/// @throws core::Error invalid_argument if MPI is not running or comm is not a group of ranks,
/// transport, timed_out if not all ranks have joined: the barrier cannot be withdrawn, so no later
/// collective call over `comm` is correct
Comm duplicate(MPI_Comm comm, double timeout);

}  // namespace tremula::transport::mpi
