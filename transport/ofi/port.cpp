// SPDX-License-Identifier: Apache-2.0
#include "transport/ofi/port.hpp"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "transport/ofi/host.hpp"
#include "transport/ofi/signals.hpp"

namespace tremula::transport::ofi {

namespace {

/// The most endpoints that one of shm can reach (its SMR_MAX_PEERS).
constexpr std::size_t shared_memory_peers = 256;

/// The open ports of this process that use shm, by name. Global because libfabric's own list of
/// them is.
struct Neighbourhood {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<Port>> ports;
  std::vector<std::shared_ptr<Port>> abandoned;
};
Neighbourhood& neighbourhood() {
  static auto& one = *new Neighbourhood;  // never destroyed, for what is abandoned cannot be closed
  return one;
}

/// @pre the neighbourhood is locked
std::shared_ptr<Port> neighbour(const std::string& name) {
  const auto at = neighbourhood().ports.find(name);
  auto port = at == neighbourhood().ports.end() ? nullptr : at->second.lock();
  if (port == nullptr)
    throw core::Error(core::Errc::peer_lost,
                      "ofi: a peer in this process has closed its end before this side connected");
  return port;
}

template <class Owner, class Open>
Owner opened(std::string_view what, Open open) {
  typename Owner::Handle handle = nullptr;
  check(open(&handle), what);
  return Owner(handle);
}

}  // namespace

std::shared_ptr<Port> Port::open(const Provider& provider) {
  const std::shared_ptr<Port> port(new Port(provider));
  if (port->is_shared_memory()) {
    const std::lock_guard lock(neighbourhood().mutex);
    neighbourhood().ports[port->raw_name()] = port;
  }
  return port;
}

Port::Port(const Provider& provider)
    : provider_(provider.info->fabric_attr->prov_name), format_(provider.info->addr_format) {
  const SignalKeeper keeper;
  const Info info(fi_dupinfo(provider.info.get()));
  if (is_shared_memory()) {
    const auto name = std::string(shared_memory_scheme) + next_shared_memory_name();
    std::free(info->src_addr);
    info->src_addr = strdup(name.c_str());
    info->src_addrlen = name.size() + 1;
  }
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
  memory_ = std::make_shared<Memory>(*info, domain_.get(), endpoint());
}

void Port::abandon(std::shared_ptr<Port> port) {
  port->memory().abandon();
  const auto own = port->address();
  for (const auto& file : port->shared_files(std::span(&own, 1))) remove_shared_file(file);
  const std::lock_guard lock(neighbourhood().mutex);
  neighbourhood().abandoned.push_back(std::move(port));
}

Port::~Port() {
  if (memory_) memory_->close();
  if (!is_shared_memory()) return;
  const std::lock_guard lock(neighbourhood().mutex);
  endpoint_.reset();
  std::erase_if(neighbourhood().ports, [](const auto& entry) { return entry.second.expired(); });
}

std::string Port::raw_name() const {
  std::array<char, 512> name{};
  std::size_t bytes = name.size();
  check(fi_getname(&endpoint()->fid, name.data(), &bytes), "fi_getname over " + provider_);
  return {name.data(), bytes};
}

Address Port::address() const {
  const std::string text = provider_ + '\0' + raw_name();
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::string Port::checked(const Address& peer) const {
  const std::string text(reinterpret_cast<const char*>(peer.data()), peer.size());
  const std::string head = provider_ + '\0';
  const auto name = text.substr(std::min(head.size(), text.size()));
  bool is_good = text.starts_with(head) && !name.empty();
  if (is_shared_memory()) {  // becomes the name of a file: one of ours, in that folder
    const auto start = std::string(shared_memory_scheme) + std::string(shared_memory_prefix);
    is_good = is_good && name.starts_with(start) && name.find('\0') == name.size() - 1 &&
              name.find('/', shared_memory_scheme.size()) == std::string::npos;
  } else {
    is_good = is_good && name.size() == raw_name().size();
  }
  if (!is_good)
    throw core::Error(core::Errc::transport,
                      "ofi: expected the address of an endpoint over " + provider_ + ", found " +
                          std::to_string(peer.size()) + " bytes that are none");
  return name;
}

std::vector<std::string> Port::shared_files(std::span<const Address> peers) const {
  std::vector<std::string> files;
  for (const Address& peer : peers)
    files.emplace_back(checked(peer).c_str() + shared_memory_scheme.size());
  return files;
}

Port::Peers Port::add(std::span<const Address> peers) {
  if (is_shared_memory() && peers.size() > shared_memory_peers)
    throw core::Error(core::Errc::unsupported, "ofi: shm reaches at most " +
                                                   std::to_string(shared_memory_peers) +
                                                   " ranks, found " + std::to_string(peers.size()) +
                                                   "; use another provider, e.g. tcp;ofi_rxm");
  Peers added;
  std::unique_lock<std::mutex> lock;  // no neighbour closes meanwhile
  if (is_shared_memory()) lock = std::unique_lock(neighbourhood().mutex);
  for (const Address& peer : peers) {
    const auto name = checked(peer);
    if (is_shared_memory() && process_of(name.c_str() + shared_memory_scheme.size()) == getpid())
      added.neighbours.push_back(neighbour(name));
    if (fi_av_insert(addresses_.get(), name.data(), 1, &added.addresses.emplace_back(), 0,
                     nullptr) != 1)
      throw core::Error(core::Errc::transport, "ofi: " + provider_ +
                                                   " cannot use the address of rank " +
                                                   std::to_string(added.addresses.size() - 1));
  }
  return added;
}

}  // namespace tremula::transport::ofi
