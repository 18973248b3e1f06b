// SPDX-License-Identifier: Apache-2.0
#include "client/stream/link.hpp"

#include <fmt/format.h>

#include <map>
#include <string_view>

#include "proto/offers.hpp"

namespace tremula::client {

namespace {

/// A producer answers when it comes to its next step, a consumer at once.
core::Deadline deadline_of(Session& session, transport::Side side) {
  return side == transport::Side::producer ? session.deadline() : session.step_deadline();
}

/// What the link is opened by: the offer, or what both sides have of its choices, found by the
/// server.
wire::LinkChoice settle(Session& session, const wire::Matched& matched, transport::Side side) {
  wire::LinkChoice settled;
  settled.set_choice(matched.offer());
  settled.set_why(matched.why());
  if (!session.has_choices(matched.offer())) return settled;
  const auto mine = session.choices(matched.offer());
  const auto deadline = deadline_of(session, side);
  return from_bytes<wire::LinkChoice>(session.run_on_root(
      [&] {
        wire::ToServer message;
        auto& out = *message.mutable_link_choices();
        out.set_link(matched.link());
        out.mutable_choices()->Assign(mine.begin(), mine.end());
        session.control().call(message, session.deadline());
        return to_bytes(session.control().take_choice(matched.link(), deadline));
      },
      deadline));
}

/// Every rank's address to the server, every peer's address back.
std::vector<transport::Address> exchange_addresses(Session& session, std::uint64_t link,
                                                   transport::Side side,
                                                   const transport::Endpoint& endpoint) {
  const auto mine = session.allgather(endpoint.address(), session.deadline());
  const auto deadline = deadline_of(session, side);
  const auto reply = session.run_on_root(
      [&] {
        wire::ToServer message;
        auto& out = *message.mutable_link_addresses();
        out.set_link(link);
        for (const auto& address : mine) out.add_addresses(address.data(), address.size());
        session.control().call(message, session.deadline());
        return to_bytes(session.control().take_addresses(link, deadline));
      },
      deadline);
  const auto message = from_bytes<wire::LinkAddresses>(reply);
  std::vector<transport::Address> theirs;
  for (const std::string& address : message.addresses()) {
    const auto view = std::as_bytes(std::span(address));
    theirs.emplace_back(view.begin(), view.end());
  }
  return theirs;
}

/// What the engine keeps of steps that are under way. Without put_async and queue_depth 0: what is
/// lent is not kept.
std::size_t queue_bytes(const Link& link, transport::Side side) {
  std::size_t bytes = 0;
  for (const Message& message : link.plan.messages)
    if (message.payload_bytes() > link.plan.inlined_bytes &&
        (side == transport::Side::producer || !link.endpoint->is_near(message.peer)))
      bytes += message.parts_bytes;
  const bool is_one = side == transport::Side::consumer && link.queue.keeps();
  return bytes * static_cast<std::size_t>(is_one ? 1 : link.queue.depth);
}

}  // namespace

Link open_link(Session& session, const wire::Matched& matched,
               std::span<const proto::Field> declared, transport::Side side,
               std::span<const Target> targets) {
  Link link;
  link.number = matched.link();
  link.stream = matched.stream();
  link.peer_group = matched.peer_group();
  const auto settled = settle(session, matched, side);
  link.offer = settled.choice();
  link.transport = proto::short_offer(link.offer);
  link.queue = Queue(matched.queue_depth(), static_cast<WhenFull>(matched.when_full()));
  std::vector<Target> taken;  // parallel to link.mine
  session.run_collectively([&] {
    link.endpoint = session.open_endpoint(matched.offer(), link.offer, side);
    link.theirs = proto::decode(matched.fields());
    std::map<std::string_view, std::size_t> by_name;
    for (const auto& field : declared) by_name.emplace(field.name, by_name.size());
    link.number_of.resize(declared.size());
    for (const auto& field : link.theirs) {
      const auto it = by_name.find(field.name);
      core::expects(it != by_name.end(), "server: matched a field that was not declared");
      const std::size_t number = it->second;
      link.number_of[number] = link.mine.size();
      link.mine.push_back(declared[number]);
      if (!targets.empty()) taken.push_back(targets[number]);
    }
    link.plan = plan_exchange(link.mine, link.theirs, side, session.rank(), session.size(),
                              matched.peer_size(), session.plans(),
                              {.algorithm = session.config().index_algorithm,
                               .validate = session.config().validate_plans},
                              taken);
  });
  const auto peers = exchange_addresses(session, link.number, side, *link.endpoint);
  session.run_collectively([&] { link.endpoint->connect(peers, session.deadline()); });
  session.log().info(
      "client",
      fmt::format("linked stream={} link={} peer={} transport={} ({}) packages={} bytes={} "
                  "plan_seconds={:.6f} known_plans={}",
                  link.stream, link.number, link.peer_group, link.transport, settled.why(),
                  link.plan.messages.size(), link.plan.payload_bytes, link.plan.seconds,
                  session.plans().hits()));
  if (const std::size_t kept = queue_bytes(link, side); kept > 0)
    session.log().info("client",
                       fmt::format("queue stream={} link={} queue_depth={} memory_bytes={} on this "
                                   "rank, beside the arrays",
                                   link.stream, link.number, link.queue.depth, kept));
  return link;
}

}  // namespace tremula::client
