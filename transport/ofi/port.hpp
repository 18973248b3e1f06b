// SPDX-License-Identifier: Apache-2.0
#pragma once
// What libfabric holds open for one rank's end of a link. Private to this folder.
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "transport/ofi/fabric.hpp"
#include "transport/ofi/memory.hpp"
#include "transport/ofi/provider.hpp"
#include "transport/transport.hpp"

namespace tremula::transport::ofi {

/// A libfabric endpoint with a fabric, domain, queue and address vector of its own, so that closing
/// it gives up everything that is in flight, whatever the peers do.
///
/// Shared where shm is: libfabric lets two endpoints of one process use each other's memory
/// directly, and so an endpoint must stay open, though nobody drives it, for as long as a peer in
/// the same process is.
class Port {
public:
  static std::shared_ptr<Port> open(const Provider& provider);
  /// For one that a call was left in the middle of: libfabric could not close it. Its memory is
  /// lost until the process ends; its file is removed.
  static void abandon(std::shared_ptr<Port> port);
  ~Port();
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  fid_ep* endpoint() const noexcept { return endpoint_.get(); }
  fid_cq* completions() const noexcept { return completions_.get(); }
  Memory& memory() noexcept { return *memory_; }
  std::size_t inject_bytes() const noexcept { return inject_bytes_; }
  /// Data moves without calls into libfabric.
  bool is_offloaded() const noexcept { return is_offloaded_; }
  const std::string& provider() const noexcept { return provider_; }

  Address address() const;
  bool is_shared_memory() const noexcept { return format_ == FI_ADDR_STR; }
  /// Names of the peers' files in /dev/shm.  @pre is_shared_memory()
  std::vector<std::string> shared_files(std::span<const Address> peers) const;

  struct Peers {
    std::vector<fi_addr_t> addresses;  ///< what libfabric numbers them by, index = rank
    std::vector<std::shared_ptr<Port>>
        neighbours;  ///< those of this process, for the caller to keep
  };
  /// Makes peers reachable.
  /// @throws core::Error transport if one is no address of this provider, unsupported if they are
  /// too many, peer_lost if one of this process is closed already
  Peers add(std::span<const Address> peers);

private:
  explicit Port(const Provider& provider);
  std::string raw_name() const;
  /// @return what libfabric calls the peer
  std::string checked(const Address& peer) const;

  std::string provider_;
  std::uint32_t format_;  ///< of addresses, FI_ADDR_STR and so on
  Fabric fabric_;
  Domain domain_;
  AddressVector addresses_;
  CompletionQueue completions_;
  FabricEndpoint endpoint_;  // closed before what it is bound to
  std::size_t inject_bytes_ = 0;
  bool is_offloaded_ = false;
  std::shared_ptr<Memory> memory_;
};

}  // namespace tremula::transport::ofi
