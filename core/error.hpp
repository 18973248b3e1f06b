// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <concepts>
#include <new>
#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace tremula::core {

/// The kind of a failure. The values are the negative status codes of the C interface (tremula.h).
enum class Errc : int {
  invalid_argument = -1,  ///< the caller passed an argument that cannot be valid
  timed_out = -2,         ///< a deadline passed
  transport = -3,         ///< moving bytes failed
  protocol = -4,          ///< untrusted bytes are not what the wire format allows
  peer_lost = -5,         ///< a process or group on the other side is gone
  no_server = -6,         ///< the rendezvous server cannot be reached
  refused = -7,           ///< the server or the other side has rejected the request
  mismatch = -8,          ///< the two sides disagree about shape, type or name
  unsupported = -9,       ///< this build or this machine cannot perform the operation
  cancelled = -10,        ///< the caller closed the object that the operation belongs to
  deadlock = -11,         ///< groups wait for each other in a circle
  interrupted = -12,      ///< the caller has ended a wait
  internal = -99,         ///< a defect in Tremula
};

/// Returns the name of the code, e.g. "peer_lost".
constexpr std::string_view to_string(Errc code) noexcept {
  switch (code) {
    case Errc::invalid_argument:
      return "invalid_argument";
    case Errc::timed_out:
      return "timed_out";
    case Errc::transport:
      return "transport";
    case Errc::protocol:
      return "protocol";
    case Errc::peer_lost:
      return "peer_lost";
    case Errc::no_server:
      return "no_server";
    case Errc::refused:
      return "refused";
    case Errc::mismatch:
      return "mismatch";
    case Errc::unsupported:
      return "unsupported";
    case Errc::cancelled:
      return "cancelled";
    case Errc::deadlock:
      return "deadlock";
    case Errc::interrupted:
      return "interrupted";
    case Errc::internal:
      return "internal";
  }
  return "unknown";
}

/// Returns the code with this value, which another process may have sent; internal if no code has it.
constexpr Errc errc_of(int value) noexcept {
  const auto code = static_cast<Errc>(value);
  return to_string(code) == "unknown" ? Errc::internal : code;
}

/// The exception type that the rooms share. `what()` states what was expected, what was found and
/// what to do; `where()` is for developers and is not part of the text.
class Error : public std::runtime_error {
public:
  Error(Errc code, const std::string& text,
        std::source_location where = std::source_location::current())
      : std::runtime_error(text), code_(code), where_(where) {}
  Errc code() const noexcept { return code_; }
  const std::source_location& where() const noexcept { return where_; }

private:
  Errc code_;
  std::source_location where_;
};

/// Returns the exception that is being handled, of any type, as an Error.
/// @pre called inside a catch block
inline Error current_error() {
  try {
    throw;
  } catch (const Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return Error(Errc::internal, "out of memory");
  } catch (const std::exception& error) {
    return Error(Errc::internal, error.what());
  } catch (...) {
    return Error(Errc::internal, "an exception of unknown type");
  }
}

/// Checks a precondition of a public function, in every build type.
/// @throws Error invalid_argument if `ok` is false
inline void expects(bool ok, std::string_view text,
                    std::source_location where = std::source_location::current()) {
  if (!ok) throw Error(Errc::invalid_argument, std::string(text), where);
}

/// Checks a precondition as above, with a text that is costly to make.
/// @param text  returns the text; called only if `ok` is false
template <std::invocable Text>
void expects(bool ok, Text&& text, std::source_location where = std::source_location::current()) {
  if (!ok) throw Error(Errc::invalid_argument, text(), where);
}

}  // namespace tremula::core

/// Checks an internal invariant, in builds without NDEBUG.
#ifdef NDEBUG
#define TREMULA_ASSERT(condition) static_cast<void>(0)
#else
#define TREMULA_ASSERT(condition)                                              \
  ((condition) ? static_cast<void>(0)                                          \
               : throw ::tremula::core::Error(::tremula::core::Errc::internal, \
                                              "invariant broken: " #condition))
#endif
