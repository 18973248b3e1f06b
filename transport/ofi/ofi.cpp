// SPDX-License-Identifier: Apache-2.0
#include "transport/ofi/ofi.hpp"

#include <dlfcn.h>
#include <signal.h>

#include <cstdlib>
#include <string_view>

#include "transport/ofi/endpoint.hpp"
#include "transport/ofi/provider.hpp"

namespace tremula::transport {

namespace {

/// libfabric reads its variables when it is first asked. What the user has set stays.
bool set_defaults() {
  // An endpoint of tcp;ofi_rxm opens four times as fast, and takes 12 MiB instead of more than 70:
  // a rank has one for each stream, and one for its group.
  setenv("FI_OFI_RXM_MSG_RX_SIZE", "128", 0);
  setenv("FI_OFI_RXM_BUFFER_SIZE", "4096", 0);
  return true;
}

/// Signals are the application's, but libinfinipath, which libfabric loads for a network of the
/// past, catches them when it is loaded, to write files of backtraces where nobody wants them.
void free_signals() {
  for (const int number : {SIGINT, SIGILL, SIGABRT, SIGBUS, SIGSEGV, SIGTERM}) {
    struct sigaction action {};
    Dl_info library{};
    sigaction(number, nullptr, &action);
    if (dladdr(reinterpret_cast<void*>(action.sa_handler), &library) != 0 &&
        library.dli_fname != nullptr &&
        std::string_view(library.dli_fname).find("libinfinipath") != std::string_view::npos)
      signal(number, SIG_DFL);
  }
}

}  // namespace

Ofi::Ofi(const OfiOptions& options) {
  [[maybe_unused]] static const bool is_set =
      set_defaults();  // once, for readers of the environment may be about
  providers_ = ofi::find_providers(options);
  free_signals();
}

Ofi::~Ofi() = default;

std::vector<std::string> Ofi::offers() const {
  std::vector<std::string> offers;
  for (const auto& provider : providers_) offers.push_back(provider.offer);
  return offers;
}

std::unique_ptr<Endpoint> Ofi::open(std::string_view offer, Side) {
  std::string known;
  for (const auto& provider : providers_) {
    if (provider.offer == offer) return std::make_unique<ofi::OfiEndpoint>(provider);
    known += (known.empty() ? "" : ", ") + provider.offer;
  }
  throw core::Error(core::Errc::unsupported, "ofi: expected one of the offers " + known +
                                                 ", found '" + std::string(offer) + "'");
}

}  // namespace tremula::transport
