// SPDX-License-Identifier: Apache-2.0
#include "server/state/seals.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>

namespace tremula::server {

namespace {
transport::Seal seal(const core::Key& key, const Group& group, const wire::Matched& link,
                     bool is_producer) {
  const std::string text = fmt::format(
      "{}/{}/{}/{}/{}{}{}", link.link(), is_producer ? "producer" : "consumer",
      link.stream().size(), group.name.size(), link.stream(), group.name, link.peer_group());
  return transport::seal(key, "tremula link 1: ", std::as_bytes(std::span(text)));
}
}  // namespace

std::string seal_of_link(const transport::ServerExchange::Keys& keys, const Group& group,
                         const wire::Matched& link, bool is_producer) {
  if (!keys || keys->size() < 2) return {};
  // Takes the key with the smallest bytes: it stays the maker when keys change places in the file.
  std::optional<std::size_t> maker;
  for (std::size_t i = 0; i < keys->size(); ++i) {
    if (i == group.owner) continue;
    if (!maker || std::ranges::lexicographical_compare((*keys)[i].bytes(), (*keys)[*maker].bytes()))
      maker = i;
  }
  const auto made = seal((*keys)[*maker], group, link, is_producer);
  return {reinterpret_cast<const char*>(made.data()), made.size()};
}

bool has_seal(const transport::ServerExchange::Keys& keys, const Group& group,
              const wire::Matched& link, bool is_producer) {
  if (!keys || link.seal().empty()) return false;
  const auto shown = std::as_bytes(std::span(link.seal()));
  for (std::size_t i = 0; i < keys->size(); ++i)
    if (i != group.owner && transport::is_same(shown, seal((*keys)[i], group, link, is_producer)))
      return true;
  return false;
}

}  // namespace tremula::server
