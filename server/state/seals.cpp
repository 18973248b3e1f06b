// SPDX-License-Identifier: Apache-2.0
#include "server/state/seals.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

namespace tremula::server {

namespace {
constexpr std::size_t fingerprint_bytes = 16;

core::BytesView bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string_view text_of(const transport::Seal& seal) {
  return {reinterpret_cast<const char*>(seal.data()), seal.size()};
}

/// Returns the number as 4 bytes, most significant first.
std::string number_of(std::uint32_t server) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(server >> shift & 0xff);
  return bytes;
}
}  // namespace

/// The text over which a seal, mark or token is made.
struct Seals::Text {
  std::string_view label;  // names its kind
  std::string text;

  static Text of_link(std::string_view label, const Group& group, const wire::Matched& link,
                      bool is_producer) {
    return {label, fmt::format("{}/{}/{}/{}/{}{}{}", link.link(),
                               is_producer ? "producer" : "consumer", link.stream().size(),
                               group.name.size(), link.stream(), group.name, link.peer_group())};
  }
  static Text of_seal(const Group& group, const wire::Matched& link, bool is_producer) {
    return of_link("tremula link 1: ", group, link, is_producer);
  }
  static Text of_mark(const Group& group, const wire::Matched& link, bool is_producer) {
    return of_link("tremula peer 1: ", group, link, is_producer);
  }
  static Text of_group(const std::string& group, std::uint64_t sealed_at) {
    return {"tremula group 1: ", fmt::format("{}/{}", sealed_at, group)};
  }
  static Text of_stream(const Group& group, const std::string& stream, std::uint64_t sealed_at) {
    return {"tremula stream 1: ",
            fmt::format("{}/{}/{}{}", sealed_at, stream.size(), stream, group.name)};
  }
  static Text of_token(const LinkInEpoch& link) {
    return {"tremula epoch 1: ",
            fmt::format("{}/{}/{}{}", link.epoch, link.stream.size(), link.stream, link.consumer)};
  }
};

std::uint64_t newer_than(std::uint64_t shown, std::uint64_t now) {
  if (shown < now) return now;
  return shown == std::numeric_limits<std::uint64_t>::max() ? shown : shown + 1;
}

Seals::Seals(Keys keys, std::uint32_t server) : keys_(std::move(keys)), server_(number_of(server)) {
  if (!keys_) return;
  for (Owner owner = 0; owner < keys_->size(); ++owner) {
    const auto whole = hmac(owner, {"tremula owner 1: ", {}});
    fingerprints_.emplace_back(text_of(whole).substr(0, fingerprint_bytes));
    owner_of_.try_emplace(fingerprints_.back(), owner);
  }
  if (!makes_seals()) return;
  // The makers are the keys with the smallest bytes, so they do not depend on the order in the file.
  std::vector<Owner> owners(fingerprints_.size());
  std::iota(owners.begin(), owners.end(), Owner{0});
  std::ranges::partial_sort(owners, owners.begin() + 2, [this](Owner one, Owner other) {
    return std::ranges::lexicographical_compare((*keys_)[one].bytes(), (*keys_)[other].bytes());
  });
  maker_ = owners[0], maker_for_that_ = owners[1];
}

transport::Seal Seals::hmac(Owner maker, const Text& text) const {
  ++hmacs_;
  return transport::seal(keys_->at(maker), text.label, bytes_of(text.text));
}

std::string Seals::made_by(Owner maker, const Text& text) const {
  return fingerprints_.at(maker) + std::string(text_of(hmac(maker, text)));
}

std::optional<Owner> Seals::maker_of(std::string_view shown, const Text& text) const {
  const auto maker = owner_of_.find(shown.substr(0, fingerprint_bytes));
  if (maker == owner_of_.end()) return std::nullopt;
  const auto seal = bytes_of(shown.substr(fingerprint_bytes));
  return transport::is_same(seal, hmac(maker->second, text)) ? std::optional(maker->second)
                                                             : std::nullopt;
}

void Seals::bind_to(Owner owner, Text& text) const { text.text.insert(0, fingerprints_.at(owner)); }

std::string Seals::seal_for(Owner owner, Text text) const {
  if (!makes_seals()) return {};
  bind_to(owner, text);
  return made_by(owner == maker_ ? maker_for_that_ : maker_, text);
}

bool Seals::is_seal_for(Owner owner, Text text, std::string_view shown) const {
  if (owner >= fingerprints_.size()) return false;
  bind_to(owner, text);
  const auto maker = maker_of(shown, text);
  return maker && *maker != owner;
}

std::string Seals::name_seal_for(Owner owner, Text text) const {
  text.text.insert(0, server_);
  const std::string seal = seal_for(owner, std::move(text));
  return seal.empty() ? seal : server_ + seal;
}

bool Seals::is_earlier_seal(Owner owner, Text text, std::string_view shown) const {
  const std::string_view number = shown.substr(0, server_.size());
  if (number.size() < server_.size() || number == server_) return false;
  text.text.insert(0, number);
  return is_seal_for(owner, std::move(text), shown.substr(number.size()));
}

std::string Seals::of_link(const Group& group, const wire::Matched& link, bool is_producer) const {
  return seal_for(group.owner, Text::of_seal(group, link, is_producer));
}

bool Seals::is_sealed(const Group& group, const wire::Matched& link, bool is_producer) const {
  return is_seal_for(group.owner, Text::of_seal(group, link, is_producer), link.seal());
}

std::string Seals::mark_of_peer(Owner peer, const Group& group, const wire::Matched& link,
                                bool is_producer) const {
  if (!makes_seals()) return {};
  return made_by(peer, Text::of_mark(group, link, is_producer));
}

std::optional<Owner> Seals::owner_of_peer(const Group& group, const wire::Matched& link,
                                          bool is_producer) const {
  return maker_of(link.peer_mark(), Text::of_mark(group, link, is_producer));
}

std::string Seals::of_group(const Group& group, std::uint64_t sealed_at) const {
  return name_seal_for(group.owner, Text::of_group(group.name, sealed_at));
}

std::uint64_t Seals::time_of(Owner owner, const wire::Hello& hello) const {
  const auto text = Text::of_group(hello.group(), hello.sealed_at());
  return is_earlier_seal(owner, text, hello.seal()) ? hello.sealed_at() : 0;
}

std::string Seals::of_stream(const Group& group, const std::string& stream,
                             std::uint64_t sealed_at) const {
  return name_seal_for(group.owner, Text::of_stream(group, stream, sealed_at));
}

std::uint64_t Seals::time_of(const Group& group, const wire::Announce& announce) const {
  const auto text = Text::of_stream(group, announce.stream(), announce.sealed_at());
  return is_earlier_seal(group.owner, text, announce.seal()) ? announce.sealed_at() : 0;
}

std::string Seals::token(Owner owner, const LinkInEpoch& link) const {
  return made_by(owner, Text::of_token(link));
}

std::optional<Owner> Seals::owner_of_token(std::string_view token, const LinkInEpoch& link) const {
  return maker_of(token, Text::of_token(link));
}

}  // namespace tremula::server
