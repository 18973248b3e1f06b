// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "client/c_api/private_interface.hpp"

namespace tremula::client::mpi {

/// Functions of the libtremula.so that is loaded in this process.
/// @throws core::Error unsupported if it is of another version than this library
const PrivateInterface& libtremula();

}  // namespace tremula::client::mpi
