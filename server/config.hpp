// SPDX-License-Identifier: Apache-2.0
#pragma once
// Configuration of a server: command line > TREMULA_* environment > YAML file > default.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/key.hpp"
#include "core/log.hpp"

namespace tremula::server {

struct Config {
  std::string bind = "127.0.0.1";  ///< numeric address to listen on
  std::uint16_t port = 7423;       ///< 0 = any free one
  std::optional<std::filesystem::path>
      port_file;  ///< gets the line "host:port" while the server listens
  /// serve() makes the file if it is missing. Not set: the file beside the port file, or if there is
  /// none, a file that jobs of this user on this host find by the port. `none`: every process that
  /// reaches the port may join
  core::KeySource key_source{};
  /// PEM files, both or neither: every connection speaks TLS.
  std::filesystem::path tls_certificate{}, tls_key{};
  core::LogLevel log = core::LogLevel::info;
  double heartbeat_seconds =
      1;                      ///< how often every rank says that it lives; lost after 4 silent ones
  double hello_seconds = 10;  ///< that a connection may take until its first message has come
  std::size_t connections_per_host = 0;  ///< sessions of one host; 0: three quarters of all
  std::size_t memory_mib = 2048;  ///< half for messages under way, half for what groups have here
  std::uint32_t number = 0;  ///< of this server (not to be set: serve() draws it); see Rendezvous
  /// Each connection proves to know one of them; the first is the operator's. serve() finds its own.
  std::vector<core::Key> keys{};
};

/// Key -> text as given, e.g. {"port", "0"}. The keys: bind, port, port_file, key_file,
/// tls_certificate, tls_key, log, heartbeat, hello, connections_per_host, memory.
using ConfigTexts = std::map<std::string, std::string>;
/// nullptr for a variable that is not set, as std::getenv.
using Environment = std::function<const char*(const char* name)>;

/// @param arguments    from the command line; only the keys that were given
/// @param environment  asked for TREMULA_<KEY>, for TREMULA_KEY, a key itself, and for
///                     XDG_RUNTIME_DIR
/// @param file         a YAML mapping of the same keys
/// @throws core::Error invalid_argument naming the key, where it was given, what was expected and
/// what was found;
///         for the file also the line, and for an unknown key those that exist
Config load_config(const ConfigTexts& arguments, const Environment& environment,
                   const std::optional<std::filesystem::path>& file);

}  // namespace tremula::server
