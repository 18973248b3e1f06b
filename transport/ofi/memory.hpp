// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory registered with libfabric. Private to this folder.
//
// Demands of a provider (fi_mr(3), mr_mode) and how they are met:
//
//   FI_MR_LOCAL      every buffer of an operation is registered; see descriptor()
//   FI_MR_VIRT_ADDR  offsets of peers count from the address, else from 0
//   FI_MR_ALLOCATED  every page is touched first
//   FI_MR_PROV_KEY   the provider chooses the key, else it is a random number
//   FI_MR_ENDPOINT   registrations are bound to the endpoint and enabled
#include <map>
#include <memory>
#include <span>

#include "transport/ofi/fabric.hpp"
#include "transport/transport.hpp"

namespace tremula::transport::ofi {

/// The registrations of one endpoint.
class Memory : public std::enable_shared_from_this<Memory> {
public:
  /// @param is_readable  peers may read memory that is registered for them
  /// @param endpoint     enabled; closed before `domain`
  Memory(const fi_info& info, bool is_readable, fid_domain* domain, fid_ep* endpoint);

  /// Registers memory; returns null if registration would be useless.
  std::unique_ptr<MemoryRegion> add(std::span<std::byte> bytes, Access access);
  /// Returns the descriptor that an operation passes along with these bytes; null if the provider
  /// does not need one or there are no bytes. If no region of Access::own contains the bytes,
  /// they are registered for as long as `held` lives.
  void* descriptor(std::span<std::byte> bytes, Registration& held);
  /// Ends all registrations, so that peers can no longer read the memory. Regions that still exist
  /// are then useless.
  void close() noexcept;

private:
  class Region;
  struct Registered {
    std::span<std::byte> bytes;
    Registration registration;
    Access access{};
  };
  /// Registers memory with libfabric.
  /// @param access  bits of libfabric
  /// @param key     chosen by us; unused if the provider chooses
  Registration open(std::span<std::byte> bytes, std::uint64_t access, std::uint64_t key);
  std::uint64_t random_key() const;
  bool is_local_registered() const noexcept { return (mode_ & FI_MR_LOCAL) != 0; }
  /// Touches every page if the provider needs that.
  /// @param is_ours  whether the bytes may be written to
  void touch(std::span<std::byte> bytes, bool is_ours) const;

  int mode_;
  std::size_t key_bytes_;
  bool can_be_read_;
  fid_domain* domain_;
  fid_ep* endpoint_;
  std::map<const Region*, Registered> regions_;
};

}  // namespace tremula::transport::ofi
