// SPDX-License-Identifier: Apache-2.0
#pragma once
// The types behind the opaque handles of tremula.h, and the one place where errors become statuses.
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "client/c_api/gate.hpp"
#include "client/exchange/plan/update.hpp"
#include "client/session/session.hpp"
#include "client/stream/in_stream.hpp"
#include "client/stream/out_stream.hpp"
#include "index_calc/layout/process_grid.hpp"
#include "tremula/tremula.h"

struct tremula_session {
  std::unique_ptr<tremula::client::Session> session;
  /// Of every call of the session and its streams, handles of which may outlive it.
  std::shared_ptr<tremula::client::Gate> gate;
};
struct tremula_layout {
  tremula::index_calc::Layout layout;
  tremula::index_calc::ProcessGrid grid{layout};
  mutable std::once_flag text_was_asked_for{};
  mutable std::string text{};
};
struct tremula_out_stream {
  std::unique_ptr<tremula::client::OutStream> stream;
  std::shared_ptr<tremula::client::Gate> gate;  ///< of the session
};
struct tremula_attributes {
  tremula::proto::Attributes value;
  std::vector<std::vector<const char*>> texts;  ///< parallel to value; of those that are texts
};
struct tremula_in_stream {
  std::unique_ptr<tremula::client::InStream> stream;
  std::shared_ptr<tremula::client::Gate> gate;  ///< of the session
};

namespace tremula::client {

/// Keeps `text` for tremula_last_error and returns `status`.
tremula_status fail(tremula_status status, const std::string& text) noexcept;

/// Runs the body of a C function: an exception becomes a status and tremula_last_error.
template <class Body>
tremula_status guarded(Body&& body) noexcept {
  try {
    return body();
  } catch (const core::Error& e) {
    return fail(static_cast<tremula_status>(e.code()), e.what());
  } catch (const std::bad_alloc&) {
    return fail(TREMULA_INTERNAL, "out of memory");
  } catch (const std::exception& e) {
    return fail(TREMULA_INTERNAL, e.what());
  } catch (...) {
    return fail(TREMULA_INTERNAL, "an exception of unknown type");
  }
}

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

tremula_status make_attributes(proto::Attributes value, tremula_attributes** out);
tremula_status make_layout(index_calc::Layout value, tremula_layout** out);

inline void expects_pointer(const void* pointer, const char* name) {
  core::expects(pointer != nullptr, std::string(name) + ": expected a pointer; found NULL");
}

/// What every function with a handle does first; the call is inside as long as the result lives.
/// @throws core::Error invalid_argument if there is no handle, and as Gate::enter
template <class Handle>
Gate::Entry enter(Handle* handle, const char* name) {
  expects_pointer(handle, name);
  return handle->gate->enter();
}

/// Frees the handle of a stream.
template <class Handle>
void free_stream(Handle* handle) noexcept {
  if (handle == nullptr || !handle->gate->is_at_home()) return;
  const auto gate = handle->gate;  // whose entry this is inside
  const auto entry = gate->enter_to_free();
  delete handle;
}

}  // namespace tremula::client
