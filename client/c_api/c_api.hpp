// SPDX-License-Identifier: Apache-2.0
#pragma once
// The types behind the opaque handles of tremula.h.
#include <memory>
#include <vector>

#include "client/c_api/gate.hpp"
#include "client/c_api/updates.hpp"
#include "client/session/session.hpp"
#include "client/stream/in_stream.hpp"
#include "client/stream/out_stream.hpp"

struct tremula_session {
  std::unique_ptr<tremula::client::Session> session;
  /// Of every call of the session and its streams, handles of which may outlive it.
  std::shared_ptr<tremula::client::Gate> gate;
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

tremula_status make_attributes(proto::Attributes value, tremula_attributes** out);
tremula_status make_layout(index_calc::Layout value, tremula_layout** out);

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
  if (handle->gate->is_inside()) return handle->gate->after_call([handle] { free_stream(handle); });
  const auto gate = handle->gate;  // whose entry this is inside
  const auto entry = gate->enter_to_free();
  delete handle;
}

}  // namespace tremula::client
