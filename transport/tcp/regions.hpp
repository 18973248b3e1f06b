// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory that peers may read. Private to this folder.
#include <map>
#include <span>

#include "transport/transport.hpp"

namespace tremula::transport::tcp {

class Endpoint;

/// The regions of one endpoint. A region may outlive the endpoint.
class Regions {
public:
  /// The endpoint; null once it has ended.
  Endpoint* endpoint = nullptr;

  RegionKey add(std::span<std::byte> bytes);
  void end(const RegionKey& key) noexcept;
  /// Returns the part that a peer requests; nullopt if no region has this key, or if the region is
  /// too short.
  std::optional<std::span<std::byte>> find(const RegionKey& key, std::uint64_t offset,
                                           std::uint64_t bytes) const noexcept;

private:
  std::map<std::uint64_t, std::pair<std::uint64_t, std::span<std::byte>>>
      all_;  // by the key's words
};

}  // namespace tremula::transport::tcp
