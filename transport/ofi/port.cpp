// SPDX-License-Identifier: Apache-2.0
#include "transport/ofi/port.hpp"

#include <algorithm>
#include <array>

namespace tremula::transport::ofi {

namespace {

template <class Owner, class Open>
Owner opened(std::string_view what, Open open) {
  typename Owner::Handle handle = nullptr;
  check(open(&handle), what);
  return Owner(handle);
}

}  // namespace

Port::Port(const Provider& provider) : provider_(provider.info->fabric_attr->prov_name) {
  const Info info(fi_dupinfo(provider.info.get()));  // libfabric may write to it
  fi_av_attr av{};
  av.type = FI_AV_TABLE;
  fi_cq_attr cq{};
  cq.format = FI_CQ_FORMAT_TAGGED;
  const std::string over = " over " + provider_;
  fabric_ = opened<Fabric>("fi_fabric" + over,
                           [&](auto* at) { return fi_fabric(info->fabric_attr, at, nullptr); });
  domain_ = opened<Domain>("fi_domain" + over, [&](auto* at) {
    return fi_domain(fabric_.get(), info.get(), at, nullptr);
  });
  addresses_ = opened<AddressVector>(
      "fi_av_open" + over, [&](auto* at) { return fi_av_open(domain_.get(), &av, at, nullptr); });
  completions_ = opened<CompletionQueue>(
      "fi_cq_open" + over, [&](auto* at) { return fi_cq_open(domain_.get(), &cq, at, nullptr); });
  endpoint_ = opened<FabricEndpoint>("fi_endpoint" + over, [&](auto* at) {
    return fi_endpoint(domain_.get(), info.get(), at, nullptr);
  });
  check(fi_ep_bind(endpoint(), &completions()->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind" + over);
  check(fi_ep_bind(endpoint(), &addresses_.get()->fid, 0), "fi_ep_bind" + over);
  check(fi_enable(endpoint()), "fi_enable" + over);
  is_offloaded_ = info->domain_attr->data_progress == FI_PROGRESS_AUTO;
  inject_bytes_ = info->tx_attr->inject_size;
  memory_ = std::make_shared<Memory>(*info, provider.is_readable, domain_.get(), endpoint());
}

void Port::abandon() noexcept {
  memory_->close();
  endpoint_.release();
  completions_.release();
  addresses_.release();
  domain_.release();
  fabric_.release();
}

// An address is the name of the provider, a null byte, and libfabric's name of the endpoint.
Address Port::address() const {
  std::array<char, 512> name{};
  std::size_t bytes = name.size();
  check(fi_getname(&endpoint()->fid, name.data(), &bytes), "fi_getname over " + provider_);
  const std::string text = provider_ + '\0' + std::string(name.data(), bytes);
  const auto view = std::as_bytes(std::span(text));
  return {view.begin(), view.end()};
}

std::vector<fi_addr_t> Port::add(std::span<const Address> peers) {
  const Address own = address();
  const auto head = static_cast<std::ptrdiff_t>(provider_.size() + 1);
  std::vector<fi_addr_t> added;
  for (const Address& peer : peers) {
    if (peer.size() != own.size() || !std::equal(own.begin(), own.begin() + head, peer.begin()))
      throw core::Error(core::Errc::transport, "ofi: expected the address of an endpoint over " +
                                                   provider_ + ", found " +
                                                   std::to_string(peer.size()) + " other bytes");
    const Bytes name(peer.begin() + head, peer.end());
    if (fi_av_insert(addresses_.get(), name.data(), 1, &added.emplace_back(), 0, nullptr) != 1)
      throw core::Error(core::Errc::transport, "ofi: " + provider_ +
                                                   " cannot use the address of rank " +
                                                   std::to_string(added.size() - 1));
  }
  return added;
}

// libfabric writes e.g. "fi_sockaddr_in://10.1.0.2:41233".
std::string Port::text_of(fi_addr_t peer) const {
  std::array<char, 512> name{}, text{};
  std::size_t bytes = name.size();
  if (fi_av_lookup(addresses_.get(), peer, name.data(), &bytes) != 0 || bytes > name.size())
    return {};
  bytes = text.size() - 1;
  fi_av_straddr(addresses_.get(), name.data(), text.data(), &bytes);
  const std::string_view found(text.data());
  const auto scheme = found.find("://");
  return std::string(scheme == found.npos ? found : found.substr(scheme + 3));
}

}  // namespace tremula::transport::ofi
