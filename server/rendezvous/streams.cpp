// SPDX-License-Identifier: Apache-2.0
// The part of Rendezvous for streams by themselves: announced, shown, given up, closed.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "core/error.hpp"
#include "core/name.hpp"
#include "server/rendezvous/rendezvous.hpp"

namespace tremula::server {

using core::Errc, core::Error;

std::size_t Rendezvous::memory_bytes(std::span<const proto::Field> fields,
                                     const proto::WireFields& wire) {
  constexpr std::size_t beside_fields = 2048;
  std::size_t bytes = beside_fields + wire.SpaceUsedExcludingSelfLong();
  for (const proto::Field& field : fields)
    bytes += sizeof field + field.name.size() + index_calc::memory_bytes(field.layout) +
             (field.origin.size() + field.whole.size()) * sizeof(core::Index) +
             field.attributes.size();
  return bytes;
}

std::size_t Rendezvous::memory_bytes(std::span<const std::string> offers) {
  constexpr std::size_t beside_text = 96;  // a string and a node of a set
  std::size_t bytes = 0;
  for (const std::string& offer : offers) bytes += 2 * offer.size() + beside_text;
  return bytes;
}

std::string Rendezvous::producer_as_seen_by(const Group& group, const Stream& stream) {
  return stream.is_readable_by(group.owner) ? fmt::format("group '{}'", stream.producer)
                                            : "a group with a different key";
}

Rendezvous::Stream& Rendezvous::add_stream(const Group& group, const wire::Announce& message,
                                           double now, bool is_back) {
  std::vector<proto::Field> fields = proto::decode(message.fields());
  check_announced(group, message, fields, is_back);
  proto::check_fits_group(fields, group.size, message.stream(), group.name);

  Hold held = hold(group, memory_bytes(fields, message.fields()) + message.attributes().size() +
                              memory_bytes(texts(message.offers())));
  // What was announced before is no new epoch: its links and those that wait for it know. A copy has that
  // of its original.
  const std::uint64_t epoch = is_back || message.is_copy() ? 0 : next_epoch(message.stream());
  const StreamId id = ++last_stream_;
  named_[message.stream()].push_back(id);
  Stream& stream = streams_
                       .emplace(id, Stream{.id = id,
                                           .name = message.stream(),
                                           .producer = group.name,
                                           .fields = std::move(fields),
                                           .announced = message.fields(),
                                           .attributes = message.attributes(),
                                           .offers = texts(message.offers()),
                                           .choosing = choosing(message.offers()),
                                           .queue_depth = message.queue_depth(),
                                           .is_proved = message.is_proved(),
                                           .when_full = message.when_full(),
                                           .queue_bytes = message.queue_bytes(),
                                           .keep_steps = message.keep_steps(),
                                           .is_state = message.is_state(),
                                           .readers_serve = message.readers_serve(),
                                           .is_copy = message.is_copy(),
                                           .owner = group.owner,
                                           .is_readable_by_all = message.readable_by_all(),
                                           .produced = Account(group.size, now),
                                           .incarnation = message.incarnation(),
                                           .number = message.number(),
                                           .epoch = epoch,
                                           .held = std::move(held),
                                           .links = {}})
                       .first->second;
  log(fmt::format("stream_announced stream={} producer={} fields={}", stream.name, group.name,
                  stream.fields.size()));
  if (!stream.is_part()) return stream;
  const auto parts = offered(stream.name);
  const bool is_covered =
      describe_gaps(std::vector<const Stream*>(parts.begin(), parts.end())).empty();
  for (Stream* const part : parts) part->is_covered = is_covered;
  return stream;
}

void Rendezvous::announce(const Call& call, const wire::Announce& message) {
  const Group& group = whole_group_of(call, "Announce");
  const Stream& stream = add_stream(group, message, call.now, false);
  *reply(call).mutable_done() = seal_names(group, std::array{&stream}, call.now);
  refuse_waiting(stream);
  match_present(group, call.now, &message.stream());
}

void Rendezvous::describe(const Call& call, const wire::Describe& message) {
  rank_0_of(call, "Describe");
  const auto streams = offered(message.stream());
  if (streams.empty()) {
    *reply(call).mutable_streams() = open_streams(owner_of(call.from));
    return;
  }
  const Stream* const stream = streams.front();
  check_may_read(owner_of(call.from), *stream);
  const Group& producer = *groups_.find(stream->producer);
  wire::Described& described = *reply(call).mutable_described();
  described.set_group(producer.name);
  described.set_size(producer.size);
  described.set_connected(static_cast<core::RankCount>(producer.members.size()));
  *described.mutable_fields() = stream->announced;
  described.set_queue_depth(stream->queue_depth);
  described.set_attributes(stream->attributes);
  for (const Stream* const part : std::span(streams).subspan(1)) {
    wire::Described::Part& other = *described.add_others();
    other.set_group(part->producer);
    other.set_size(groups_.find(part->producer)->size);
    *other.mutable_fields() = part->announced;
  }
  if (!stream->is_covered)
    described.set_missing(
        describe_gaps(std::vector<const Stream*>(streams.begin(), streams.end())));
  if (described.connected() < described.size()) return;
  std::map<std::string_view, int> numbers;
  for (const auto& [rank, member] : producer.members) {
    const auto [host, is_new] = numbers.try_emplace(member.host, described.hosts_size());
    if (is_new) described.add_hosts(member.host);
    described.add_host_of_rank(host->second);
  }
}

void Rendezvous::give_up_stream(const Call& call, const wire::CloseStream& message) {
  const Seat seat = seat_of(call);
  Group& group = *seat.group;
  reply(call).mutable_done();
  Stream* const stream = open_stream(message.stream(), group);
  if (stream != nullptr && stream->incarnation == message.incarnation())
    return give_up(*stream, group, core::printable(message.why()), seat.rank, call.now);
  if (!group.is_back || group.is_resumed || group.gave_up.size() >= most_gave_up ||
      group.gave_up.contains(message.incarnation()))
    return;  // another rank has said so
  try {
    group.gave_up.emplace(message.incarnation(), gave_up(group, core::printable(message.why())));
  } catch (const Error& error) {  // no memory for it
    log(fmt::format("gave_up_left_out group={} why={}", group.name, error.what()));
  }
}

GaveUp Rendezvous::gave_up(const Group& group, std::string why) const {
  constexpr std::size_t beside_text = 256;
  Hold held = hold(group, beside_text + why.size());
  return {std::move(why), std::move(held)};
}

void Rendezvous::give_up(Stream& stream, const Group& producer, const std::string& why,
                         std::optional<core::Rank> by, double now) {
  log(fmt::format("stream_given_up stream={} producer={} why={}", stream.name, producer.name, why));
  const auto notice = std::make_shared<wire::ToClient>();
  notice->mutable_stream_given_up()->set_incarnation(stream.incarnation);
  notice->mutable_stream_given_up()->set_why(why);
  for (const auto& [rank, member] : producer.members)
    if (rank != by) output_.messages.push_back({member.connection, *notice});
  keep_notice(producer, notice);
  for (const LinkId id : stream.links) {
    tell_link_closed(links_.at(id), producer, why, true);
    if (links_.at(id).is_missed) remember_given_up(producer, id, why, now);
  }
  claim_for_consumers(stream);
  stream.closed = true;
  end_part(stream, "was given up");
  for (const LinkId id : std::set(stream.links)) drop_link(id);
  erase_streams([](const Stream& each) { return each.is_over(); });
}

void Rendezvous::close_stream(const Call& call, const wire::CloseStream& message) {
  if (message.gave_up()) return give_up_stream(call, message);
  const Group& group = *rank_0_of(call, "CloseStream").group;
  Stream* const stream = open_stream(message.stream(), group);
  if (stream == nullptr) {
    const auto others = offered(message.stream());
    throw Error(
        Errc::refused,
        fmt::format("stream '{}': expected one that group '{}' has announced, found {}",
                    message.stream(), group.name,
                    others.empty() ? "none of that name"
                                   : "that of " + producer_as_seen_by(group, *others.front())));
  }
  reply(call).mutable_done();
  log(fmt::format("stream_closed stream={} producer={}", stream->name, group.name));
  stream->closed = true;
  end_part(*stream, "has ended its part of it");
  // Links of consumers that the producer has not answered.
  std::vector<LinkId> unanswered;
  for (const LinkId id : stream->links)
    if (!links_.at(id).is_answered) unanswered.push_back(id);
  for (const LinkId id : unanswered)
    tell_link_closed(links_.at(id), group,
                     fmt::format("stream '{}' had just ended when group '{}' joined", stream->name,
                                 links_.at(id).consumer));
  for (const LinkId id : unanswered) drop_link(id);
  erase_streams([](const Stream& each) { return each.is_over(); });
}

wire::Streams Rendezvous::open_streams(Owner asking) const {
  std::set<std::string_view> names;
  for (const auto& [id, stream] : streams_)
    if (!stream.closed && !stream.is_copy && stream.is_readable_by(asking))
      names.insert(stream.name);
  wire::Streams streams;
  for (const std::string_view name : names) streams.add_names(std::string(name));
  return streams;
}

Rendezvous::Stream* Rendezvous::newest_stream(const std::string& name, const Group& producer) {
  const auto ids = named_.find(name);
  if (ids == named_.end()) return nullptr;
  for (auto id = ids->second.rbegin(); id != ids->second.rend(); ++id)
    if (Stream& stream = streams_.at(*id); stream.is_produced_by(producer)) return &stream;
  return nullptr;
}

Rendezvous::Stream* Rendezvous::open_stream(const std::string& name, const Group& producer) {
  Stream* const stream = newest_stream(name, producer);  // its others of that name are closed
  return stream == nullptr || stream->closed ? nullptr : stream;
}

std::vector<Rendezvous::Stream*> Rendezvous::offered(const std::string& name) {
  std::vector<Stream*> streams;
  if (const auto ids = named_.find(name); ids != named_.end())
    for (const StreamId id : ids->second)
      if (Stream& stream = streams_.at(id); !stream.closed && !stream.is_copy)
        streams.push_back(&stream);
  return streams;
}

void Rendezvous::erase_streams(const std::function<bool(const Stream&)>& is_over) {
  for (auto stream = streams_.begin(); stream != streams_.end();)
    stream = is_over(stream->second) ? erase_stream(stream) : std::next(stream);
}

std::map<Rendezvous::StreamId, Rendezvous::Stream>::iterator Rendezvous::erase_stream(
    std::map<StreamId, Stream>::iterator stream) {
  const auto ids = named_.find(stream->second.name);
  std::erase(ids->second, stream->first);
  if (ids->second.empty()) named_.erase(ids);
  return streams_.erase(stream);
}

}  // namespace tremula::server
