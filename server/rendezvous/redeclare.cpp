// SPDX-License-Identifier: Apache-2.0
// The part of Rendezvous for streams whose producer declares its layouts again between two steps. Links stay, and are
// set up anew:
//
//     Redeclare by the producer       each of its consumers gets Redeclared
//     LinkAddresses of both sides     as when the link was opened
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "server/rendezvous/rendezvous.hpp"

namespace tremula::server {

using core::Errc, core::Error;

namespace {
void check_same_but_for_layouts(const std::string& stream, std::span<const proto::Field> before,
                                std::span<const proto::Field> now) {
  const auto refuse = [&](const std::string& expected, const std::string& found) {
    throw Error(Errc::refused, fmt::format("Redeclare of stream '{}': expected {}; found {}",
                                           stream, expected, found));
  };
  if (now.size() != before.size())
    refuse(fmt::format("its {} fields", before.size()), fmt::format("{}", now.size()));
  for (std::size_t f = 0; f < now.size(); ++f) {
    const proto::Field &was = before[f], &is = now[f];
    if (is.name != was.name || is.type != was.type)
      refuse(fmt::format("field '{}' of type {}", was.name, core::to_string(was.type)),
             fmt::format("field '{}' of type {}", is.name, core::to_string(is.type)));
    if (shape(is.layout) != shape(was.layout) ||
        is.layout.changing.has_value() != was.layout.changing.has_value() || proto::is_part(is))
      refuse(fmt::format("field '{}' with the shape of \"{}\"", was.name, to_string(was.layout)),
             fmt::format("\"{}\"", to_string(is.layout)));
  }
}
}  // namespace

void Rendezvous::redeclare(const Call& call, const wire::Redeclare& message) {
  const Group& group = *rank_0_of(call, "Redeclare").group;
  Stream* const stream = open_stream(message.stream(), group);
  if (stream == nullptr)
    throw Error(
        Errc::refused,
        fmt::format("Redeclare: expected a stream that group '{}' has announced; found '{}'",
                    group.name, message.stream()));
  std::vector<proto::Field> fields = proto::decode(message.fields());
  check_same_but_for_layouts(stream->name, stream->fields, fields);
  proto::check_fits_group(fields, group.size, stream->name, group.name);
  for (const LinkId id : stream->links) {
    const Link& link = links_.at(id);
    if (!link.is_answered)
      throw Error(Errc::refused,
                  fmt::format("Redeclare of stream '{}': expected a producer that has answered all "
                              "of its links; found that link {} waits for it",
                              stream->name, id));
    if (link.is_missed)
      throw Error(
          Errc::refused,
          fmt::format("Redeclare of stream '{}': expected consumers that have come back to this "
                      "server, which was started again; found that group '{}' has not yet: try "
                      "again in a moment",
                      stream->name, link.consumer));
    // What an earlier server has matched is known from the groups alone.
    proto::check_compatible(proto::decode(link.fields), fields, stream->name, link.consumer,
                            group.name);
  }
  Hold held = hold(group, memory_bytes(fields, message.fields()) + stream->attributes.size());
  stream->fields = std::move(fields);
  stream->announced = message.fields();
  stream->held = std::move(held);
  reply(call).mutable_done();
  log(fmt::format("stream_redeclared stream={} producer={} links={}", stream->name, group.name,
                  stream->links.size()));
  for (const LinkId id : stream->links) {
    Link& link = links_.at(id);
    link.has_producer_told = link.has_consumer_told = false;
    const Group* const consumer = other_side(link, group);
    if (consumer == nullptr) continue;
    wire::ToClient notice;
    notice.mutable_redeclared()->set_link(id);
    *notice.mutable_redeclared()->mutable_fields() = in_order_of(link.fields, stream->announced);
    notify_rank_0(*consumer, std::move(notice));
  }
}

}  // namespace tremula::server
