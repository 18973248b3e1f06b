// SPDX-License-Identifier: Apache-2.0
#include "transport/ofi/ofi.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "core/thread.hpp"
#include "transport/loopback_identity.hpp"
#include "transport/ofi/load.hpp"

namespace tremula::transport {

namespace {

constexpr std::string_view wide = "ofi";

/// Returns whether an offer reaches other machines. An offer that is limited to this machine contains
/// "@<identity>".
bool is_wide(std::string_view offer) { return offer.find('@') == offer.npos; }

}  // namespace

Ofi::Ofi(OfiOptions options) : options_(std::move(options)) {}
Ofi::~Ofi() = default;

std::vector<std::string> Ofi::offers() const {
  if (!ofi::is_installed()) return {};
  std::vector<std::string> offers{std::string(wide) + '@' + loopback_identity()};
  if (!options_.bind.empty()) offers.emplace_back(wide);
  return offers;
}

bool Ofi::has_choices(std::string_view offer) const {
  return offer.substr(0, offer.find('@')) == wide;
}

std::vector<std::string> Ofi::choices(std::string_view offer) {
  std::vector<std::string> choices = providers().offers();
  std::erase_if(choices, [&](const auto& choice) { return is_wide(choice) != is_wide(offer); });
  return choices;
}

bool Ofi::may_have_better_wire() {
  // InfiniBand, RoCE, Omni-Path and EFA; Slingshot.
  for (const char* const devices : {"/sys/class/infiniband", "/sys/class/cxi"}) {
    std::error_code ignored;
    if (std::filesystem::directory_iterator(devices, ignored) !=
        std::filesystem::directory_iterator())
      return true;
  }
  return false;
}

bool Ofi::is_better_wire(std::string_view choice) {
  choice = choice.substr(0, choice.find('@'));
  return choice != "ofi:tcp;ofi_rxm" && choice != "ofi:net";
}

std::unique_ptr<Endpoint> Ofi::open(std::string_view offer, Side) {
  const ofi::Providers& found = providers();
  const core::SignalsBlocked blocked;  // for threads that libfabric may start
  return found.open(offer);
}

const ofi::Providers& Ofi::providers() {
  const std::scoped_lock lock(mutex_);
  if (providers_ == nullptr) providers_ = ofi::find(options_);
  return *providers_;
}

}  // namespace tremula::transport
