// SPDX-License-Identifier: Apache-2.0
// The part of Rendezvous for `tremula status`. An answer is a page: it takes bounded time and fits a
// frame, however much there is.
#include <algorithm>
#include <utility>

#include "server/rendezvous/rendezvous.hpp"

namespace tremula::server {

namespace {

/// What may still be added to the page.
struct Room {
  std::size_t rows;
  std::size_t ranks = proto::max_ranks_bytes;
  std::size_t fields = proto::max_shown_fields_bytes;
  bool is_begun = false;

  /// False if the next item belongs on another page.
  bool take(std::size_t bytes, const proto::WireFields* shown = nullptr) {
    std::size_t fields_bytes = 0;
    if (shown != nullptr)
      for (const wire::Field& field : *shown) fields_bytes += field.ByteSizeLong() + 8;
    const bool are_fields_begun = fields < proto::max_shown_fields_bytes;
    if ((is_begun && bytes > rows) || (are_fields_begun && fields_bytes > fields) ||
        ranks < proto::max_ranks_bytes / 2)
      return false;
    rows -= std::min(rows, bytes + 8);  // 8: tag and length
    is_begun = true;
    return true;
  }
  /// The first fields for which there is room. @return how many are left out
  int add(proto::WireFields& to, const proto::WireFields& all) {
    for (const wire::Field& field : all) {
      const std::size_t bytes = field.ByteSizeLong() + 8;
      if (bytes > fields) break;
      fields -= bytes;
      *to.Add() = field;
    }
    return all.size() - to.size();
  }
};

wire::GroupStatus row_of(const Group& group, double now) {
  wire::GroupStatus row;
  row.set_name(group.name);
  row.set_size(group.size);
  row.set_connected(static_cast<core::RankCount>(group.members.size()));
  row.set_host(group.host);
  row.set_pid(group.pid);
  row.set_age_seconds(now - group.since);
  return row;
}

}  // namespace

std::string Rendezvous::slowest_of(const Stream& stream) const {
  const Link* slowest = nullptr;
  for (const LinkId id : stream.links) {
    const Link& link = links_.at(id);
    if (link.held_up_seconds == 0 && (link.max_lag == 0 || stream.links.size() == 1)) continue;
    if (slowest == nullptr || std::pair(link.held_up_seconds, link.max_lag) >
                                  std::pair(slowest->held_up_seconds, slowest->max_lag))
      slowest = &link;
  }
  return slowest == nullptr ? "" : slowest->consumer;
}

wire::ToClient Rendezvous::status(double now, const wire::StatusRequest& request,
                                  Owner asking) const {
  const auto sees = [asking](Owner owner) { return asking == 0 || owner == asking; };
  const auto sees_group = [&](const std::string& name) {
    const auto group = groups_.all().find(name);
    return asking == 0 || (group != groups_.all().end() && group->second.owner == asking);
  };
  using Place = wire::StatusPlace;
  if (request.waits()) return wait_status(now, request.from(), asking);
  wire::ToClient answer;
  wire::Status& out = *answer.mutable_status();
  Room room{.rows = settings_.limits.page_bytes};
  Place from = request.from();  // of what is added next; where a page ends, the next one begins
  from.set_goes_on(false);
  const auto is_full = [&](std::size_t bytes, const proto::WireFields* fields = nullptr) {
    if (room.take(bytes, fields)) return false;
    *answer.mutable_next_status() = from;
    return true;
  };
  out.set_version(settings_.version);
  out.set_listens_on(settings_.listens_on);
  out.set_uptime_seconds(now);

  if (from.part() == Place::groups) {
    const auto& groups = groups_.all();
    for (auto group = groups.lower_bound(from.name()); group != groups.end(); ++group) {
      if (!sees(group->second.owner)) continue;
      wire::GroupStatus row = row_of(group->second, now);
      from.set_name(group->first);
      if (is_full(row.ByteSizeLong())) return answer;
      *out.add_groups() = std::move(row);
    }
    from.Clear();
    from.set_part(Place::streams);
  }

  if (from.part() == Place::streams) {
    for (auto it = streams_.lower_bound(from.stream()); it != streams_.end(); ++it) {
      const auto& [id, stream] = *it;
      if (!sees(stream.owner) && !stream.is_readable_by_all) continue;
      // The row of a stream continued from an earlier page omits attributes, fields and ranks: with them,
      // the next link might never fit.
      const bool is_rest = request.from().goes_on() && id == request.from().stream();
      if (id != from.stream()) from.set_after(0);
      from.set_stream(id);
      const std::string_view attributes = is_rest ? std::string_view() : stream.attributes;
      if (is_full(stream.name.size() + stream.producer.size() + attributes.size(),
                  is_rest ? nullptr : &stream.announced))
        return answer;
      wire::StreamStatus& row = *out.add_streams();
      row.set_name(stream.name);
      row.set_producer(stream.producer);
      row.set_queue_depth(stream.queue_depth);
      row.set_when_full(stream.when_full);
      row.set_queue_bytes(stream.queue_bytes);
      row.set_keep_steps(stream.keep_steps);
      row.set_is_state(stream.is_state);
      row.set_is_copy(stream.is_copy);
      row.set_epoch(stream.epoch);
      row.set_attributes(attributes.data(), attributes.size());
      if (!is_rest) row.set_fields_left_out(room.add(*row.mutable_fields(), stream.announced));
      *row.mutable_produced() = stream.produced.total();
      if (request.ranks() && !is_rest) stream.produced.list(*row.mutable_produced(), room.ranks);
      row.set_closed(stream.closed);
      if (sees(stream.owner)) {
        row.set_slowest(slowest_of(stream));
      } else {  // the names it waits for are not for others
        row.mutable_produced()->clear_waits_for();
        for (auto& rank : *row.mutable_produced()->mutable_ranks()) rank.clear_waits_for();
      }
      from.set_goes_on(true);
      for (auto link_id = stream.links.upper_bound(from.after()); link_id != stream.links.end();
           ++link_id) {
        const Link& link = links_.at(*link_id);
        const bool sees_consumer = link.consumer_owner && sees(*link.consumer_owner);
        if (!sees(stream.owner) && !sees_consumer) continue;
        if (is_full(link.consumer.size() + link.offer.size() + link.why.size(), &link.fields))
          return answer;
        wire::LinkStatus& consumer = *row.add_consumers();
        consumer.set_link(*link_id);
        consumer.set_consumer(link.consumer);
        consumer.set_offer(link.offer);
        consumer.set_why(link.why);
        consumer.set_fields_left_out(room.add(*consumer.mutable_fields(), link.fields));
        *consumer.mutable_consumed() = link.consumed.total();
        if (request.ranks()) link.consumed.list(*consumer.mutable_consumed(), room.ranks);
        consumer.set_credit(credit(consumer.consumed(), link.queue_depth));
        consumer.set_queue_depth(link.queue_depth);
        consumer.set_when_full(link.when_full);
        consumer.set_shares(link.shares);
        consumer.set_max_lag(link.max_lag);
        consumer.set_held_up_seconds(link.held_up_seconds);
        from.set_after(*link_id);
      }
      from.set_goes_on(false);
    }
    from.Clear();
    from.set_part(Place::not_offered);
  }

  std::map<std::string_view, std::vector<std::string_view>> not_offered;
  for (const Subscription& subscription : subscriptions_)
    if (subscription.stream >= from.name() && sees_group(subscription.consumer))
      not_offered[subscription.stream].push_back(subscription.consumer);
  for (const auto& [name, consumers] : not_offered) {
    if (name != from.name()) from.set_after(0);
    from.set_name(std::string(name));
    wire::StreamStatus* row = nullptr;
    from.set_goes_on(from.after() > 0);
    for (std::size_t i = from.after(); i < consumers.size(); ++i) {
      if (is_full(name.size() + consumers[i].size())) return answer;
      if (row == nullptr) {
        row = out.add_streams();
        row->set_name(std::string(name));
      }
      row->add_waiting_consumers(std::string(consumers[i]));
      from.set_after(i + 1);
      from.set_goes_on(true);
    }
  }
  return answer;
}

}  // namespace tremula::server
