// SPDX-License-Identifier: Apache-2.0
#pragma once
// libfabric comes into the process here, and leaves the process as it was. Private to this folder.
#include "transport/ofi/module.hpp"

namespace tremula::transport::ofi {

/// Whether libtremula_ofi.so is where the library or program that holds this code expects it.
bool is_installed();

/// Loads libtremula_ofi.so, which stays in the process, and asks libfabric. Signal handlers, signal
/// mask and environment are afterwards as they were before, whatever libfabric and what it loads
/// have done to them.
/// @throws core::Error unsupported if the module cannot be loaded or is of another version; as
/// Module::find
std::unique_ptr<Providers> find(const OfiOptions& options);

}  // namespace tremula::transport::ofi
