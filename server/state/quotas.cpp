// SPDX-License-Identifier: Apache-2.0
#include "server/state/quotas.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.hpp"

namespace tremula::server {

namespace {
// Connections that sessions may not use, reserved for strangers such as `tremula status`.
constexpr std::size_t most_kept_free = 64;
constexpr std::size_t enough_hosts = 1000;  // beyond this, hosts without connections are forgotten
}  // namespace

Quotas::Quotas(const Limits& limits) : limits_(limits) {
  if (limits_.connections_per_host == 0)
    limits_.connections_per_host = std::max<std::size_t>(1, limits_.connections * 3 / 4);
}

std::size_t Quotas::max_sessions() const {
  return limits_.connections - std::min(most_kept_free, limits_.connections / 4 + 1);
}

void Quotas::add(ConnectionId id, const std::string& host, double now) {
  if (hosts_.size() > enough_hosts)
    std::erase_if(hosts_, [&](const auto& entry) {
      const Host& old = entry.second;
      return old.strangers + old.sessions == 0 && now - old.since > log_burst / log_rate;
    });
  auto& entry = *hosts_.try_emplace(host).first;
  all_.emplace(id, Connection{.host = &entry, .last_active = now});
  ++entry.second.strangers;
}

void Quotas::remove(ConnectionId id) {
  const auto it = all_.find(id);
  if (it == all_.end()) return;
  const Connection& gone = it->second;
  Host& host = gone.host->second;
  --(gone.is_session ? host.sessions : host.strangers);
  if (gone.is_session) --sessions_;
  buffered_ -= gone.buffered;
  all_.erase(it);
}

void Quotas::record_spoken(ConnectionId id, double now) {
  Connection& connection = all_.at(id);
  connection.has_spoken = true;
  connection.last_active = now;
}

void Quotas::check_may_join(ConnectionId id) const {
  const Connection& connection = all_.at(id);
  if (sessions_ >= max_sessions())
    throw core::Error(
        core::Errc::refused,
        fmt::format("the server has {} sessions, as many as it can hold with room for {} "
                    "connections; raise its limit on open files ('ulimit -n') and restart it",
                    sessions_, limits_.connections));
  if (const auto& [name, host] = *connection.host; host.sessions >= limits_.connections_per_host)
    throw core::Error(
        core::Errc::refused,
        fmt::format("host {} has {} sessions at the server, expected at most {}; give 'tremula "
                    "serve' a larger --connections-per-host, or end some of these sessions",
                    name, host.sessions, limits_.connections_per_host));
}

void Quotas::join(ConnectionId id) {
  const auto it = all_.find(id);
  if (it == all_.end() || it->second.is_session) return;
  it->second.is_session = true;
  Host& host = it->second.host->second;
  --host.strangers, ++host.sessions, ++sessions_;
}

void Quotas::buffer(ConnectionId id, std::ptrdiff_t change) {
  const auto it = all_.find(id);
  if (it == all_.end()) return;
  it->second.buffered += static_cast<std::size_t>(change);  // modulo 2^64, so it may shrink
  buffered_ += static_cast<std::size_t>(change);
}

bool Quotas::may_log(ConnectionId id, double now) {
  const auto it = all_.find(id);
  if (it == all_.end()) return true;
  Host& host = it->second.host->second;
  host.lines = std::min(log_burst, host.lines + log_rate * (now - host.since));
  host.since = now;
  if (host.lines >= 1) {
    host.lines -= 1;
    return true;
  }
  ++lines_left_out_;
  return false;
}

std::optional<ConnectionId> Quotas::find_surplus() const {
  if (all_.size() <= limits_.connections) return std::nullopt;
  std::size_t most = 0;
  for (const auto& [name, host] : hosts_) most = std::max(most, host.strangers);
  std::optional<ConnectionId> oldest;
  for (const auto& [id, connection] : all_)
    if (!connection.is_session && connection.host->second.strangers == most &&
        (!oldest || connection.last_active < all_.at(*oldest).last_active ||
         (connection.last_active == all_.at(*oldest).last_active && id < *oldest)))
      oldest = id;
  return oldest;
}

std::optional<ConnectionId> Quotas::find_heaviest() const {
  if (buffered_ <= limits_.buffered_bytes) return std::nullopt;
  std::size_t of_strangers = 0;
  for (const auto& [id, connection] : all_)
    if (!connection.is_session) of_strangers += connection.buffered;
  const bool is_session = of_strangers <= buffered_ / 2;
  std::optional<ConnectionId> heaviest;
  for (const auto& [id, connection] : all_) {
    if (connection.is_session != is_session) continue;
    const std::size_t most = heaviest ? all_.at(*heaviest).buffered : 0;
    if (connection.buffered > most || (connection.buffered == most && id < heaviest.value_or(0)))
      heaviest = id;
  }
  return heaviest;
}

}  // namespace tremula::server
