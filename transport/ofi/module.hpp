// SPDX-License-Identifier: Apache-2.0
#pragma once
// Between libtremula and libtremula_ofi.so, the one part of Tremula that is linked with libfabric.
// Private to this folder.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "transport/ofi/options.hpp"
#include "transport/transport.hpp"

namespace tremula::transport::ofi {

/// What libfabric has for some options. Thread-safe.
class Providers {
public:
  virtual ~Providers() = default;
  /// "ofi:<provider>" and, where it ends at this machine, "@<identity>"; best first, nothing twice.
  virtual std::vector<std::string> offers() const = 0;
  /// @throws core::Error unsupported if it is none of offers(), naming them
  virtual std::unique_ptr<Endpoint> open(std::string_view offer) const = 0;
};

/// What libtremula_ofi.so has. Both sides are built together: classes and errors cross as they are.
struct Module {
  const char* version;  ///< of Tremula
  /// Asks libfabric what there is: some 0.3 s the first time in a process.
  /// @throws core::Error unsupported if nothing fits the options, naming what there is
  std::unique_ptr<Providers> (*find)(const OfiOptions& options);
};

}  // namespace tremula::transport::ofi

/// The one name that libtremula_ofi.so shows.
extern "C" const tremula::transport::ofi::Module* tremula_ofi_module();
