// SPDX-License-Identifier: Apache-2.0
#include "transport/mpi/call.hpp"

#include <array>
#include <chrono>
#include <memory>
#include <new>
#include <thread>

#include "core/deadline.hpp"
#include "core/error.hpp"

namespace tremula::transport::mpi {
namespace {

bool is_finalizing = false;

/// Waits in a barrier until all ranks have joined.
/// @throws core::Error timed_out, also if all ranks have joined, but too late
void await_all(MPI_Comm comm, double timeout) {
  MPI_Request all_here = MPI_REQUEST_NULL;
  check(MPI_Ibarrier(comm, &all_here), "MPI_Ibarrier");
  const auto deadline = core::Deadline::after(timeout), yield_until = core::Deadline::after(0.002);
  for (int done = 0; done == 0;) {
    check(MPI_Test(&all_here, &done, MPI_STATUS_IGNORE), "MPI_Ibarrier");
    if (deadline.expired())
      throw core::Error(core::Errc::timed_out,
                        "expected all ranks of the communicator to join its duplication within " +
                            std::to_string(timeout) +
                            " s, found that some have not: check that every rank makes the same "
                            "calls in the same order, and that none has ended");
    if (done != 0) return;
    if (yield_until.expired())
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    else
      std::this_thread::yield();
  }
}

}  // namespace

bool is_running() {
  int initialised = 0, finalised = 0;
  MPI_Initialized(&initialised);
  MPI_Finalized(&finalised);
  return initialised != 0 && finalised == 0;
}

void expect_running() {
  core::expects(is_running(), [] {
    int is_over = 0;
    MPI_Finalized(&is_over);
    return std::string("expected a running MPI, found it ") +
           (is_over != 0 ? "finalised: close streams and sessions, and end redistributions, before "
                           "MPI_Finalize"
                         : "not initialised: call MPI_Init first");
  });
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

void free_at_finalize(MPI_Comm comm) noexcept {
  // Attributes of MPI_COMM_SELF are deleted before anything else is taken down.
  const auto free_it = [](MPI_Comm, int, void* value, void*) {
    const std::unique_ptr<MPI_Comm> link(static_cast<MPI_Comm*>(value));
    return MPI_Comm_free(link.get());
  };
  int key = MPI_KEYVAL_INVALID;
  if (MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, free_it, &key, nullptr) != MPI_SUCCESS) return;
  std::unique_ptr<MPI_Comm> value(new (std::nothrow) MPI_Comm(comm));
  if (value != nullptr && MPI_Comm_set_attr(MPI_COMM_SELF, key, value.get()) == MPI_SUCCESS)
    static_cast<void>(value.release());
  MPI_Comm_free_keyval(&key);
}

void watch_finalize() {
  static const bool is_watched = [] {
    // Attributes of MPI_COMM_SELF are deleted before anything else is taken down.
    const auto note_it = [](MPI_Comm, int, void*, void*) {
      is_finalizing = true;
      return MPI_SUCCESS;
    };
    int key = MPI_KEYVAL_INVALID;
    check(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, note_it, &key, nullptr),
          "MPI_Comm_create_keyval");
    check(MPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr), "MPI_Comm_set_attr");
    return true;
  }();
  static_cast<void>(is_watched);
}

bool has_finalize_begun() noexcept { return is_finalizing; }

Comm duplicate(MPI_Comm comm, double timeout) {
  expect_running();
  core::expects(comm != MPI_COMM_NULL,
                "expected the communicator of this group's ranks, found MPI_COMM_NULL: only ranks "
                "that belong to the communicator may pass it");
  int is_inter = 0;
  check(MPI_Comm_test_inter(comm, &is_inter), "MPI_Comm_test_inter");
  core::expects(is_inter == 0,
                "expected the communicator of this group's ranks, found an intercommunicator: pass "
                "one that holds the ranks of one group only");
  // MPI_Comm_dup waits without a deadline, so it begins only when all ranks have joined and all
  // know that they have: a rank that joins after another has given up passes the first barrier, but
  // not the second.
  await_all(comm, timeout);
  await_all(comm, timeout);
  MPI_Comm copy = MPI_COMM_NULL;
  check(MPI_Comm_dup(comm, &copy), "MPI_Comm_dup of the group's communicator");
  Comm owned(copy);
  check(MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  return owned;
}

}  // namespace tremula::transport::mpi
