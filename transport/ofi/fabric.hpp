// SPDX-License-Identifier: Apache-2.0
#pragma once
// Owning handles for libfabric's objects, and errors for its return codes. Private to this folder.
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <memory>
#include <string>
#include <string_view>

#include "core/error.hpp"
#include "core/unique_handle.hpp"

namespace tremula::transport::ofi {

template <class Fid>
struct FidTraits {
  using Handle = Fid*;
  static Handle none() { return nullptr; }
  static void close(Handle handle) noexcept { fi_close(&handle->fid); }
};
using Fabric = core::UniqueHandle<FidTraits<fid_fabric>>;
using Domain = core::UniqueHandle<FidTraits<fid_domain>>;
using AddressVector = core::UniqueHandle<FidTraits<fid_av>>;
using CompletionQueue = core::UniqueHandle<FidTraits<fid_cq>>;
using Registration = core::UniqueHandle<FidTraits<fid_mr>>;
using FabricEndpoint = core::UniqueHandle<FidTraits<fid_ep>>;

struct FreeInfo {
  void operator()(fi_info* info) const noexcept { fi_freeinfo(info); }
};
using Info = std::unique_ptr<fi_info, FreeInfo>;

/// Returns libfabric's text for a return code.
/// @param code  negative, as libfabric returns it
inline std::string text_of(std::int64_t code) { return fi_strerror(static_cast<int>(-code)); }

/// Checks a return code.
/// @throws core::Error transport naming `what` and libfabric's own text if `code` is negative
inline void check(std::int64_t code, std::string_view what) {
  if (code < 0)
    throw core::Error(core::Errc::transport,
                      "ofi: " + std::string(what) + " failed: " + text_of(code));
}

}  // namespace tremula::transport::ofi
