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
/// message of any connection; Limits bounds how much a connection may use.
class Listener {
public:
  /// Opens the port: sessions may connect from now on, and are served while run() runs. Uses the keys
  /// of the configuration.
  /// @param log  must outlive the listener
  /// @throws core::Error invalid_argument naming the address and what to do: port in use, address
  /// not of this host, port not allowed, not loopback and no key; or naming TLS files that it cannot use
  Listener(const Config& config, std::string version, const core::Log& log, Limits limits);
  /// Returns the keys of a server at that port; called before the first connection can arrive.
  using FindKeys = std::function<std::vector<core::Key>(std::uint16_t port)>;
  /// Opens the port as above, but with the limits of the configuration.
  /// @param find_keys  returns the keys, in place of the configuration's; if it throws, the port is released
  Listener(const Config& config, std::string version, const core::Log& log,
           const FindKeys& find_keys);
  /// Opens the port with the limits and the keys of the configuration.
  Listener(const Config& config, std::string version, const core::Log& log);
  ~Listener();

  /// Returns the numeric address at which sessions reach the server. If the server listens on all
  /// addresses, returns the address by which other hosts can most probably reach this host.
  transport::HostPort address() const;
  /// Returns whether sessions on other hosts can also reach the server.
  bool is_outward() const;
  /// Makes SIGINT, SIGTERM and SIGHUP call stop(). SIGHUP stays ignored if it was ignored when
  /// the process started (nohup). Makes SIGUSR1 and SIGUSR2 do nothing. At most one listener of a process
  /// may use this function.
  /// @param before  called before stop(), while this server still has the port
  void stop_on_signals(std::function<void()> before);
  /// Serves until stop().
  void run();
  /// Sends what is queued, closes all connections and ends run(), within a second. Any thread may call
  /// this function, but a signal handler may not.
  void stop();

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tremula::server
