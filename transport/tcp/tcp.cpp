// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/tcp.hpp"

#include <algorithm>

#include "transport/loopback_identity.hpp"
#include "transport/tcp/endpoint.hpp"

namespace tremula::transport {

namespace {
constexpr std::string_view wide = "tcp";
}

std::vector<std::string> Tcp::offers() const {
  std::vector<std::string> offers{std::string(wide) + '@' + loopback_identity()};
  if (!bind_.empty()) offers.emplace_back(wide);
  return offers;
}

std::unique_ptr<Endpoint> Tcp::open(std::string_view offer, Side side) {
  const auto mine = offers();
  if (std::ranges::find(mine, offer) == mine.end())
    throw core::Error(core::Errc::unsupported, "tcp: expected one of the offers of this host, '" +
                                                   mine.front() +
                                                   (mine.size() > 1 ? "' or '" + mine.back() : "") +
                                                   "', found '" + std::string(offer) + "'");
  return std::make_unique<tcp::Endpoint>(side,
                                         tcp::HostPort(offer == wide ? bind_ : "127.0.0.1", 0));
}

}  // namespace tremula::transport
