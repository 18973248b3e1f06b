// SPDX-License-Identifier: Apache-2.0
#pragma once
// The only place where errors are turned into statuses.
#include <exception>
#include <new>
#include <string>
#include <type_traits>

#include "core/error.hpp"
#include "tremula/tremula.h"

namespace tremula::client {

/// Keeps `text` for tremula_last_error and returns `status`.
tremula_status fail(tremula_status status, const std::string& text) noexcept;

/// Runs the body of a C function and turns an exception into a status and the text of tremula_last_error.
/// If the body returns void, the status is TREMULA_OK.
template <class Body>
tremula_status guarded(Body&& body) noexcept {
  try {
    if constexpr (std::is_void_v<decltype(body())>)
      return body(), TREMULA_OK;
    else
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

inline void expects_pointer(const void* pointer, const char* name) {
  core::expects(pointer != nullptr,
                [name] { return std::string(name) + ": expected a pointer; found NULL"; });
}

}  // namespace tremula::client
