// SPDX-License-Identifier: Apache-2.0
#include "proto/offers.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace tremula::proto {

namespace {

constexpr std::string_view memory = "local", hybrid = "local+", libfabric = "ofi", sockets = "tcp";

using Ways = std::vector<std::string_view>;
bool has(const Ways& ways, std::string_view way) {
  return std::ranges::find(ways, way) != ways.end();
}

/// Returns "local" and the wires of one side, each once, best first.
Ways ways_of(const Offering& side) {
  Ways found;
  const auto add = [&](std::string_view way) {
    if (!has(found, way)) found.push_back(way);
  };
  for (const std::string_view offer : side.offers) {
    std::string_view way = short_offer(offer);
    if (way.starts_with(hybrid)) {
      add(memory);
      way.remove_prefix(hybrid.size());
    }
    add(way);
  }
  return found;
}

bool is_network(std::string_view way) {
  return way.starts_with(libfabric) || way.starts_with(sockets);
}

/// Returns whether a side offers a wire only on loopback, so that ranks on other hosts cannot use
/// it.
bool is_on_loopback(const Offering& side, std::string_view way) {
  return is_network(way) && std::ranges::none_of(side.offers, [&](std::string_view offer) {
           if (offer.starts_with(hybrid)) offer.remove_prefix(hybrid.size());
           return offer == way;
         });
}

std::string joined(const std::vector<std::string>& texts, std::string_view between) {
  return fmt::format("{}", fmt::join(texts, between));
}

/// Returns the wires of one side, e.g. "local, ofi:tcp;ofi_rxm (loopback only)".
std::string listed(const Offering& side) {
  std::vector<std::string> texts;
  for (const std::string_view way : ways_of(side))
    texts.push_back(fmt::format("{}{}", way, is_on_loopback(side, way) ? " (loopback only)" : ""));
  return joined(texts, ", ");
}

/// Returns why a wire that both sides have cannot connect them.
std::string why_not(std::string_view way, const Offering& a, const Offering& b) {
  if (way == memory && a.host != b.host)
    return fmt::format("they are on different hosts, '{}' and '{}'", a.host, b.host);
  if (way == memory)
    return fmt::format(
        "on host '{}' they are different users, in different containers, or versions of Tremula "
        "that do not share memory",
        a.host);
  if (!is_network(way)) return "they have different ompi-servers";
  std::vector<std::string> bound;
  for (const Offering* side : {&a, &b})
    if (is_on_loopback(*side, way)) bound.push_back(side->name);
  return fmt::format("{} only on loopback",
                     joined(bound, " and ") + (bound.size() > 1 ? " listen" : " listens"));
}

/// Returns what the user has to set so that the sides can be connected.
std::string remedy(const std::array<const Offering*, 2>& sides, const std::array<Ways, 2>& ways) {
  std::vector<std::string> texts;
  const auto is_common_wire = [&](std::string_view way) {
    return way != memory && has(ways[0], way) && has(ways[1], way);
  };
  for (const Offering* side : sides)
    if (std::ranges::any_of(ways[0], [&](std::string_view way) {
          return is_common_wire(way) && is_on_loopback(*side, way);
        }))
      texts.push_back(fmt::format(
          "set ofi_bind (TREMULA_OFI_BIND) of {} to the interface or address by which other "
          "hosts reach '{}', e.g. eth0, or give it the address at which other hosts reach the "
          "server",
          side->name, side->host));
  if (!texts.empty()) return joined(texts, "; ");
  if (std::ranges::any_of(ways[0], is_common_wire))
    return "give both the same ompi-server (`mpirun --ompi-server`)";
  const auto over_libfabric = [](std::string_view way) { return way.starts_with(libfabric); };
  if (std::ranges::any_of(ways[0], over_libfabric) && std::ranges::any_of(ways[1], over_libfabric))
    return "set ofi_provider (TREMULA_OFI_PROVIDER) of both to one that both have, e.g. "
           "tcp;ofi_rxm";
  return "set transport (TREMULA_TRANSPORT) of both to one that both have; auto takes any that is "
         "available";
}

}  // namespace

std::string_view short_offer(std::string_view offer) { return offer.substr(0, offer.find('@')); }

std::string short_offers(std::span<const std::string> offers) {
  std::vector<std::string> shown;
  for (const std::string_view offer : offers)
    if (std::string text(short_offer(offer)); std::ranges::find(shown, text) == shown.end())
      shown.push_back(std::move(text));
  return joined(shown, ", ");
}

std::string why_none_matches(const Offering& one, const Offering& other) {
  const std::array sides{&one, &other};
  const std::array ways{ways_of(one), ways_of(other)};
  std::vector<std::string> reasons;
  for (std::size_t i = 0; i < sides.size(); ++i)
    for (const std::string_view way : ways[i])
      if (!has(ways[1 - i], way))
        reasons.push_back(fmt::format("{}: only {} has it", way, sides[i]->name));
      else if (i == 0)
        reasons.push_back(fmt::format("{}: {}", way, why_not(way, one, other)));
  return fmt::format(
      "{} offers the transports {}, {} offers {}, and no transport connects the two ({}); {}",
      one.name, listed(one), other.name, listed(other), joined(reasons, "; "), remedy(sides, ways));
}

}  // namespace tremula::proto
