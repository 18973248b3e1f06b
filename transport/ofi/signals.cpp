// SPDX-License-Identifier: Apache-2.0
#include "transport/ofi/signals.hpp"

#include <dlfcn.h>

#include <string_view>

namespace tremula::transport::ofi {

namespace {

bool writes_backtraces(const struct sigaction& action) {
  Dl_info library{};
  return dladdr(reinterpret_cast<void*>(action.sa_handler), &library) != 0 &&
         library.dli_fname != nullptr &&
         std::string_view(library.dli_fname).find("libinfinipath") != std::string_view::npos;
}

}  // namespace

SignalKeeper::SignalKeeper() {
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    sigaction(numbers[i], nullptr, &before_[i]);
    if (writes_backtraces(before_[i])) before_[i] = {};  // the default action
  }
}

SignalKeeper::~SignalKeeper() {
  for (std::size_t i = 0; i < numbers.size(); ++i) sigaction(numbers[i], &before_[i], nullptr);
}

}  // namespace tremula::transport::ofi
