// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/key.hpp"
#include "core/log.hpp"
#include "server/config.hpp"
#include "server/state/quotas.hpp"
#include "transport/control/address.hpp"

namespace tremula::server {

/// Connects the Rendezvous to sockets: one thread, any number of connections. An idle connection
/// costs one socket and about a kilobyte. One message of each connection is served before a second
/// message of any; Limits bounds what a connection may take.
class Listener {
public:
  /// Opens the port: sessions may connect from now on, and are served while run() runs. Uses the keys
  /// of the configuration.
  /// @param log  must outlive the listener
  /// @throws core::Error invalid_argument naming the address and what to do: port in use, address
  /// not of this host, port not allowed, not loopback and no key; or naming the files of TLS
  Listener(const Config& config, std::string version, const core::Log& log, Limits limits);
  /// Returns the keys of a server at that port; called before the first connection can arrive.
  using FindKeys = std::function<std::vector<core::Key>(std::uint16_t port)>;
  /// Opens the port as above, but with the limits of the configuration.
  /// @param find_keys  returns the keys, in place of the configuration's; if it throws, the port is free
  Listener(const Config& config, std::string version, const core::Log& log,
           const FindKeys& find_keys);
  /// Opens the port with the limits and the keys of the configuration.
  Listener(const Config& config, std::string version, const core::Log& log);
  ~Listener();

  /// Returns the numeric address at which sessions reach the server. If it listens on all addresses,
  /// this is the one by which other hosts most probably reach this host.
  transport::HostPort address() const;
  /// Returns whether sessions of other hosts reach the server as well.
  bool is_outward() const;
  /// Makes SIGINT, SIGTERM and SIGHUP call stop(); SIGHUP does not if the process was started to ignore
  /// it (nohup). Makes SIGUSR1 and SIGUSR2 do nothing. At most one listener in a process.
  /// @param before  called before stop(), while this server still has the port
  void stop_on_signals(std::function<void()> before);
  /// Serves until stop().
  void run();
  /// Sends what is queued, closes all connections and ends run(), within a second. Any thread may call
  /// it, but a signal handler may not.
  void stop();

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tremula::server
