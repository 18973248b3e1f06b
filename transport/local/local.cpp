// SPDX-License-Identifier: Apache-2.0
#include "transport/local/local.hpp"

#include "transport/local/endpoint.hpp"

namespace tremula::transport {

std::vector<std::string> Local::offers() const { return {"local@" + local::host_identity()}; }

std::unique_ptr<Endpoint> Local::open(std::string_view offer, Side side) {
  const auto mine = offers().front();
  if (offer != mine)
    throw core::Error(core::Errc::unsupported, "local: expected the offer '" + mine + "', found '" +
                                                   std::string(offer) + "'");
  return std::make_unique<local::Endpoint>(side);
}

}  // namespace tremula::transport
