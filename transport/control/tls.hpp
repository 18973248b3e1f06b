// SPDX-License-Identifier: Apache-2.0
#pragma once
// TLS 1.2 or newer, from OpenSSL, under the frames of a control connection. The key
// (authentication.hpp), which is proved inside TLS, decides which jobs may join: only the server
// has a certificate.
#include <filesystem>
#include <memory>
#include <string>

#include "transport/control/frame.hpp"

namespace tremula::transport {

/// How a session recognizes the certificate of its server.
struct TlsTrust {
  /// PEM file with the certificate of an authority or of the server itself; empty: no TLS.
  std::string ca{};
  /// Name or numeric address that the server's certificate must hold; empty: the one by which the
  /// server is reached.
  std::string name{};
};

/// Certificates and settings that connections share.
class TlsContext;

/// Returns the context of a server.
/// @param certificate  PEM file: the server's certificate, then those between it and its authority
/// @param key          PEM file of its private key, without a passphrase
/// @throws core::Error invalid_argument if a file cannot be read or the two do not belong together
std::shared_ptr<TlsContext> tls_of_server(const std::filesystem::path& certificate,
                                          const std::filesystem::path& key);
/// Returns the context of a client.
/// @throws core::Error invalid_argument if the file cannot be read or holds no certificate
std::shared_ptr<TlsContext> tls_of_client(const TlsTrust& trust);

/// Returns whether a connection begins with TLS. No frame that an unproved peer may send begins with
/// these bytes.
bool is_tls(const FramePrefix& first_bytes) noexcept;

/// Bytes of a server's memory that TLS and its certificates take per connection: during set-up, and
/// afterwards.
inline constexpr std::size_t tls_set_up_bytes = std::size_t{192} << 10,
                             tls_connection_bytes = std::size_t{104} << 10;

}  // namespace tremula::transport
