// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "transport/loopback/network.hpp"

namespace tremula::transport {

/// Transport between ranks in one process, for tests and as the smallest example of a backend. Ranks
/// may share a Loopback or have one each.
class Loopback final : public Transport {
public:
  explicit Loopback(Network& network) : network_(network) {}
  std::string_view name() const noexcept override { return "loopback"; }
  std::vector<std::string> offers() const override { return {"loopback"}; }
  std::unique_ptr<Endpoint> open(std::string_view offer, Side side) override;

private:
  Network& network_;
};

}  // namespace tremula::transport
