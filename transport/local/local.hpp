// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "transport/transport.hpp"

namespace tremula::transport {

/// Transport between ranks of one user on one machine, through memory that both processes map.
class Local final : public Transport {
public:
  std::string_view name() const noexcept override { return "local"; }
  /// Returns one offer: "local@<host identity>".
  std::vector<std::string> offers() const override;
  std::unique_ptr<Endpoint> open(std::string_view offer, Side side) override;
};

}  // namespace tremula::transport
