// SPDX-License-Identifier: Apache-2.0
#pragma once
// Converts layouts and struct tremula_update from the C interface. Compiled into libtremula.so and
// libtremula_mpi.so.
#include <mutex>
#include <string>
#include <vector>

#include "client/c_api/guarded.hpp"
#include "client/exchange/plan/update.hpp"
#include "index_calc/layout/process_grid.hpp"

struct tremula_layout {
  tremula::index_calc::Layout layout;
  tremula::index_calc::ProcessGrid grid{layout};
  mutable std::once_flag text_was_asked_for{};
  mutable std::string text{};
};

namespace tremula::client {

/// Returns the element type.
/// @throws core::Error invalid_argument
core::ElementType type_from(tremula_type type);
/// Returns the update with the members that the application knows; the other members are as
/// tremula_update_init sets them.
/// @throws core::Error invalid_argument
tremula_update read_update(const tremula_update* given);
/// Returns the update of a field; ignores the layouts and types of `update`.
/// @param dimensions  number of dimensions of both sides
/// @throws core::Error invalid_argument
FieldUpdate update_from(const tremula_update& update, std::size_t dimensions);

/// Returns the update of one array, with its layouts and types.
/// @throws core::Error invalid_argument
Update update_of(const tremula_update* given);
/// Returns the updates of an array of structs.
/// @param given  may be null if count is 0
/// @throws core::Error invalid_argument
std::vector<Update> updates_of(const tremula_update* given, std::size_t count, std::size_t stride);

}  // namespace tremula::client
