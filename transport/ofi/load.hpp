// SPDX-License-Identifier: Apache-2.0
#pragma once
// Loads libfabric, and leaves the rest of the process unchanged. Private to this folder.
#include "transport/ofi/module.hpp"

namespace tremula::transport::ofi {

/// Returns whether libtremula_ofi.so is where the library or program that holds this code expects
/// it.
bool is_installed();

/// Loads libtremula_ofi.so, which stays in the process, and queries the providers of libfabric.
/// Signal handlers, signal mask and environment are the same afterwards, whatever libfabric and its
/// libraries have done.
/// @throws core::Error unsupported if the module cannot be loaded or is of another version, or as
/// Module::find
std::unique_ptr<Providers> find(const OfiOptions& options);

}  // namespace tremula::transport::ofi
