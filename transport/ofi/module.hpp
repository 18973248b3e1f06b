// SPDX-License-Identifier: Apache-2.0
#pragma once
// The interface between libtremula and libtremula_ofi.so, the only part of Tremula that is linked
// with libfabric. Private to this folder.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "transport/ofi/options.hpp"
#include "transport/transport.hpp"

namespace tremula::transport::ofi {

/// The providers of libfabric that fit the options of a session. Thread-safe.
class Providers {
public:
  virtual ~Providers() = default;
  /// Returns "ofi:<provider>" for each provider, with "@<identity>" if it reaches only this machine;
  /// best first, each once.
  virtual std::vector<std::string> offers() const = 0;
  /// Opens an endpoint.
  /// @throws core::Error unsupported if `offer` is not one of offers(), naming them
  virtual std::unique_ptr<transport::Endpoint> open(std::string_view offer) const = 0;
};

/// The interface of libtremula_ofi.so. Both sides are built together, so classes and errors can
/// cross it.
struct Module {
  const char* version;  ///< version of Tremula
  /// Queries the providers of libfabric. Takes about 0.3 s the first time in a process.
  /// @throws core::Error unsupported if none fits the options; the text names those that exist
  std::unique_ptr<Providers> (*find)(const OfiOptions& options);
};

}  // namespace tremula::transport::ofi

/// Returns the interface; the only symbol that libtremula_ofi.so exports.
extern "C" const tremula::transport::ofi::Module* tremula_ofi_module();
