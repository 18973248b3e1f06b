// SPDX-License-Identifier: Apache-2.0
// The part of Rendezvous for streams whose layouts are declared again between two steps. Links stay, and are set up
// anew:
//
//     RedeclareLink by a consumer     its producer gets it, and takes it up with its next step
//     Redeclare by the producer       each consumer that this concerns gets Redeclared
//     LinkAddresses of both sides     as when the link was opened
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "server/rendezvous/rendezvous.hpp"

namespace tremula::server {

using core::Errc, core::Error;

namespace {
/// @param what  was declared again, for people
void check_same_but_for_layouts(const std::string& what, std::span<const proto::Field> before,
                                std::span<const proto::Field> now) {
  const auto refuse = [&](const std::string& expected, const std::string& found) {
    throw Error(Errc::refused, fmt::format("{}: expected {}; found {}", what, expected, found));
  };
  if (now.size() != before.size())
    refuse(fmt::format("its {} fields", before.size()), fmt::format("{}", now.size()));
  for (std::size_t f = 0; f < now.size(); ++f) {
    const proto::Field &was = before[f], &is = now[f];
    if (is.name != was.name || is.type != was.type)
      refuse(fmt::format("field '{}' of type {}", was.name, core::to_string(was.type)),
             fmt::format("field '{}' of type {}", is.name, core::to_string(is.type)));
    if (proto::is_part(was) || proto::is_part(is))
      refuse(fmt::format("field '{}' of an array that one group produces", was.name),
             "a part of one that several groups produce");
    if (is.origin != was.origin)
      refuse(fmt::format("the part of field '{}' at its previous origin", was.name),
             "a different one");
    if (shape(is.layout) != shape(was.layout) ||
        changing_dimension(is.layout) != changing_dimension(was.layout))
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
  const bool is_of_stream = message.fields_size() > 0;
  std::vector<proto::Field> fields =
      is_of_stream ? proto::decode(message.fields()) : stream->fields;
  if (is_of_stream) {
    check_same_but_for_layouts(fmt::format("Redeclare of stream '{}'", stream->name),
                               stream->fields, fields);
    proto::check_fits_group(fields, group.size, stream->name, group.name);
  }
  std::vector<Again> again = links_again(*stream, group, fields, message);
  if (is_of_stream) {
    Hold held = hold(group, memory_bytes(fields, message.fields()) + stream->attributes.size() +
                                memory_bytes(stream->offers));
    stream->fields = std::move(fields);
    stream->announced = message.fields();
    stream->held = std::move(held);
  }
  reply(call).mutable_done();
  log(fmt::format("stream_redeclared stream={} producer={} is_of_stream={} links={}", stream->name,
                  group.name, is_of_stream, again.size()));
  for (auto& [link, held] : again) {
    link->has_producer_told = link->has_consumer_told = false;
    ++link->again;
    if (!is_of_stream) {
      link->fields = message.link().fields();
      link->held = std::move(held);
      link->number = message.link().number();
    }
    if (const Group* const consumer = other_side(*link, group)) tell_redeclared(*link, *consumer);
  }
}

void Rendezvous::tell_redeclared(const Link& link, const Group& consumer) {
  wire::ToClient notice;
  auto& redeclared = *notice.mutable_redeclared();
  redeclared.set_link(link.id);
  *redeclared.mutable_fields() = in_order_of(link.fields, streams_.at(link.stream).announced);
  redeclared.set_number(link.number);
  redeclared.set_again(link.again);
  notify_rank_0(consumer, std::move(notice));
}

void Rendezvous::tell_again(Link& link, const Group& producer, const Group& consumer,
                            const std::optional<wire::LinkAddresses>& by_consumer) {
  if (link.again == 0) return;
  tell_redeclared(link, consumer);
  wire::ToClient notice;
  if (const auto by_producer = std::exchange(link.told, std::nullopt)) {
    *notice.mutable_link_addresses() = *by_producer;
    notify_rank_0(consumer, notice);
    link.told_held = Hold();
  }
  if (!by_consumer || by_consumer->again() != link.again) return;
  link.has_consumer_told = true;
  *notice.mutable_link_addresses() = *by_consumer;
  notify_rank_0(producer, std::move(notice));
}

std::vector<Rendezvous::Again> Rendezvous::links_again(const Stream& stream, const Group& producer,
                                                       std::span<const proto::Field> fields,
                                                       const wire::Redeclare& message) {
  std::vector<Again> again;
  for (const LinkId id : stream.links) {  // it may have been closed
    const bool keeps_layouts = !message.has_link();
    if (!keeps_layouts && message.link().link() != id) continue;
    Link& link = links_.at(id);
    const bool is_done = link.again == message.again() && link.number == message.link().number();
    if (!keeps_layouts && is_done) continue;  // a producer that did not get the answer in time
    if (!keeps_layouts && message.again() != link.again + 1)
      throw Error(Errc::refused,
                  fmt::format("Redeclare of stream '{}': expected link {} to be set up anew for "
                              "the {}th time, found for the {}th",
                              stream.name, id, link.again + 1, message.again()));
    if (!link.is_answered)
      throw Error(Errc::refused,
                  fmt::format("Redeclare of stream '{}': expected a producer that has answered all "
                              "of its links; found that link {} waits for it",
                              stream.name, id));
    if (link.is_missed)
      throw Error(Errc::refused,
                  fmt::format("Redeclare of stream '{}': expected all consumers to have returned "
                              "to this restarted server; found that group '{}' has not yet: try "
                              "again in a moment",
                              stream.name, link.consumer));
    const auto& wanted = keeps_layouts ? link.fields : message.link().fields();
    const std::vector<proto::Field> of_consumer = proto::decode(wanted);
    if (!keeps_layouts) check_redeclared(link, of_consumer);
    // What an earlier server has matched is known from the groups alone.
    proto::check_compatible(of_consumer, fields, stream.name, link.consumer, producer.name);
    again.push_back(
        {&link, keeps_layouts ? Hold() : hold(producer, memory_bytes(of_consumer, wanted))});
  }
  return again;
}

void Rendezvous::redeclare_link(const Call& call, const wire::RedeclareLink& message) {
  const Group& group = *rank_0_of(call, "RedeclareLink").group;
  const Link* const link = link_of(group, message.link());
  if (link == nullptr && awaited_.contains(message.link()))
    throw Error(Errc::refused,
                fmt::format("RedeclareLink of link {}: expected a producer that has returned to "
                            "this restarted server; found that it has not yet: try "
                            "again in a moment",
                            message.link()));
  if (link == nullptr) throw error_of_gone_link(group, message.link());
  const Stream& stream = streams_.at(link->stream);
  if (!is_consumed_by(*link, group))
    throw Error(Errc::refused,
                fmt::format("RedeclareLink of link {}: expected its consumer '{}'; found group "
                            "'{}', its producer",
                            link->id, link->consumer, group.name));
  if (stream.is_state || stream.is_part())
    throw Error(Errc::unsupported,
                fmt::format("stream '{}': expected redeclare on a stream of steps that one group "
                            "produces; found {}",
                            stream.name, stream.is_state ? "a state" : "one of several groups"));
  const std::vector<proto::Field> fields = proto::decode(message.fields());
  check_redeclared(*link, fields);
  proto::check_compatible(fields, stream.fields, stream.name, group.name, stream.producer);
  reply(call).mutable_done();
  pass_on(*link, message);
}

void Rendezvous::check_redeclared(const Link& link, std::span<const proto::Field> fields) {
  const std::string& stream = streams_.at(link.stream).name;
  check_same_but_for_layouts(
      fmt::format("Redeclare of group '{}' for stream '{}'", link.consumer, stream),
      proto::decode(link.fields), fields);
  if (const Group* const consumer = groups_.find(link.consumer))
    proto::check_fits_group(fields, consumer->size, stream, link.consumer);
}

void Rendezvous::pass_on(const Link& link, const wire::RedeclareLink& message) {
  const Stream& stream = streams_.at(link.stream);
  const Group* const producer = stream.producer_gone ? nullptr : groups_.find(stream.producer);
  if (producer == nullptr) return;
  wire::ToClient notice;
  *notice.mutable_redeclare_link() = message;
  notify_rank_0(*producer, std::move(notice));
}

}  // namespace tremula::server
