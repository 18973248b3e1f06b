// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the C interface makes of layouts and of struct tremula_update. Compiled into libtremula.so and
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

/// @throws core::Error invalid_argument
core::ElementType type_from(tremula_type type);
/// As far as the application knows the struct; the rest is as tremula_update_init sets it.
/// @throws core::Error invalid_argument
tremula_update read_update(const tremula_update* given);
/// Ignores its layouts and types.
/// @param dimensions  of both sides
/// @throws core::Error invalid_argument
FieldUpdate update_from(const tremula_update& update, std::size_t dimensions);

/// @throws core::Error invalid_argument
Update update_of(const tremula_update* given);
/// @param given  may be null if count is 0
/// @throws core::Error invalid_argument
std::vector<Update> updates_of(const tremula_update* given, std::size_t count, std::size_t stride);

}  // namespace tremula::client
