// SPDX-License-Identifier: Apache-2.0
#pragma once
// Threads of the library leave the signals of the process to the threads of the application.
#include <signal.h>

#include <thread>
#include <utility>

namespace tremula::core {

/// While this object exists, the calling thread handles no signals, and threads that it starts
/// never do.
class SignalsBlocked {
public:
  SignalsBlocked() noexcept {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

private:
  sigset_t before_;
};

/// Starts a thread that handles no signals. The library starts all its threads this way.
/// @tparam Thread  std::thread or std::jthread
/// @throws std::system_error if the system cannot create another thread
template <class Thread = std::thread, class Work>
Thread start_thread(Work&& work) {
  const SignalsBlocked blocked;
  return Thread(std::forward<Work>(work));
}

}  // namespace tremula::core
