// SPDX-License-Identifier: Apache-2.0
#pragma once
// How both ends of a control connection prove that they know the same key. Bytes in, bytes out: no
// sockets, no clock. The README of this folder states what each message proves.
#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/key.hpp"
#include "core/types.hpp"

namespace tremula::transport {

/// Bytes of the longest payload that an end accepts before the other end has proved anything. A Hello
/// fits, so that a session without a key gets an answer that names what it lacks.
inline constexpr std::size_t max_unproved_payload_bytes = 1024;
/// Bytes of every payload of the exchange except a refusal.
inline constexpr std::size_t exchange_payload_bytes = 41;
/// Seconds after which a connection is closed if the exchange on it has not ended.
inline constexpr double exchange_seconds = 10;

using Nonce = std::array<std::byte, 32>;
Nonce random_nonce();

/// HMAC-SHA256 of a text, which only a process that knows the key can compute. The text of every
/// seal begins with its label; no label is a prefix of another.
using Seal = std::array<std::byte, 32>;
Seal seal(const core::Key& key, std::string_view label, core::BytesView text);
/// Returns whether the two are equal; takes the same time no matter where they differ.
bool is_same(core::BytesView found, const Seal& expected) noexcept;

/// Returns true for payloads of the exchange, and false for control messages.
bool is_of_exchange(core::BytesView payload) noexcept;

/// An end's reaction to a payload from the other end.
struct ExchangeTurn {
  core::Bytes reply{};   ///< payload to send; empty if there is none
  bool is_done = false;  ///< the other end knows the key: control messages follow
  /// The exchange has failed; the connection ends after the reply. `refused`: the keys differ or
  /// one is missing, and another attempt would also fail. `protocol`: the payload is not part of
  /// the exchange
  std::optional<core::Error> failure{};
};

/// The session's end. A session without a key has no exchange if its server needs no key.
class ClientExchange {
public:
  explicit ClientExchange(const core::Key& key, const Nonce& nonce = random_nonce())
      : key_(key), own_(nonce) {}

  /// Returns the first payload of the connection.
  core::Bytes opening() const;
  /// Returns the reaction to a payload from the server.  @pre not done and not failed
  ExchangeTurn receive(core::BytesView payload);

private:
  core::Key key_;
  Nonce own_;
  std::optional<Nonce> theirs_;  // once the challenge has arrived
};

/// The server's end.
class ServerExchange {
public:
  /// Keys, one of which the other end must know.
  using Keys = std::shared_ptr<const std::vector<core::Key>>;
  explicit ServerExchange(Keys keys, const Nonce& nonce = random_nonce())
      : keys_(std::move(keys)), own_(nonce) {}
  explicit ServerExchange(const core::Key& key, const Nonce& nonce = random_nonce())
      : ServerExchange(std::make_shared<const std::vector<core::Key>>(1, key), nonce) {}
  /// Returns the reaction to a payload from the session.  @pre not done and not failed
  ExchangeTurn receive(core::BytesView payload);
  /// Returns the index of the key that the other end knows.  @pre done
  std::size_t proved() const { return proved_; }

private:
  Keys keys_;
  std::size_t proved_ = 0;
  Nonce own_;
  std::optional<Nonce> theirs_;  // once the opening has arrived
};

/// Returns the answer that a server without a key gives to an opening.
core::Bytes refusal_without_key();
/// Returns the answer that a server gives to a connection on which only one of the two ends speaks
/// TLS. It is sent in a plain frame.
core::Bytes refusal_without_tls();
/// Returns why a server has refused a session, for example a missing key or missing TLS.
core::Error error_of_refusal(core::BytesView payload);

}  // namespace tremula::transport
