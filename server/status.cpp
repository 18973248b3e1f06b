// SPDX-License-Identifier: Apache-2.0
// The part of Rendezvous for `tremula status`.
#include "server/rendezvous.hpp"

namespace tremula::server {

wire::Status Rendezvous::status(double now, bool with_ranks) const {
  wire::Status out;
  std::size_t room = proto::max_ranks_bytes;
  out.set_version(settings_.version);
  out.set_listens_on(settings_.listens_on);
  out.set_uptime_seconds(now);
  for (const auto& [name, group] : groups_.all()) {
    wire::GroupStatus& row = *out.add_groups();
    row.set_name(name);
    row.set_size(group.size);
    row.set_connected(static_cast<core::Rank>(group.members.size()));
    row.set_host(group.host);
    row.set_pid(group.pid);
    row.set_age_seconds(now - group.since);
  }
  for (const auto& [id, stream] : streams_) {
    wire::StreamStatus& row = *out.add_streams();
    row.set_name(stream.name);
    row.set_producer(stream.producer);
    row.set_queue_depth(stream.queue_depth);
    row.set_when_full(stream.when_full);
    row.set_queue_bytes(stream.queue_bytes);
    *row.mutable_fields() = stream.announced;
    *row.mutable_produced() = stream.produced.total();
    if (with_ranks) stream.produced.list(*row.mutable_produced(), room);
    row.set_closed(stream.closed);
    for (const LinkId link_id : stream.links) {
      const Link& link = links_.at(link_id);
      wire::LinkStatus& consumer = *row.add_consumers();
      consumer.set_link(link_id);
      consumer.set_consumer(link.consumer);
      consumer.set_offer(link.offer);
      consumer.set_why(link.why);
      *consumer.mutable_fields() = link.fields;
      *consumer.mutable_consumed() = link.consumed.total();
      if (with_ranks) link.consumed.list(*consumer.mutable_consumed(), room);
      consumer.set_credit(credit(consumer.consumed(), link.queue_depth));
      consumer.set_queue_depth(link.queue_depth);
      consumer.set_when_full(link.when_full);
    }
  }
  std::map<std::string, wire::StreamStatus*> not_offered;  // streams that consumers wait for
  for (const Subscription& subscription : subscriptions_) {
    wire::StreamStatus*& row = not_offered[subscription.stream];
    if (row == nullptr) {
      row = out.add_streams();
      row->set_name(subscription.stream);
    }
    row->add_waiting_consumers(subscription.consumer);
  }
  return out;
}

}  // namespace tremula::server
