// SPDX-License-Identifier: Apache-2.0
#include "client/stream/describe.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>

#include "client/stream/link/link.hpp"
#include "proto/attributes.hpp"
#include "proto/parts.hpp"

namespace tremula::client {

using core::Errc, core::Error;

namespace {

/// What the server has told instead of a whole producer: Streams, or a Described.
std::string shown(const wire::ToClient& found) {
  const auto& names = found.streams().names();
  const auto& producer = found.described();
  return !producer.missing().empty() ? producer.missing()
         : found.has_described()
             ? fmt::format("group '{}', with only {} of {} ranks connected", producer.group(),
                           producer.connected(), producer.size())
         : names.empty() ? "no stream at this server"
                         : fmt::format("only '{}'", fmt::join(names, "', '"));
}

/// Groups may declare the same fields in different orders.
std::vector<proto::Field> in_order_of(std::span<const proto::Field> first,
                                      std::vector<proto::Field> fields) {
  std::map<std::string_view, std::size_t> place;
  for (const proto::Field& field : first) place.emplace(field.name, place.size());
  const auto is_known = [&](const proto::Field& field) { return place.contains(field.name); };
  if (fields.size() != first.size() || !std::ranges::all_of(fields, is_known))
    throw Error(Errc::protocol,
                fmt::format("server: expected all groups to offer parts of the same fields; found "
                            "{} of the first group and {} of another one, or fields of other names",
                            first.size(), fields.size()));
  std::ranges::sort(fields, {}, [&](const proto::Field& field) { return place.at(field.name); });
  return fields;
}

}  // namespace

Error no_producer(const std::string& stream, const std::string& found, double seconds) {
  return Error(Errc::timed_out,
               fmt::format("stream '{}': expected a producer to offer it within {:.3g} s; found "
                           "{}; start the producer, check the name, or wait longer (timeout)",
                           stream, seconds, found.empty() ? "none" : found));
}

wire::Described ask_for_producer(Session& session, const std::string& stream,
                                 core::Deadline deadline) {
  const double seconds = deadline.remaining();
  wire::ToServer message;
  message.mutable_describe()->set_stream(stream);
  for (double pause = 0.005;; pause = std::min(2 * pause, 0.25)) {
    const auto reply =
        session.control().call(message, core::Deadline::after(std::max(1.0, deadline.remaining())));
    const auto& producer = reply.described();
    if (reply.has_described() && producer.connected() == producer.size() &&
        producer.missing().empty())
      return producer;
    if (deadline.expired()) throw no_producer(stream, shown(reply), seconds);
    session.waits_for([] { return false; },
                      core::Deadline::after(std::min(pause, deadline.remaining() + 0.001)));
  }
}

Description describe(Session& session, const std::string& stream, core::Deadline deadline) {
  session.begin_call("describe", stream, 0);
  session.set_up().introduce_producers();  // two jobs may ask for what they get from each other
  const auto told = from_bytes<wire::Described>(session.run_on_root(
      [&] { return to_bytes(ask_for_producer(session, stream, deadline)); }, deadline));
  const auto attributes = proto::bytes_of(told.attributes());
  Description found{.producer = told.group(),
                    .ranks = told.size(),
                    .queue_depth = told.queue_depth(),
                    .attributes = {attributes.begin(), attributes.end()},
                    .fields = proto::decode(told.fields()),
                    .parts = {}};
  if (!told.others().empty()) found.parts.push_back({told.group(), found.fields});
  for (const auto& other : told.others()) {
    found.producer += ", " + other.group();
    if (__builtin_add_overflow(found.ranks, other.size(), &found.ranks))
      throw Error(
          Errc::protocol,
          fmt::format("server: expected all groups that produce stream '{}' to have at most "
                      "{} ranks; found more",
                      stream, std::numeric_limits<core::RankCount>::max()));
    found.parts.push_back(
        {other.group(), in_order_of(found.fields, proto::decode(other.fields()))});
  }
  for (proto::Field& field : found.fields) {
    if (!proto::is_part(field)) continue;
    const std::vector<Index> ones(field.whole.size(), 1);
    field.layout = index_calc::Layout::parse(
        fmt::format("shape={} grid={}", fmt::join(field.whole, "x"), fmt::join(ones, "x")));
    field.origin = field.whole = {};
  }
  return found;
}

}  // namespace tremula::client
