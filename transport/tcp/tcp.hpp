// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "transport/transport.hpp"

namespace tremula::transport {

/// Our own sockets, between ranks that have proved to each other that they belong to the link.
class Tcp final : public Transport {
public:
  /// @param bind  numeric address by which ranks on other hosts reach this one, e.g. "10.0.0.5";
  /// empty: nothing listens beyond loopback
  explicit Tcp(std::string bind = {}) : bind_(std::move(bind)) {}

  std::string_view name() const noexcept override { return "tcp"; }
  /// Returns "tcp@<identity>", for processes that share a loopback interface, and also "tcp" if
  /// there is an address to bind to.
  std::vector<std::string> offers() const override;
  std::unique_ptr<Endpoint> open(std::string_view offer, Side side) override;

private:
  std::string bind_;
};

}  // namespace tremula::transport
