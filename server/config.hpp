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
  /// File with the keys of the server; serve() makes it if it is missing. If it is not set, serve() uses
  /// the file next to the port file, or if there is none, a file that jobs of this user on this
  /// host find by the port. With `none`, every process that reaches the port may join.
  core::KeySource key_source{};
  /// PEM files, both or neither: every connection speaks TLS.
  std::filesystem::path tls_certificate{}, tls_key{};
  core::LogLevel log = core::LogLevel::info;
  /// Interval between two heartbeats of a rank. A rank that is silent for 4 of them, and for 10 s, is
  /// lost, unless its Hello says otherwise.
  double heartbeat_seconds = 1;
  double hello_seconds = 10;             ///< longest time from a connection to its first message
  std::size_t connections_per_host = 0;  ///< most sessions of one host; 0: three quarters of all
  std::size_t memory_mib = 2048;  ///< half for messages under way, half for what groups have here
  std::uint32_t number = 0;       ///< number of this server, drawn by serve(); see Rendezvous
  /// Keys of a Listener: each connection proves that it knows one of them; the first is the operator's.
  /// serve() does not use these, but finds its own.
  std::vector<core::Key> keys{};
};

/// Maps a key to its text as given, e.g. {"port", "0"}. The keys are bind, port, port_file, key_file,
/// tls_certificate, tls_key, log, heartbeat, hello, connections_per_host, memory.
using ConfigTexts = std::map<std::string, std::string>;
/// Returns the value of a variable, as std::getenv does; nullptr if it is not set.
using Environment = std::function<const char*(const char* name)>;

/// Reads the configuration.
/// @param arguments    from the command line; only the keys that were given
/// @param environment  asked for TREMULA_<KEY>, for TREMULA_KEY, which is a key itself, and for
///                     XDG_RUNTIME_DIR
/// @param file         a YAML mapping of the same keys
/// @throws core::Error invalid_argument naming the key, where it was given, what was expected and
///         what was found; for the file also the line, and for an unknown key those that exist
Config load_config(const ConfigTexts& arguments, const Environment& environment,
                   const std::optional<std::filesystem::path>& file);

}  // namespace tremula::server
