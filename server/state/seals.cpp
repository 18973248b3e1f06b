// SPDX-License-Identifier: Apache-2.0
#include "server/state/seals.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <utility>

namespace tremula::server {

namespace {
using Keys = transport::ServerExchange::Keys;

constexpr std::string_view peer_label = "tremula peer 1: ";

/// The text that a seal is made over.
struct Sealed {
  std::string_view label;  // label of the kind of seal
  std::string text;
  transport::Seal by(const core::Key& key) const {
    return transport::seal(key, label, std::as_bytes(std::span(text)));
  }
};

Sealed of_link(const Group& group, const wire::Matched& link, bool is_producer,
               std::string_view label = "tremula link 1: ") {
  return {label, fmt::format("{}/{}/{}/{}/{}{}{}", link.link(),
                             is_producer ? "producer" : "consumer", link.stream().size(),
                             group.name.size(), link.stream(), group.name, link.peer_group())};
}

Sealed of_group(const std::string& group, std::uint64_t sealed_at) {
  return {"tremula group 1: ", fmt::format("{}/{}", sealed_at, group)};
}

Sealed of_stream(const Group& group, const std::string& stream, std::uint64_t sealed_at) {
  return {"tremula stream 1: ",
          fmt::format("{}/{}/{}{}", sealed_at, stream.size(), stream, group.name)};
}

/// Puts in front what identifies the key of the owner, wherever it stands in the file.
void name_owner(const core::Key& key, Sealed& sealed) {
  constexpr std::size_t name_bytes = 16;
  const auto name = transport::seal(key, "tremula owner 1: ", {});
  sealed.text.insert(0, reinterpret_cast<const char*>(name.data()), name_bytes);
}

std::string seal_for(const Keys& keys, Owner owner, Sealed sealed) {
  if (!keys || keys->size() < 2) return {};
  name_owner(keys->at(owner), sealed);
  // Takes the key with the smallest bytes: it stays the maker when keys change places in the file.
  std::optional<std::size_t> maker;
  for (std::size_t i = 0; i < keys->size(); ++i) {
    if (i == owner) continue;
    if (!maker || std::ranges::lexicographical_compare((*keys)[i].bytes(), (*keys)[*maker].bytes()))
      maker = i;
  }
  const auto made = sealed.by((*keys)[*maker]);
  return {reinterpret_cast<const char*>(made.data()), made.size()};
}

bool is_seal(const Keys& keys, Owner owner, Sealed sealed, std::string_view seal) {
  if (!keys || seal.empty() || owner >= keys->size()) return false;
  name_owner((*keys)[owner], sealed);
  const auto shown = std::as_bytes(std::span(seal));
  for (std::size_t i = 0; i < keys->size(); ++i)
    if (i != owner && transport::is_same(shown, sealed.by((*keys)[i]))) return true;
  return false;
}

std::string bytes_of(std::uint32_t server) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(server >> shift & 0xff);
  return bytes;
}

/// Returns the number of the server that makes it, and the seal of that and the name.
std::string seal_for_name(const Keys& keys, std::uint32_t server, Owner owner, Sealed sealed) {
  const std::string number = bytes_of(server);
  sealed.text.insert(0, number);
  const std::string seal = seal_for(keys, owner, std::move(sealed));
  return seal.empty() ? seal : number + seal;
}

/// Returns whether another server has made the seal of the name.
bool is_earlier_seal(const Keys& keys, std::uint32_t server, Owner owner, Sealed sealed,
                     std::string_view seal) {
  const std::string own = bytes_of(server);
  const std::string_view number = seal.substr(0, own.size());
  if (number.size() < own.size() || number == own) return false;
  sealed.text.insert(0, number);
  return is_seal(keys, owner, std::move(sealed), seal.substr(number.size()));
}
}  // namespace

std::uint64_t newer_than(std::uint64_t shown, std::uint64_t now) {
  if (shown < now) return now;
  return shown == std::numeric_limits<std::uint64_t>::max() ? shown : shown + 1;
}

std::string seal_of_link(const Keys& keys, const Group& group, const wire::Matched& link,
                         bool is_producer) {
  return seal_for(keys, group.owner, of_link(group, link, is_producer));
}

bool has_seal(const Keys& keys, const Group& group, const wire::Matched& link, bool is_producer) {
  return is_seal(keys, group.owner, of_link(group, link, is_producer), link.seal());
}

std::string mark_of_peer(const Keys& keys, Owner peer, const Group& group,
                         const wire::Matched& link, bool is_producer) {
  if (!keys || keys->size() < 2) return {};
  const auto made = of_link(group, link, is_producer, peer_label).by(keys->at(peer));
  return {reinterpret_cast<const char*>(made.data()), made.size()};
}

std::optional<Owner> owner_of_peer(const Keys& keys, const Group& group, const wire::Matched& link,
                                   bool is_producer) {
  if (!keys || link.peer_mark().empty()) return std::nullopt;
  const auto shown = std::as_bytes(std::span(link.peer_mark()));
  const Sealed marked = of_link(group, link, is_producer, peer_label);
  const auto is_by = [&](const core::Key& key) {
    return transport::is_same(shown, marked.by(key));
  };
  if (group.owner < keys->size() && is_by((*keys)[group.owner])) return group.owner;  // most are
  const auto key = std::ranges::find_if(*keys, is_by);
  if (key == keys->end()) return std::nullopt;
  return static_cast<Owner>(key - keys->begin());
}

std::string seal_of_group(const Keys& keys, std::uint32_t server, const Group& group,
                          std::uint64_t sealed_at) {
  return seal_for_name(keys, server, group.owner, of_group(group.name, sealed_at));
}

std::uint64_t time_of_seal(const Keys& keys, std::uint32_t server, Owner owner,
                           const wire::Hello& hello) {
  Sealed sealed = of_group(hello.group(), hello.sealed_at());
  const bool is_valid = is_earlier_seal(keys, server, owner, std::move(sealed), hello.seal());
  return is_valid ? hello.sealed_at() : 0;
}

std::string seal_of_stream(const Keys& keys, std::uint32_t server, const Group& group,
                           const std::string& stream, std::uint64_t sealed_at) {
  return seal_for_name(keys, server, group.owner, of_stream(group, stream, sealed_at));
}

std::uint64_t time_of_seal(const Keys& keys, std::uint32_t server, const Group& group,
                           const wire::Announce& announce) {
  Sealed sealed = of_stream(group, announce.stream(), announce.sealed_at());
  const bool is_valid =
      is_earlier_seal(keys, server, group.owner, std::move(sealed), announce.seal());
  return is_valid ? announce.sealed_at() : 0;
}

}  // namespace tremula::server
