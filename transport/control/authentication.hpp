// SPDX-License-Identifier: Apache-2.0
#pragma once
// How both ends of a control connection prove that they know the same key. Bytes in, bytes out: no
// sockets, no clock. The README of this folder tells what each message proves.
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

/// The longest payload that an end takes in as long as the other has proved nothing. A Hello fits,
/// so that a session without a key is told what it lacks.
inline constexpr std::size_t max_unproved_payload_bytes = 1024;
/// The length of every payload of the exchange but a refusal.
inline constexpr std::size_t exchange_payload_bytes = 41;
/// The exchange ends within this time, or the connection does.
inline constexpr double exchange_seconds = 10;

using Nonce = std::array<std::byte, 32>;
Nonce random_nonce();

/// What only those that know the key can make of a text: its HMAC-SHA256. All texts of one label
/// begin with it, and with no other's.
using Seal = std::array<std::byte, 32>;
Seal seal(const core::Key& key, std::string_view label, core::BytesView text);
/// Takes the same time wherever they differ.
bool is_same(core::BytesView found, const Seal& expected) noexcept;

/// True of payloads of the exchange, and of no control message.
bool is_of_exchange(core::BytesView payload) noexcept;

/// What an end does about a payload of the other.
struct ExchangeTurn {
  core::Bytes reply{};   ///< to send; empty: nothing
  bool is_done = false;  ///< the other end knows the key: control messages follow
  /// The exchange has failed; the connection ends after the reply. `refused`: the keys differ or one
  /// is missing, and another attempt would fail, too. `protocol`: no such exchange
  std::optional<core::Error> failure{};
};

/// The end of a session. Without a key, one whose server wants none has no exchange at all.
class ClientExchange {
public:
  explicit ClientExchange(const core::Key& key, const Nonce& nonce = random_nonce())
      : key_(key), own_(nonce) {}

  /// The first payload of the connection.
  core::Bytes opening() const;
  /// @pre not done and not failed
  ExchangeTurn receive(core::BytesView payload);

private:
  core::Key key_;
  Nonce own_;
  std::optional<Nonce> theirs_;  // the challenge has come
};

/// The end of the server.
class ServerExchange {
public:
  /// Any of these keys will do.
  using Keys = std::shared_ptr<const std::vector<core::Key>>;
  explicit ServerExchange(Keys keys, const Nonce& nonce = random_nonce())
      : keys_(std::move(keys)), own_(nonce) {}
  explicit ServerExchange(const core::Key& key, const Nonce& nonce = random_nonce())
      : ServerExchange(std::make_shared<const std::vector<core::Key>>(1, key), nonce) {}
  /// @pre not done and not failed
  ExchangeTurn receive(core::BytesView payload);
  /// Which of the keys the other end knows.  @pre done
  std::size_t proved() const { return proved_; }

private:
  Keys keys_;
  std::size_t proved_ = 0;
  Nonce own_;
  std::optional<Nonce> theirs_;  // the opening has come
};

/// The answer of a server without a key to an opening.
core::Bytes refusal_without_key();
/// The answer, in a plain frame, of a server that speaks TLS to a connection that does not.
core::Bytes refusal_without_tls();
/// Why a server that wants a key, or TLS, has ended the connection of a session without it.
core::Error error_of_refusal(core::BytesView payload);

}  // namespace tremula::transport
