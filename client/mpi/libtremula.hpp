// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "client/c_api/private_interface.hpp"

namespace tremula::client::mpi {

/// Returns the functions of the libtremula.so that is loaded in this process.
/// @throws core::Error unsupported if its version is not that of this library
const PrivateInterface& libtremula();

}  // namespace tremula::client::mpi
