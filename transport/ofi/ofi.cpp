// SPDX-License-Identifier: Apache-2.0
#include "transport/ofi/ofi.hpp"

#include <algorithm>
#include <utility>

#include "core/thread.hpp"
#include "transport/ofi/load.hpp"
#include "transport/ofi/loopback_identity.hpp"

namespace tremula::transport {

namespace {

constexpr std::string_view wide = "ofi";

/// What ends at this machine has "@<identity>".
bool is_wide(std::string_view offer) { return offer.find('@') == offer.npos; }

}  // namespace

Ofi::Ofi(OfiOptions options) : options_(std::move(options)) {}
Ofi::~Ofi() = default;

std::vector<std::string> Ofi::offers() const {
  if (!ofi::is_installed()) return {};
  std::vector<std::string> offers{std::string(wide) + '@' + ofi::loopback_identity()};
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

std::unique_ptr<Endpoint> Ofi::open(std::string_view offer, Side) {
  const ofi::Providers& found = providers();
  const core::SignalsBlocked blocked;  // for threads that libfabric may begin
  return found.open(offer);
}

const ofi::Providers& Ofi::providers() {
  const std::scoped_lock lock(mutex_);
  if (providers_ == nullptr) providers_ = ofi::find(options_);
  return *providers_;
}

}  // namespace tremula::transport
