// SPDX-License-Identifier: Apache-2.0
#pragma once
// The providers that libfabric offers on this machine. Private to this folder.
#include <string>
#include <vector>

#include "transport/ofi/fabric.hpp"
#include "transport/ofi/options.hpp"

namespace tremula::transport::ofi {

/// One way to open an endpoint.
struct Provider {
  std::string offer;  ///< "ofi:<provider>", with "@<identity>" if it reaches only this machine
  Info info;
  bool is_readable = false;  ///< peers may read memory that is registered for them
};

/// Returns the providers that fit `options`, best first, each once.
/// @throws core::Error unsupported if `options` name a provider or an interface that does not
/// exist; the text names those that do
std::vector<Provider> find_providers(const OfiOptions& options);

}  // namespace tremula::transport::ofi
