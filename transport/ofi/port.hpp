// SPDX-License-Identifier: Apache-2.0
#pragma once
// The objects of libfabric for one rank's end of a link. Private to this folder.
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "transport/ofi/fabric.hpp"
#include "transport/ofi/memory.hpp"
#include "transport/ofi/provider.hpp"
#include "transport/transport.hpp"

namespace tremula::transport::ofi {

/// A libfabric endpoint with its own fabric, domain, queue and address vector, so that closing it
/// gives up everything in flight, whatever the peers do.
class Port {
public:
  explicit Port(const Provider& provider);
  ~Port() { memory_->close(); }
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  /// Leaves libfabric's objects open for as long as the process lives, and no longer calls
  /// libfabric, so that libfabric touches no memory. In version 1.17, ofi_rxm reads through a null
  /// pointer if an endpoint is closed while a message is on its way into a receive. Costs about 12 MiB
  /// and the descriptors of the connections.
  void abandon() noexcept;

  fid_ep* endpoint() const noexcept { return endpoint_.get(); }
  fid_cq* completions() const noexcept { return completions_.get(); }
  Memory& memory() noexcept { return *memory_; }
  std::size_t inject_bytes() const noexcept { return inject_bytes_; }
  /// Returns whether data moves without calls into libfabric.
  bool is_offloaded() const noexcept { return is_offloaded_; }
  const std::string& provider() const noexcept { return provider_; }

  Address address() const;
  /// Makes peers reachable.
  /// @return libfabric's numbers of the peers, index = rank
  /// @throws core::Error transport if any of them is not an address of this provider
  std::vector<fi_addr_t> add(std::span<const Address> peers);
  /// Returns a peer's address in readable form, host and port; empty if libfabric does not know it.
  std::string text_of(fi_addr_t peer) const;

private:
  std::string provider_;
  Fabric fabric_;
  Domain domain_;
  AddressVector addresses_;
  CompletionQueue completions_;
  FabricEndpoint endpoint_;  // closed before the objects that it is bound to
  std::size_t inject_bytes_ = 0;
  bool is_offloaded_ = false;
  std::shared_ptr<Memory> memory_;  // shared with its regions, which may outlive the port
};

}  // namespace tremula::transport::ofi
