// SPDX-License-Identifier: Apache-2.0
#include "transport/ofi/signals.hpp"

#include <dlfcn.h>
#include <signal.h>

#include <array>
#include <mutex>
#include <string_view>

namespace tremula::transport::ofi {

namespace {

constexpr std::array numbers{SIGINT, SIGILL, SIGABRT, SIGBUS, SIGSEGV, SIGTERM};

/// Signals are the process's: of all keepers the first one saves them and the last one puts them
/// back.
struct Saved {
  std::mutex mutex;
  int keepers = 0;
  std::array<struct sigaction, numbers.size()> actions{};
} saved;

bool writes_backtraces(const struct sigaction& action) {
  Dl_info library{};
  return dladdr(reinterpret_cast<void*>(action.sa_handler), &library) != 0 &&
         library.dli_fname != nullptr &&
         std::string_view(library.dli_fname).find("libinfinipath") != std::string_view::npos;
}

}  // namespace

SignalKeeper::SignalKeeper() {
  const std::lock_guard lock(saved.mutex);
  if (saved.keepers++ > 0) return;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    sigaction(numbers[i], nullptr, &saved.actions[i]);
    if (writes_backtraces(saved.actions[i])) saved.actions[i] = {};  // the default action
  }
}

SignalKeeper::~SignalKeeper() {
  const std::lock_guard lock(saved.mutex);
  if (--saved.keepers > 0) return;
  for (std::size_t i = 0; i < numbers.size(); ++i)
    sigaction(numbers[i], &saved.actions[i], nullptr);
}

}  // namespace tremula::transport::ofi
