// SPDX-License-Identifier: Apache-2.0
#include "transport/ofi/ofi.hpp"

#include <algorithm>
#include <cstdlib>

#include "transport/ofi/endpoint.hpp"
#include "transport/ofi/host.hpp"
#include "transport/ofi/provider.hpp"
#include "transport/ofi/signals.hpp"

namespace tremula::transport {

namespace {

/// libfabric reads its variables when it is first asked. What the user has set stays.
bool set_defaults() {
  // Copying through a ring in shared memory is twice as fast as process_vm_readv, and a process
  // that dies or gives a send up cannot make its peer read what is there no more.
  setenv("FI_SHM_DISABLE_CMA", "1", 0);
  // An endpoint of tcp;ofi_rxm opens four times as fast, and takes 12 MiB instead of more than 70:
  // a rank has one for each stream, and one for its group.
  setenv("FI_OFI_RXM_MSG_RX_SIZE", "128", 0);
  setenv("FI_OFI_RXM_BUFFER_SIZE", "4096", 0);
  return true;
}

}  // namespace

Ofi::Ofi(const OfiOptions& options) {
  const ofi::SignalKeeper keeper;
  [[maybe_unused]] static const bool is_set =
      set_defaults();  // once, for readers of the environment may be about
  providers_ = ofi::find_providers(options);
  if (std::any_of(providers_.begin(), providers_.end(),
                  [](const auto& p) { return p.is_shared_memory(); }))
    ofi::remove_leftovers();
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
