// SPDX-License-Identifier: Apache-2.0
#pragma once
// Certificates that a test makes with OpenSSL, in a folder that is removed with them.
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <memory>
#include <string>

#include "server/config.hpp"
#include "tests/core/temporary_folder.hpp"
#include "transport/control/tls.hpp"

namespace tremula::server {

class Certificates {
public:
  struct Wanted {
    std::string file;                    ///< FILE.crt and FILE.key
    std::string names = "IP:127.0.0.1";  ///< as X509v3 writes them
    long valid_seconds = 3600;           ///< below 0: the certificate has expired
    std::string signed_by{};             ///< FILE of the issuer; self-signed if empty
  };

  std::string path(const std::string& name) const { return folder_.path() / name; }

  void make(const Wanted& wanted) const {
    const Key key(EVP_EC_gen("P-256"), &EVP_PKEY_free);
    const Certificate made(X509_new(), &X509_free);
    X509* const x = made.get();
    static long serial = 0;
    X509_set_version(x, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(x), ++serial);
    X509_gmtime_adj(X509_getm_notBefore(x), -7200);
    X509_gmtime_adj(X509_getm_notAfter(x), wanted.valid_seconds);
    X509_set_pubkey(x, key.get());
    X509_NAME* const name = X509_get_subject_name(x);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(wanted.file.c_str()), -1, -1,
                               0);
    add(x, NID_subject_alt_name, wanted.names);
    if (wanted.signed_by.empty()) {
      add(x, NID_basic_constraints, "critical,CA:TRUE");
      X509_set_issuer_name(x, name);
      ASSERT_NE(X509_sign(x, key.get(), EVP_sha256()), 0);
    } else {
      const File crt(std::fopen(path(wanted.signed_by + ".crt").c_str(), "r"), &std::fclose),
          pem(std::fopen(path(wanted.signed_by + ".key").c_str(), "r"), &std::fclose);
      const Certificate issuer(PEM_read_X509(crt.get(), nullptr, nullptr, nullptr), &X509_free);
      const Key signer(PEM_read_PrivateKey(pem.get(), nullptr, nullptr, nullptr), &EVP_PKEY_free);
      X509_set_issuer_name(x, X509_get_subject_name(issuer.get()));
      ASSERT_NE(X509_sign(x, signer.get(), EVP_sha256()), 0);
    }
    const File crt(std::fopen(path(wanted.file + ".crt").c_str(), "w"), &std::fclose),
        pem(std::fopen(path(wanted.file + ".key").c_str(), "w"), &std::fclose);
    ASSERT_EQ(PEM_write_X509(crt.get(), x), 1);
    ASSERT_EQ(PEM_write_PrivateKey(pem.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr), 1);
  }

  /// Returns the configuration of a server on a free port, with the certificate and the key of
  /// `file`.
  Config config(const std::string& file) const {
    Config out;
    out.port = 0;
    out.heartbeat_seconds = 10;
    out.tls_certificate = path(file + ".crt");
    out.tls_key = path(file + ".key");
    return out;
  }
  transport::TlsTrust trust(const std::string& file, const std::string& name = "") const {
    return {.ca = path(file + ".crt"), .name = name};
  }

private:
  using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
  using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
  using File = std::unique_ptr<std::FILE, decltype(&std::fclose)>;
  static void add(X509* x, int what, const std::string& text) {
    X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, nullptr, what, text.c_str());
    ASSERT_NE(extension, nullptr) << text;
    X509_add_ext(x, extension, -1);
    X509_EXTENSION_free(extension);
  }
  core::TemporaryFolder folder_;
};

}  // namespace tremula::server
