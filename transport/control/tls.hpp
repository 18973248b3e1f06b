// SPDX-License-Identifier: Apache-2.0
#pragma once
// TLS 1.2 or newer under the frames of a control connection, by OpenSSL. Who may join is a matter of
// the key (authentication.hpp), which is proved inside: certificates are the server's alone.
#include <filesystem>
#include <memory>
#include <string>

#include "transport/control/frame.hpp"

namespace tremula::transport {

/// How a session knows the certificate of its server.
struct TlsTrust {
  /// PEM file with the certificate of an authority or of the server itself; empty: no TLS.
  std::string ca{};
  /// Name or numeric address that the server's certificate must hold; empty: the one by which the
  /// server is reached.
  std::string name{};
};

/// The certificates and settings that connections have in common.
class TlsContext;

/// @param certificate  PEM file: the server's, then those between it and its authority
/// @param key          PEM file of its private key, without a passphrase
/// @throws core::Error invalid_argument if a file cannot be read or the two do not belong together
std::shared_ptr<TlsContext> tls_of_server(const std::filesystem::path& certificate,
                                          const std::filesystem::path& key);
/// @throws core::Error invalid_argument if the file cannot be read or holds no certificate
std::shared_ptr<TlsContext> tls_of_client(const TlsTrust& trust);

/// True if a connection begins as those of TLS do. No frame that a stranger may send begins so.
bool is_tls(const FramePrefix& first_bytes) noexcept;

/// What TLS and its certificates take of a server, for one connection: while it is being set up, and
/// later.
inline constexpr std::size_t tls_set_up_bytes = std::size_t{192} << 10,
                             tls_connection_bytes = std::size_t{96} << 10;

}  // namespace tremula::transport
