// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "transport/local/shared_memory.hpp"
#include "transport/transport.hpp"

namespace tremula::transport {

/// Shared memory between ranks on the same machine, and another transport between all other ranks.
class HybridTransport final : public Transport {
public:
  /// @param identity  identity of the machine of this rank; ranks with equal identities can map
  /// each other's memory
  explicit HybridTransport(std::unique_ptr<Transport> far,
                           std::string identity = local::host_identity());

  /// Returns the name of the other transport.
  std::string_view name() const noexcept override { return far_->name(); }
  /// Returns "local+X" for each offer X of the other transport, then the offers X themselves.
  std::vector<std::string> offers() const override;
  bool has_choices(std::string_view offer) const override;
  bool connects_alone() const noexcept override { return far_->connects_alone(); }
  std::vector<std::string> choices(std::string_view offer) override;
  /// @pre the transport outlives the endpoint
  std::unique_ptr<Endpoint> open(std::string_view offer, Side side) override;

private:
  std::unique_ptr<Transport> far_;
  std::string identity_;
};

}  // namespace tremula::transport
