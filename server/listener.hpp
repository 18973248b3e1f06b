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
/// costs one socket and about a kilobyte. Each connection has one message served before any has
/// another; what it may take is in Limits.
class Listener {
public:
  /// Opens the port: sessions may connect from now on, and are served while run() runs.
  /// @param log  must outlive the listener
  /// @throws core::Error invalid_argument naming the address and what to do: port in use, address
  /// not of this host, port not allowed, not loopback and no key; or the files of TLS
  Listener(const Config& config, std::string version, const core::Log& log, Limits limits);
  /// Returns the keys of a server at that port; called before the first connection can come.
  using FindKeys = std::function<std::vector<core::Key>(std::uint16_t port)>;
  /// @param find_keys  in the place of the configuration's keys; what it throws leaves the port free
  Listener(const Config& config, std::string version, const core::Log& log,
           const FindKeys& find_keys);
  /// With the limits of the configuration.
  Listener(const Config& config, std::string version, const core::Log& log);
  ~Listener();

  /// Where sessions reach the server; numeric. If it listens on all addresses, the one by which
  /// other hosts most probably reach this one.
  transport::HostPort address() const;
  /// Sessions of other hosts reach it, too.
  bool is_outward() const;
  /// SIGINT, SIGTERM and SIGHUP call stop(); SIGHUP does not where the process was started to ignore
  /// it (nohup). SIGUSR1 and SIGUSR2 do nothing. At most one listener in a process.
  /// @param before  called then, while the port is still this server's
  void stop_on_signals(std::function<void()> before);
  /// Serves until stop().
  void run();
  /// Sends what is queued, closes all connections and ends run(), within a second. May be called by
  /// any thread, but by no signal handler.
  void stop();

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tremula::server
