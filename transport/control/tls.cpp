// SPDX-License-Identifier: Apache-2.0
#include "transport/control/tls.hpp"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ssl/error.hpp>
#include <fstream>

#include "transport/control/tls_stream.hpp"

namespace tremula::transport {

namespace ssl = boost::asio::ssl;
using boost::system::error_code;
using core::Errc, core::Error;

namespace {

/// Returns the text of OpenSSL or the system, without the file names of OpenSSL's sources.
std::string text_of(const error_code& error) { return error.message(); }

[[noreturn]] void fail(const char* key, const std::filesystem::path& file,
                       const std::string& text) {
  throw Error(Errc::invalid_argument, fmt::format("{} '{}': {}", key, file.string(), text));
}

void check_readable(const char* key, const std::filesystem::path& file) {
  std::error_code unknown;
  // Opening a pipe would wait for its writer.
  if (!std::filesystem::is_regular_file(file, unknown) || !std::ifstream(file))
    fail(key, file, "expected a PEM file that this user can read, found none");
}

std::shared_ptr<TlsContext> make(ssl::context::method method) {
  const auto context = std::make_shared<TlsContext>(method);
  SSL_CTX* const native = context->native_handle();
  SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION);
  SSL_CTX_set_options(native, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_mode(native, SSL_MODE_RELEASE_BUFFERS);  // most connections are idle
  // TLS sessions are never resumed, so no state is kept for resumption.
  SSL_CTX_set_session_cache_mode(native, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(native, SSL_OP_NO_TICKET);
  SSL_CTX_set_num_tickets(native, 0);
  return context;
}

bool is_numeric(const std::string& name) {
  error_code error;
  boost::asio::ip::make_address(name, error);
  return !error;
}

}  // namespace

std::shared_ptr<TlsContext> tls_of_server(const std::filesystem::path& certificate,
                                          const std::filesystem::path& key) {
  check_readable("tls_certificate", certificate);
  check_readable("tls_key", key);
  const auto context = make(ssl::context::tls_server);
  error_code error;
  context->use_certificate_chain_file(certificate.string(), error);
  if (error)
    fail("tls_certificate", certificate,
         fmt::format("expected a certificate in PEM, found: {}", text_of(error)));
  // A server cannot ask for a passphrase: a key that needs one causes an error.
  context->set_password_callback(
      [](std::size_t, ssl::context::password_purpose) { return std::string(); });
  context->use_private_key_file(key.string(), ssl::context::pem, error);
  // OpenSSL compares the key with the certificate once it has both.
  if (error.category() == boost::asio::error::get_ssl_category() &&
      ERR_GET_REASON(static_cast<unsigned long>(error.value())) == X509_R_KEY_VALUES_MISMATCH)
    fail("tls_key", key,
         fmt::format("expected the private key of the certificate in '{}', found a different key",
                     certificate.string()));
  if (error)
    fail("tls_key", key,
         fmt::format("expected a private key in PEM, without a passphrase, found: {}",
                     text_of(error)));
  return context;
}

std::shared_ptr<TlsContext> tls_of_client(const TlsTrust& trust) {
  check_readable("tls_ca", trust.ca);
  const auto context = make(ssl::context::tls_client);
  error_code error;
  context->load_verify_file(trust.ca, error);
  if (error)
    fail("tls_ca", trust.ca,
         fmt::format("expected certificates in PEM, found: {}", text_of(error)));
  context->set_verify_mode(ssl::verify_peer);
  // The server's own certificate is enough, whichever authority has signed it.
  X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(context->native_handle()),
                              X509_V_FLAG_PARTIAL_CHAIN);
  return context;
}

bool is_tls(const FramePrefix& first_bytes) noexcept {
  // The header of a record with a handshake message, version 3.1 or newer. Read as the length of a
  // frame, these bytes mean more than 64 KiB.
  return first_bytes[0] == std::byte{22} && first_bytes[1] == std::byte{3} &&
         first_bytes[2] != std::byte{0};
}

void expect_name(TlsStream& stream, const std::string& name) {
  SSL* const native = stream.native_handle();
  X509_VERIFY_PARAM* const param = SSL_get0_param(native);
  const bool is_set = is_numeric(name) ? X509_VERIFY_PARAM_set1_ip_asc(param, name.c_str()) == 1
                                       : SSL_set1_host(native, name.c_str()) == 1 &&
                                             SSL_set_tlsext_host_name(native, name.c_str()) == 1;
  if (!is_set)
    throw Error(Errc::invalid_argument,
                fmt::format("tls_name: expected the name or address in the server's certificate, "
                            "found '{}'",
                            name));
}

Error error_of_handshake(TlsStream& stream, const error_code& error, const TlsTrust& trust,
                         const std::string& name) {
  const auto refused = [](const std::string& text) { return Error(Errc::refused, text); };
  if (error.category() != boost::asio::error::get_ssl_category())
    return Error(Errc::no_server, fmt::format("the connection ended during the TLS handshake ({})",
                                              error.message()));
  if (const long found = SSL_get_verify_result(stream.native_handle()); found != X509_V_OK) {
    const std::string why = X509_verify_cert_error_string(found);
    switch (found) {
      case X509_V_ERR_CERT_HAS_EXPIRED:
      case X509_V_ERR_CERT_NOT_YET_VALID:
        return refused(
            fmt::format("expected a certificate of the server that is valid now, found "
                        "one that is not ({}); renew it, or set the clock of this host",
                        why));
      case X509_V_ERR_HOSTNAME_MISMATCH:
      case X509_V_ERR_IP_ADDRESS_MISMATCH:
        return refused(
            fmt::format("expected a certificate of the server that names '{}', found "
                        "one for other names; reach the server by a name in it, or set tls_name "
                        "(TREMULA_TLS_NAME, --tls-name) to one of them",
                        name));
      default:
        return refused(
            fmt::format("expected a certificate of the server that is in '{}' or signed "
                        "by one in it, found a different one ({}); set tls_ca "
                        "(TREMULA_TLS_CA, --tls-ca) to the server's certificate. If it "
                        "already is, another program is answering in place of the server",
                        trust.ca, why));
    }
  }
  switch (ERR_GET_REASON(static_cast<unsigned long>(error.value()))) {
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_UNEXPECTED_MESSAGE:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
      return refused(
          "expected a server that speaks TLS, found one that does not; start it with "
          "--tls-certificate and --tls-key, or omit tls_ca (TREMULA_TLS_CA, --tls-ca)");
    default:
      return refused(fmt::format("the TLS handshake has failed: {}", text_of(error)));
  }
}

}  // namespace tremula::transport
