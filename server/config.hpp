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
  std::uint16_t port = 7423;       ///< 0 = any free port
  std::optional<std::filesystem::path>
      port_file;  ///< receives the line "host:port" while the server listens
  /// File with the keys of the server; serve() makes it if it is missing. If it is not set, serve() uses
  /// the file next to the port file or, without a port file, a file that jobs of this user on this
  /// host find by the port. With `none`, every process that can reach the port may join.
  core::KeySource key_source{};
  /// PEM files, both or neither. If they are set, every connection speaks TLS.
  std::filesystem::path tls_certificate{}, tls_key{};
  core::LogLevel log = core::LogLevel::info;
  /// Interval between two heartbeats of a rank. A rank is lost after a silence of 10 s, or of 4 heartbeats
  /// if these take longer, unless its Hello states another limit.
  double heartbeat_seconds = 1;
  double hello_seconds = 10;             ///< longest time from a connection to its first message
  std::size_t connections_per_host = 0;  ///< most sessions of one host; 0: three quarters of all
  std::size_t memory_mib = 2048;  ///< half for messages in transit, half for the state of groups
  std::uint32_t number = 0;       ///< number of this server, drawn by serve(); see Rendezvous
  /// Keys of a Listener: each connection must prove that it knows one of them; the first is the operator's.
  /// serve() ignores these and finds its own keys.
  std::vector<core::Key> keys{};
};

/// Maps a key to its text as given, e.g. {"port", "0"}. The keys are bind, port, port_file, key_file,
/// tls_certificate, tls_key, log, heartbeat, hello, connections_per_host, memory.
using ConfigTexts = std::map<std::string, std::string>;
/// Returns the value of a variable, as std::getenv does; nullptr if it is not set.
using Environment = std::function<const char*(const char* name)>;

/// Reads the configuration.
/// @param arguments    texts from the command line, only of keys that were given
/// @param environment  provides TREMULA_<KEY>, XDG_RUNTIME_DIR, and TREMULA_KEY, which is a key itself
/// @param file         a YAML mapping of the same keys
/// @throws core::Error invalid_argument naming the key, where it was given, what was expected and
///         what was found; in the file also the line; for an unknown key, the keys that exist
Config load_config(const ConfigTexts& arguments, const Environment& environment,
                   const std::optional<std::filesystem::path>& file);

}  // namespace tremula::server
