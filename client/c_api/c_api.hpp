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
  /// Admits the calls of the session and of its streams; shared with the streams' handles, which may outlive
  /// the session.
  std::shared_ptr<tremula::client::Gate> gate;
};
struct tremula_out_stream {
  std::unique_ptr<tremula::client::OutStream> stream;
  std::shared_ptr<tremula::client::Gate> gate;  ///< gate of the session
};
struct tremula_attributes {
  tremula::proto::Attributes value;
  /// The values of text attributes; parallel to `value`.
  std::vector<std::vector<const char*>> texts;
};
struct tremula_in_stream {
  std::unique_ptr<tremula::client::InStream> stream;
  std::shared_ptr<tremula::client::Gate> gate;  ///< gate of the session
};

namespace tremula::client {

void make_attributes(proto::Attributes value, tremula_attributes** out);
void make_layout(index_calc::Layout value, tremula_layout** out);

/// Runs `body` as guarded() does, inside the gate of the handle.
/// @param name  the argument in which the application passes the handle, for error messages
template <class Handle, class Body>
tremula_status call(Handle* handle, const char* name, Body&& body) noexcept {
  return guarded([&] {
    expects_pointer(handle, name);
    const auto entry = handle->gate->enter();
    return body();
  });
}

/// Frees the handle of a stream; does nothing in a child process. Inside a call of the session, frees the
/// handle after that call has ended.
template <class Handle>
void free_stream(Handle* handle) noexcept {
  if (handle == nullptr || !handle->gate->is_at_home()) return;
  if (handle->gate->is_inside()) return handle->gate->after_call([handle] { free_stream(handle); });
  const auto gate = handle->gate;  // outlives `entry`, which the handle may not
  const auto entry = gate->enter_to_free();
  delete handle;
}

}  // namespace tremula::client
