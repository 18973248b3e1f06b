// SPDX-License-Identifier: Apache-2.0
#include "client/stream/relabeling.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "client/stream/describe.hpp"
#include "client/stream/in_stream.hpp"
#include "client/stream/link/link_plan.hpp"
#include "core/error.hpp"

namespace tremula::client {

using core::expects, index_calc::Method, index_calc::Places, index_calc::Relabeling,
    index_calc::Transfer;

namespace {

/// Numbers for the hosts of either side.
Places places_of(const wire::Described& producer, std::span<const std::string> consumers) {
  std::map<std::string_view, RankCount> numbers;
  for (const std::string& host : producer.hosts())
    numbers.emplace(host, static_cast<RankCount>(numbers.size()));
  Places places{.producers = {producer.host_of_rank().begin(), producer.host_of_rank().end()},
                .consumers = {},
                .is_one_job = false};
  for (const std::string& host : consumers)
    places.consumers.push_back(
        numbers.emplace(host, static_cast<RankCount>(numbers.size())).first->second);
  return places;
}

Transfer transfer_of(Moved moved, core::ElementType type) {
  return {.from = std::move(moved.from),
          .to = std::move(moved.to),
          .element_bytes = static_cast<Index>(core::element_bytes(type))};
}

core::Bytes bytes_of(std::span<const Rank> process) {
  const auto view = std::as_bytes(process);
  return {view.begin(), view.end()};
}
std::vector<Rank> process_from(core::BytesView bytes) {
  std::vector<Rank> process(bytes.size() / sizeof(Rank));
  std::memcpy(process.data(), bytes.data(), process.size() * sizeof(Rank));
  return process;
}

/// One after the other, of all ranks.
std::vector<std::string> hosts_of(Session& session) {
  const auto mine = std::as_bytes(std::span(session.config().host));
  std::vector<std::string> hosts;
  for (const auto& host : session.allgather({mine.begin(), mine.end()}, session.deadline()))
    hosts.emplace_back(reinterpret_cast<const char*>(host.data()), host.size());
  return hosts;
}

}  // namespace

Relabeling<Index> relabel(std::span<const proto::Field> wanted, const wire::Described& producer,
                          std::span<const std::string> hosts, Method method) {
  const auto offered = proto::decode(producer.fields());
  std::vector<Transfer> arrays;
  for (const proto::Field& want : wanted) {
    const auto have = std::ranges::find(offered, want.name, &proto::Field::name);
    expects(have != offered.end(), "relabel: expected fields that the producer offers");
    auto [from, to] = shared(*have, want);
    arrays.push_back(transfer_of({std::move(from), std::move(to)}, have->type));
  }
  return index_calc::relabel(arrays, places_of(producer, hosts), method);
}

Relabeling<Index> relabel(std::span<const Update> updates, const std::vector<RankCount>& places,
                          Method method) {
  const auto size = static_cast<RankCount>(places.size());
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
  return index_calc::relabel(arrays, {.producers = places, .consumers = places, .is_one_job = true},
                             method);
}

Rank InStream::relabel(const RelabelConfig& config) {
  expects(state_ == State::declaring && !is_introduced(), [&] {
    return fmt::format(
        "stream '{}': expected relabel before the first begin_step of any stream of the session, "
        "which announces all of them to the server; found it later",
        name());
  });
  expects(!is_relabeled_, [&] {
    return fmt::format(
        "stream '{}': expected relabel once; found it a second time: the labels have been given "
        "out",
        name());
  });
  session_.begin_call("relabel", name(), 0);
  fields_.check_alike();
  is_held_ = true;
  session_.set_up().introduce_producers();  // two jobs may relabel what they get from each other
  const auto hosts = hosts_of(session_);
  const auto deadline = session_.deadline();
  std::optional<Waiting> waiting(std::in_place, session_.control(), name(), "a producer");
  const auto process = process_from(session_.run_on_root(
      [&] {
        const auto producer = ask_for_producer(session_, name(), deadline);
        expects(producer.others().empty(), [&] {
          return fmt::format(
              "stream '{}': expected one producer group for relabel; found {}: take the parts as "
              "they are declared",
              name(), producer.others_size() + 1);
        });
        proto::check_compatible(fields_.all(), proto::decode(producer.fields()), name(),
                                session_.name(), producer.group());
        const auto found = client::relabel(fields_.all(), producer, hosts, config.method);
        session_.log().info(
            "client",
            fmt::format("relabeled stream={} producer={} bytes_between_hosts={} before={}", name(),
                        producer.group(), found.after, found.before));
        return bytes_of(found.process);
      },
      deadline));
  waiting.reset();
  DeclaredFields relabeled = fields_;
  session_.run_collectively([&] { relabeled = fields_.relabeled(process); });
  fields_ = std::move(relabeled);
  is_relabeled_ = true;
  is_held_ = false;
  const auto label = std::ranges::find(process, session_.rank()) - process.begin();
  return Rank{static_cast<std::int32_t>(label)};
}

}  // namespace tremula::client
