// SPDX-License-Identifier: Apache-2.0
#pragma once
// An object that Tremula keeps with a communicator of the application, so that set-up is done once:
// the first call makes the object, and it is destroyed with the communicator.
#include <mpi.h>

#include <memory>

#include "transport/mpi/call.hpp"

namespace tremula::transport::mpi {

/// Returns the T that is kept with `comm`; makes it with T(comm) if there is none. Collective if
/// T's constructor is. The T is destroyed when `comm` is freed, or else ends with the process.
/// @throws core::Error transport, or as the constructor
template <class T>
T& companion(MPI_Comm comm) {
  static const int key = [] {
    const auto end = [](MPI_Comm, int, void* value, void*) {
      if (!has_finalize_begun()) delete static_cast<T*>(value);
      return MPI_SUCCESS;
    };
    int made = MPI_KEYVAL_INVALID;
    check(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, end, &made, nullptr),
          "MPI_Comm_create_keyval");
    return made;
  }();
  void* found = nullptr;
  int is_there = 0;
  check(MPI_Comm_get_attr(comm, key, &found, &is_there), "MPI_Comm_get_attr");
  if (is_there != 0) return *static_cast<T*>(found);
  watch_finalize();
  auto made = std::make_unique<T>(comm);
  check(MPI_Comm_set_attr(comm, key, made.get()), "MPI_Comm_set_attr");
  return *made.release();
}

}  // namespace tremula::transport::mpi
