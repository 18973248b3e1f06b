// SPDX-License-Identifier: Apache-2.0
#include "transport/control/authentication.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <span>
#include <string_view>

#include "transport/control/key_of_port.hpp"

namespace tremula::transport {

using core::Bytes, core::BytesView, core::Errc, core::Error;

namespace {

// A payload: magic, kind, body. No Protobuf message begins with a zero byte.
constexpr std::array magic{std::byte{0},   std::byte{'t'}, std::byte{'r'}, std::byte{'m'},
                           std::byte{'l'}, std::byte{'a'}, std::byte{'.'}, std::byte{'1'}};
constexpr std::size_t head_bytes = magic.size() + 1;
using Proof = Seal;
constexpr std::size_t proof_bytes = std::tuple_size_v<Proof>;
static_assert(head_bytes + std::tuple_size_v<Nonce> == exchange_payload_bytes &&
              head_bytes + proof_bytes == exchange_payload_bytes);

enum class PayloadKind : unsigned char {
  opening = 1,       // client: its nonce
  challenge = 2,     // server: its nonce
  client_proof = 3,  // client: a hash of both nonces under the key
  server_proof = 4,  // server: a different hash of the two
  refusal = 5,       // server: why
};
enum class RefusalReason : unsigned char {
  needs_key = 1,
  other_key = 2,
  has_no_key = 3,
  malformed = 4,
  needs_tls = 5
};

Bytes payload_of(PayloadKind kind, BytesView body) {
  Bytes out(magic.begin(), magic.end());
  out.push_back(std::byte(kind));
  out.insert(out.end(), body.begin(), body.end());
  return out;
}
Bytes refusal(RefusalReason why) {
  const std::array body{std::byte(why)};
  return payload_of(PayloadKind::refusal, body);
}

/// Returns the body; nullopt if the payload is not of that kind, or its body has another length.
std::optional<BytesView> body_of(BytesView payload, PayloadKind kind, std::size_t bytes) noexcept {
  if (!is_of_exchange(payload) || payload.size() != head_bytes + bytes ||
      payload[magic.size()] != std::byte(kind))
    return std::nullopt;
  return payload.subspan(head_bytes);
}

std::optional<Nonce> nonce_in(BytesView payload, PayloadKind kind) noexcept {
  Nonce nonce;
  const auto body = body_of(payload, kind, nonce.size());
  if (!body) return std::nullopt;
  std::ranges::copy(*body, nonce.begin());
  return nonce;
}

/// Returns a proof; its label keeps the proof of one end from serving as that of the other.
Proof proof(const core::Key& key, std::string_view label, const Nonce& client,
            const Nonce& server) {
  Bytes text(client.begin(), client.end());
  text.insert(text.end(), server.begin(), server.end());
  return seal(key, label, text);
}
Proof client_proof(const core::Key& key, const Nonce& client, const Nonce& server) {
  return proof(key, "tremula control 1: client", client, server);
}
Proof server_proof(const core::Key& key, const Nonce& client, const Nonce& server) {
  return proof(key, "tremula control 1: server", client, server);
}

Error server_knows_no_key(std::string_view found) {
  return Error(Errc::refused, "expected a server that knows the key of this process, found " +
                                  std::string(found) + "; " + std::string(ways_to_key));
}

ExchangeTurn failed(Bytes reply, Error error) {
  return {.reply = std::move(reply), .is_done = false, .failure = std::move(error)};
}

}  // namespace

Seal seal(const core::Key& key, std::string_view label, BytesView text) {
  const auto view = std::as_bytes(std::span(label));
  Bytes all(view.begin(), view.end());
  all.insert(all.end(), text.begin(), text.end());
  Seal out{};
  unsigned bytes = 0;
  const auto* begin = reinterpret_cast<const unsigned char*>(all.data());
  if (HMAC(EVP_sha256(), key.bytes().data(), static_cast<int>(key.bytes().size()), begin,
           all.size(), reinterpret_cast<unsigned char*>(out.data()), &bytes) == nullptr ||
      bytes != out.size())
    throw Error(Errc::internal, "OpenSSL: expected HMAC-SHA256, found none");
  return out;
}

bool is_same(BytesView found, const Seal& expected) noexcept {
  return found.size() == expected.size() &&
         CRYPTO_memcmp(found.data(), expected.data(), expected.size()) == 0;
}

Nonce random_nonce() {
  Nonce nonce;
  core::fill_with_secret_bytes(nonce);
  return nonce;
}

bool is_of_exchange(BytesView payload) noexcept {
  return payload.size() > magic.size() && std::ranges::equal(payload.first(magic.size()), magic);
}

Error error_of_refusal(BytesView payload) {
  const auto body = body_of(payload, PayloadKind::refusal, 1);
  switch (body ? RefusalReason{std::to_integer<unsigned char>(body->front())}
               : RefusalReason::malformed) {
    case RefusalReason::needs_key:
      return Error(Errc::refused, "the server asks for a key, and this process has none; " +
                                      std::string(ways_to_key));
    case RefusalReason::other_key:
      return Error(Errc::refused,
                   "the server has a different key than this process; " + std::string(ways_to_key));
    case RefusalReason::has_no_key:
      return server_knows_no_key("one that was started with --key-file none");
    case RefusalReason::needs_tls:
      return Error(
          Errc::refused,
          "the server speaks TLS, and this process does not know how to check it; set tls_ca "
          "(TREMULA_TLS_CA, --tls-ca) to its certificate file");
    case RefusalReason::malformed:
      break;
  }
  return Error(Errc::protocol,
               "expected a Tremula server of this version, found other bytes during the proof of "
               "the key");
}

Bytes refusal_without_key() { return refusal(RefusalReason::has_no_key); }
Bytes refusal_without_tls() { return refusal(RefusalReason::needs_tls); }

Bytes ClientExchange::opening() const { return payload_of(PayloadKind::opening, own_); }

ExchangeTurn ClientExchange::receive(BytesView payload) {
  if (!theirs_) {
    theirs_ = nonce_in(payload, PayloadKind::challenge);
    if (!theirs_) return failed({}, error_of_refusal(payload));
    return {.reply = payload_of(PayloadKind::client_proof, client_proof(key_, own_, *theirs_))};
  }
  const auto body = body_of(payload, PayloadKind::server_proof, proof_bytes);
  if (!body) return failed({}, error_of_refusal(payload));
  if (!is_same(*body, server_proof(key_, own_, *theirs_)))
    return failed({}, server_knows_no_key("one that cannot prove it"));
  return {.reply = {}, .is_done = true};
}

ExchangeTurn ServerExchange::receive(BytesView payload) {
  const auto refuse = [](RefusalReason why, const char* found) {
    return failed(refusal(why),
                  Error(why == RefusalReason::malformed ? Errc::protocol : Errc::refused, found));
  };
  if (!is_of_exchange(payload)) return refuse(RefusalReason::needs_key, "it has no key");
  if (!theirs_) {
    theirs_ = nonce_in(payload, PayloadKind::opening);
    if (!theirs_)
      return refuse(RefusalReason::malformed, "it did not open the exchange of the key");
    return {.reply = payload_of(PayloadKind::challenge, own_)};
  }
  const auto body = body_of(payload, PayloadKind::client_proof, proof_bytes);
  if (!body) return refuse(RefusalReason::malformed, "it did not answer the challenge");
  const auto found = std::ranges::find_if(*keys_, [&](const core::Key& key) {
    return is_same(*body, client_proof(key, *theirs_, own_));
  });
  if (found == keys_->end()) return refuse(RefusalReason::other_key, "it has a different key");
  proved_ = static_cast<std::size_t>(found - keys_->begin());
  return {.reply = payload_of(PayloadKind::server_proof, server_proof(*found, *theirs_, own_)),
          .is_done = true};
}

}  // namespace tremula::transport
