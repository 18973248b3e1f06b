// SPDX-License-Identifier: Apache-2.0
#include "transport/mpi/mpi_call.hpp"

#include <array>

#include "core/error.hpp"

namespace tremula::transport::mpi {

bool is_running() {
  int initialised = 0, finalised = 0;
  MPI_Initialized(&initialised);
  MPI_Finalized(&finalised);
  return initialised != 0 && finalised == 0;
}

std::string error_text(int code) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS)
    return "MPI error " + std::to_string(code);
  return {text.data(), static_cast<std::size_t>(length)};
}

void check(int code, std::string_view what, std::source_location where) {
  if (code != MPI_SUCCESS)
    throw core::Error(core::Errc::transport,
                      std::string(what) + " failed; the MPI library says: " + error_text(code),
                      where);
}

void CommTraits::close(Handle comm) noexcept {
  if (is_running()) MPI_Comm_free(&comm);
}

Comm duplicate(MPI_Comm comm) {
  core::expects(is_running(),
                "expected MPI to be running, found it not initialised or already finalised: open "
                "sessions between MPI_Init and MPI_Finalize");
  core::expects(comm != MPI_COMM_NULL,
                "expected the communicator of this group's ranks, found MPI_COMM_NULL: only ranks "
                "that belong to the communicator may pass it");
  int is_inter = 0;
  check(MPI_Comm_test_inter(comm, &is_inter), "MPI_Comm_test_inter");
  core::expects(is_inter == 0,
                "expected the communicator of this group's ranks, found an intercommunicator: pass "
                "one that holds the ranks of one group only");
  MPI_Comm copy = MPI_COMM_NULL;
  check(MPI_Comm_dup(comm, &copy), "MPI_Comm_dup of the group's communicator");
  Comm owned(copy);
  check(MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  return owned;
}

}  // namespace tremula::transport::mpi
