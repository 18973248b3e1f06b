// SPDX-License-Identifier: Apache-2.0
#include "transport/mpi/connect.hpp"

#include <signal.h>

#include <chrono>
#include <future>
#include <semaphore>
#include <system_error>
#include <utility>

#include "core/error.hpp"
#include "core/thread.hpp"
#include "transport/mpi/call.hpp"

namespace tremula::transport::mpi {

using core::Deadline, core::Errc, core::Error;

namespace {

// There is one MPI library in a process, and only one thread at a time may connect with it.
std::binary_semaphore connecting{1};

struct Outcome {
  int code = MPI_SUCCESS;
  MPI_Comm link = MPI_COMM_NULL;
};

void ignore_broken_pipes() {
  struct sigaction action {};
  if (sigaction(SIGPIPE, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) return;
  action.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &action, nullptr);
}

std::string seconds_since(std::chrono::steady_clock::time_point began) {
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - began;
  return std::to_string(waited.count()) + " s";
}

}  // namespace

MPI_Comm connect_groups(MPI_Comm local, Side side, const std::string& port, Deadline deadline) {
  const auto began = std::chrono::steady_clock::now();
  const bool accepts = side == Side::producer;
  const std::string call = accepts ? "MPI_Comm_accept" : "MPI_Comm_connect";
  if (!connecting.try_acquire_until(deadline.at()))
    throw Error(Errc::timed_out, "expected to begin " + call +
                                     ", but another such call of this process, which MPI cannot "
                                     "interrupt, has not ended after " +
                                     seconds_since(began) +
                                     ", because the other group does not join: restart this job, "
                                     "or choose another transport");
  ignore_broken_pipes();
  // Refers to no data of the caller, because it may outlive the caller.
  std::packaged_task<Outcome()> task([=] {
    Outcome result;
    result.code = accepts ? MPI_Comm_accept(port.c_str(), MPI_INFO_NULL, 0, local, &result.link)
                          : MPI_Comm_connect(port.c_str(), MPI_INFO_NULL, 0, local, &result.link);
    connecting.release();
    return result;
  });
  auto outcome = task.get_future();
  try {
    core::start_thread(std::move(task)).detach();
  } catch (const std::system_error& error) {
    connecting.release();
    throw Error(Errc::transport, "expected a thread for " + call + ", found none: " + error.what());
  }
  if (outcome.wait_until(deadline.at()) != std::future_status::ready)
    throw Error(Errc::timed_out, "expected the other group to join by " +
                                     std::string(accepts ? "MPI_Comm_connect" : "MPI_Comm_accept") +
                                     ", but " + call + " has waited " + seconds_since(began) +
                                     " for it: check that the other job is alive, that all its "
                                     "ranks take part, and that the "
                                     "ompi-server that both mpiruns were given still runs");
  const auto [code, link] = outcome.get();
  check(code, call);
  check(MPI_Comm_set_errhandler(link, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  return link;
}

}  // namespace tremula::transport::mpi
