// SPDX-License-Identifier: Apache-2.0
#pragma once
// TLS types and functions that are private to this folder.
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <string>

#include "core/error.hpp"
#include "transport/control/tls.hpp"

namespace tremula::transport {

class TlsContext : public boost::asio::ssl::context {
public:
  using context::context;
};

/// A TLS stream over a socket of its owner.
class TlsStream : public boost::asio::ssl::stream<boost::asio::ip::tcp::socket&> {
public:
  using stream::stream;
};

/// Makes the handshake require that the certificate of the other side holds this name or numeric
/// address.
/// @throws core::Error invalid_argument if OpenSSL does not accept the name
void expect_name(TlsStream& stream, const std::string& name);

/// Returns why a client's handshake has failed, and what to do. The code of the error is refused if
/// another attempt would also fail; else no_server.
core::Error error_of_handshake(TlsStream& stream, const boost::system::error_code& error,
                               const TlsTrust& trust, const std::string& name);

}  // namespace tremula::transport
