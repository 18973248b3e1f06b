// SPDX-License-Identifier: Apache-2.0
#pragma once
// What only the implementation of this folder sees of TLS.
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

/// Over a socket of its owner.
class TlsStream : public boost::asio::ssl::stream<boost::asio::ip::tcp::socket&> {
public:
  using stream::stream;
};

/// The certificate of the other side must hold that name or numeric address.
/// @throws core::Error internal
void expect_name(TlsStream& stream, const std::string& name);

/// Why a client's handshake has failed, and what to do.
/// @return refused if another attempt would fail, too; else no_server
core::Error error_of_handshake(TlsStream& stream, const boost::system::error_code& error,
                               const TlsTrust& trust, const std::string& name);

}  // namespace tremula::transport
