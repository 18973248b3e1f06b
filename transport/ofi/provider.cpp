// SPDX-License-Identifier: Apache-2.0
#include "transport/ofi/provider.hpp"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <set>
#include <utility>

#include "transport/loopback_identity.hpp"

namespace tremula::transport::ofi {

namespace {

/// A provider that is never used: `local` serves ranks of one host, and in libfabric 1.17 this
/// provider keeps the locks of peers that were killed, and some of its reads never end.
constexpr std::string_view left_to_local = "shm";
/// Providers over sockets, best first. Providers that are not named here are preferred, because they
/// are made for better wires.
constexpr std::array<std::string_view, 2> over_sockets{"tcp;ofi_rxm", "net"};
/// Providers used only if requested by name. Reasons, in order: milliseconds per message; 0.3
/// GB/s; does not work; equivalent to `net`.
constexpr std::array<std::string_view, 4> avoided{"sockets", "udp;ofi_rxd", "ofi_mrail",
                                                  "net;ofi_rxm"};

/// A provider over which peers do not read memory. On contended cores, one step in some thousands
/// hung while it was read with libfabric 1.17: no further read or message arrived. Doing without
/// reads costs nothing: over sockets a read takes as long as a message, because the processor of
/// the peer has to answer it.
constexpr std::string_view reads_nothing = "tcp;ofi_rxm";

std::string_view provider_of(const fi_info& info) { return info.fabric_attr->prov_name; }

bool is_avoided(std::string_view provider) {
  return std::any_of(avoided.begin(), avoided.end(), [&](std::string_view name) {
    return provider.find(name) != std::string_view::npos;
  });
}

/// Returns the place of a provider in the order: 1 or more over sockets, 0 for all others.
std::ptrdiff_t place_of(std::string_view provider) {
  const auto at = std::find(over_sockets.begin(), over_sockets.end(), provider);
  return at == over_sockets.end() ? 0 : 1 + (at - over_sockets.begin());
}

/// Returns e.g. "127.0.0.1"; empty if it is not an IP address.
std::string ip_text(const fi_info& info) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* address = nullptr;
  const auto* socket = static_cast<const sockaddr*>(info.src_addr);
  if (socket == nullptr) return {};
  if (info.addr_format == FI_SOCKADDR_IN)
    address = &reinterpret_cast<const sockaddr_in*>(socket)->sin_addr;
  if (info.addr_format == FI_SOCKADDR_IN6)
    address = &reinterpret_cast<const sockaddr_in6*>(socket)->sin6_addr;
  if (address == nullptr) return {};
  const int family = info.addr_format == FI_SOCKADDR_IN ? AF_INET : AF_INET6;
  return inet_ntop(family, address, text.data(), text.size()) == nullptr ? "" : text.data();
}

/// Returns whether ranks on other machines can use a provider.
bool is_wide(const Provider& provider) { return provider.offer.find('@') == std::string::npos; }

/// Returns the end of an error text: what to do about a missing provider.
std::string remedy() {
  const char* const filter = std::getenv("FI_PROVIDER");
  return filter == nullptr ? "; see `fi_info` or name another provider"
                           : "; FI_PROVIDER='" + std::string(filter) +
                                 "' in the environment excludes all other providers, even from "
                                 "`fi_info`: unset it";
}

std::string listed(const std::set<std::string>& names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "none" : text;
}

/// Tag format with the first bit set: the caller may use all 64 (fi_endpoint(3), mem_tag_format).
constexpr std::uint64_t all_tag_bits = 0xAAAAAAAAAAAAAAAA;

/// A provider that cannot move a package of this many bytes in one piece is left out.
constexpr std::size_t longest_message = std::size_t{1} << 40;

/// Demands on registered memory that a provider may make (memory.hpp).
constexpr int memory_modes =
    FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;

/// Returns all providers that meet our needs.
/// @param capabilities  capabilities in addition to messages
Info everything(std::uint64_t capabilities) {
  Info hints(fi_allocinfo());
  hints->ep_attr->type = FI_EP_RDM;
  hints->caps = FI_TAGGED | FI_DIRECTED_RECV | capabilities;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->domain_attr->mr_mode = memory_modes;  // libfabric returns those that the provider needs
  hints->domain_attr->threading =
      FI_THREAD_DOMAIN;  // an endpoint has its own domain, one thread at a time
  hints->domain_attr->av_type = FI_AV_TABLE;
  hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
  hints->ep_attr->mem_tag_format = all_tag_bits;  // all 64 bits are the caller's
  hints->rx_attr->iov_limit = 2;                  // the caller's bytes and the sink
  hints->tx_attr->msg_order = hints->rx_attr->msg_order = FI_ORDER_SAS;
  fi_info* found = nullptr;
  const int code = fi_getinfo(FI_VERSION(1, 11), nullptr, nullptr, 0, hints.get(), &found);
  if (code != -FI_ENODATA) check(code, "fi_getinfo");
  return Info(found);
}

}  // namespace

std::vector<Provider> find_providers(const OfiOptions& options) {
  if (options.provider == left_to_local)
    throw core::Error(
        core::Errc::unsupported,
        "ofi_provider: expected a libfabric provider between hosts, e.g. tcp;ofi_rxm, "
        "found 'shm'; for ranks of one host leave ofi_provider out and choose transport "
        "local or auto");
  const Info readers = everything(FI_RMA | FI_READ | FI_REMOTE_READ), others = everything(0);
  std::vector<Provider> usable;
  std::set<std::string> names, places;
  const auto offer = [&](const fi_info& info, const std::string& text) {
    const auto is_same = [&](const Provider& other) { return other.offer == text; };
    if (std::none_of(usable.begin(), usable.end(), is_same))
      usable.push_back(
          {.offer = text,
           .info = Info(fi_dupinfo(&info)),
           .is_readable = (info.caps & FI_RMA) != 0 && provider_of(info) != reads_nothing});
  };
  const auto consider = [&](const fi_info* info) {
    const std::string provider(provider_of(*info)), ip = ip_text(*info),
                                                    place = info->domain_attr->name;
    if (provider == left_to_local) return;
    names.insert(provider);
    if (!ip.empty()) places.insert(place + " (" + ip + ')');
    if (options.provider.empty() ? is_avoided(provider) : options.provider != provider) return;
    if (info->ep_attr->max_msg_size < longest_message) return;
    if (ip == "127.0.0.1") offer(*info, "ofi:" + provider + '@' + loopback_identity());
    if (!options.bind.empty() && (place == options.bind || ip == options.bind))
      offer(*info, "ofi:" + provider);
  };
  // Providers over which peers can read memory come first: only the first one of each offer is
  // taken.
  for (const Info* found : {&readers, &others})
    for (const fi_info* info = found->get(); info != nullptr; info = info->next) consider(info);
  if (usable.empty())
    throw core::Error(core::Errc::unsupported,
                      "ofi: expected the provider " +
                          (options.provider.empty() ? "tcp;ofi_rxm" : options.provider) +
                          ", found " + listed(names) + remedy());
  if (!options.bind.empty() && std::none_of(usable.begin(), usable.end(), is_wide))
    throw core::Error(core::Errc::unsupported,
                      "ofi: expected an address or interface of this machine to bind to, found '" +
                          options.bind + "'; this machine has " + listed(places));
  std::stable_sort(usable.begin(), usable.end(), [](const Provider& a, const Provider& b) {
    return std::pair(place_of(provider_of(*a.info)), is_wide(a)) <
           std::pair(place_of(provider_of(*b.info)), is_wide(b));
  });
  return usable;
}

}  // namespace tremula::transport::ofi
