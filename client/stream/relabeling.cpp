// SPDX-License-Identifier: Apache-2.0
#include "client/stream/relabeling.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "client/stream/link_plan.hpp"
#include "core/error.hpp"

namespace tremula::client {

using index_calc::Method, index_calc::Places, index_calc::Relabeling, index_calc::Transfer;

namespace {

/// Numbers for the hosts of either side.
Places places_of(const wire::Described& producer, std::span<const std::string> consumers) {
  std::map<std::string_view, Rank> numbers;
  for (const std::string& host : producer.hosts())
    numbers.emplace(host, static_cast<Rank>(numbers.size()));
  Places places{.producers = {producer.host_of_rank().begin(), producer.host_of_rank().end()},
                .consumers = {}};
  for (const std::string& host : consumers)
    places.consumers.push_back(
        numbers.emplace(host, static_cast<Rank>(numbers.size())).first->second);
  return places;
}

Transfer transfer_of(Moved moved, core::ElementType type) {
  return {.from = std::move(moved.from),
          .to = std::move(moved.to),
          .element_bytes = static_cast<Index>(core::element_bytes(type))};
}

}  // namespace

Relabeling<Index> relabel(std::span<const proto::Field> wanted, const wire::Described& producer,
                          std::span<const std::string> hosts, Method method) {
  const auto offered = proto::decode(producer.fields());
  std::vector<Transfer> arrays;
  for (const proto::Field& want : wanted) {
    const auto have = std::ranges::find(offered, want.name, &proto::Field::name);
    core::expects(have != offered.end(), "relabel: expected fields that are offered");
    arrays.push_back(transfer_of({wanted_part(*have, want), want.layout}, have->type));
  }
  return index_calc::relabel(arrays, places_of(producer, hosts), method);
}

Relabeling<Index> relabel(std::span<const Update> updates, const std::vector<Rank>& places,
                          Method method) {
  const auto size = static_cast<Rank>(places.size());
  std::vector<Transfer> arrays;
  for (std::size_t i = 0; i < updates.size(); ++i) {
    const Update& update = updates[i];
    try {
      validate_for_group(update.from, size);
      validate_for_group(update.to, size);
      auto array = transfer_of(moved(update), update.transformation.from);
      validate_pair(array.from, array.to);
      if (update.transformation.alpha != 0.0) arrays.push_back(std::move(array));
    } catch (const core::Error& e) {
      if (updates.size() == 1) throw;
      throw core::Error(e.code(), fmt::format("array {}: {}", i, e.what()));
    }
  }
  return index_calc::relabel(arrays, {.producers = places, .consumers = places}, method);
}

}  // namespace tremula::client
