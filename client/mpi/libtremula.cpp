// SPDX-License-Identifier: Apache-2.0
#include "client/mpi/libtremula.hpp"

#include <string_view>

#include "client/c_api/guarded.hpp"
#include "client/session/version.hpp"

namespace tremula::client {

tremula_status fail(tremula_status status, const std::string& text) noexcept {
  return tremula_private_interface()->fail(status, text.c_str());
}

const PrivateInterface& mpi::libtremula() {
  const PrivateInterface& found = *tremula_private_interface();
  if (std::string_view(found.version) != version || found.number != private_interface_number)
    throw core::Error(core::Errc::unsupported,
                      std::string("libtremula_mpi.so of Tremula ") + version +
                          ": expected libtremula.so of the same version, found version " +
                          found.version + "; install both together");
  return found;
}

}  // namespace tremula::client
