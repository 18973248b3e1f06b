// SPDX-License-Identifier: Apache-2.0
#include "client/stream/link/link.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "client/stream/link/link_mover.hpp"
#include "proto/attributes.hpp"
#include "proto/offers.hpp"

namespace tremula::client {

namespace {

/// A consumer lets the producer say first what is wrong with a link that neither side proves.
constexpr double patience_seconds = 5;
/// For which a rank may be silent on the way of data, unless its session says otherwise.
constexpr double usual_silence = 10;

/// A producer answers when it comes to its next step, a consumer at once.
core::Deadline answer_deadline(Session& session, const LinkTerms& terms) {
  return terms.side == transport::Side::producer
             ? core::Deadline::after(std::min(session.config().timeout, terms.most_seconds))
             : session.step_deadline();
}

/// Sends every rank's address to the server. Waits for a server that is away.
void send_addresses(Session& session, const Link& link) {
  const auto addresses = session.allgather(link.endpoint->address(), session.deadline());
  session.run_on_root(
      [&] {
        wire::ToServer message;
        auto& out = *message.mutable_link_addresses();
        out.set_link(link.number);
        out.set_first_step(link.first_step);
        out.set_again(session.control().times_again(link.number));
        for (const auto& address : addresses) out.add_addresses(address.data(), address.size());
        session.control().call(message, session.deadline());
        return core::Bytes{};
      },
      session.deadline());
}

/// Returns every peer's address, and sets the link's first step, which comes with them.
/// @param deadline  rank 0's; the other ranks wait for rank 0
std::vector<transport::Address> take_addresses(Session& session, Link& link,
                                               core::Deadline deadline) {
  const auto take = [&] {
    return to_bytes(session.control().take_addresses(link.number, deadline));
  };
  const double most = std::max(deadline.remaining(), session.deadline().remaining());
  const auto reply = session.run_on_root(take, core::Deadline::after(most));
  const auto message = from_bytes<wire::LinkAddresses>(reply);
  link.first_step = std::max(link.first_step, message.first_step());  // a consumer says 0
  return addresses_in(message);
}

/// What the engine keeps of steps that are under way. Without put_async and queue_depth 0: what is
/// lent is not kept.
std::size_t queue_bytes(const Link& link, transport::Side side) {
  if (link.queue.depth == 0) return 0;
  std::size_t bytes = 0;
  for (const Message& message : link.plan.messages)
    if (message.payload_bytes() > link.plan.inlined_bytes &&
        (side == transport::Side::producer || !link.endpoint->is_near(message.peer)))
      bytes += message.parts_bytes;
  const bool is_one = side == transport::Side::consumer && link.queue.keeps();
  return bytes * static_cast<std::size_t>(is_one ? 1 : link.queue.slots());
}

/// Waits until every pair of the plan is proved.
/// @throws core::Error timed_out naming the first peer that is not; what the server has told of the
///         link meanwhile
void prove(Session& session, Link& link, const LinkTerms& terms, core::Deadline deadline) {
  std::optional<Control::LinkEnd> end;
  const auto has_ended = [&] {
    return (end = session.control().link_end(link.number)).has_value();
  };
  const auto start = core::Deadline::Clock::now();
  try {
    send_first_signs(session, link, terms);
    const auto look = [&] {
      link.endpoint->progress();
      link.signs->advance();
      return !link.signs->unproved() || has_ended();
    };
    session.waits_for(look, deadline);
  } catch (const core::Error& e) {
    // Perhaps because a peer has failed: the server knows why in a moment.
    if (e.code() != core::Errc::transport && e.code() != core::Errc::peer_lost) throw;
    session.waits_for(has_ended, core::Deadline::after(explained_within_seconds));
    if (!end) throw;
  }
  if (end) throw core::Error(end->lost ? core::Errc::peer_lost : core::Errc::cancelled, end->why);
  const auto missing = link.signs->unproved();
  if (missing) throw unproved(link, *missing, start);
}

/// The other ranks of both groups need not wait for what this one knows already.
void tell_failure(Session& session, std::uint64_t link, const core::Error& error) noexcept {
  try {
    if (session.control().link_end(link)) return;  // they know
    wire::ToServer message;
    auto& close = *message.mutable_close_link();
    close.set_link(link);
    close.set_gave_up(true);
    close.set_why(fmt::format("rank {} of group '{}': {}", session.rank().value, session.name(),
                              error.what()));
    session.control().call(std::move(message), core::Deadline::after(1));
  } catch (const std::exception& gone) {  // their own deadlines end it
    session.log().try_warn("client", [&] {
      return fmt::format("close_link link={} error=\"{}\"", link, gone.what());
    });
  }
}

}  // namespace

std::vector<transport::Address> addresses_in(const wire::LinkAddresses& message) {
  std::vector<transport::Address> addresses;
  for (const std::string& address : message.addresses()) {
    const auto view = std::as_bytes(std::span(address));
    addresses.emplace_back(view.begin(), view.end());
  }
  return addresses;
}

void send_first_signs(const Session& session, Link& link, const LinkTerms& terms) {
  std::vector<Rank> peers;
  peers.reserve(link.plan.messages.size());
  for (const Message& message : link.plan.messages) peers.push_back(message.peer);
  link.endpoint->expect_only(peers);
  const double silence = session.config().silence > 0 ? session.config().silence : usual_silence;
  link.signs = std::make_unique<SignsOfLife>(link.plan, *link.endpoint, link.number,
                                             terms.answers_between_calls ? silence : no_limit,
                                             terms.begins_later);
}

core::Error unproved(const Link& link, Rank missing, core::Deadline::Clock::time_point since) {
  const std::string at = link.endpoint->address_text(missing);
  const core::Deadline::Seconds waited = core::Deadline::Clock::now() - since;
  return core::Error(
      core::Errc::timed_out,
      fmt::format(
          "stream '{}': expected a first sign of life from rank {} of group '{}'{} over {}; "
          "found none within {:.3g} s; is its process stopped, or its port closed by a "
          "firewall?",
          link.stream, missing.value, link.peer_group, at.empty() ? "" : " at " + at,
          link.transport, waited.count()));
}

namespace {
index_calc::PlanOptions plan_options(const Session& session) {
  return {.algorithm = session.config().index_algorithm,
          .validate = session.config().validate_plans};
}

/// The plans of a link: those of its session or, where copies of both sides share what they send by where they
/// are, plans of its own.
class LinkPlans {
public:
  LinkPlans(Session& session, const wire::Matched& matched)
      : session_(session),
        mine_(matched.host_of_rank().begin(), matched.host_of_rank().end()),
        theirs_(matched.peer_host_of_rank().begin(), matched.peer_host_of_rank().end()) {
    core::expects(mine_.empty() || static_cast<RankCount>(mine_.size()) == session.size(),
                  "server: expected as many hosts as this group has ranks");
  }
  index_calc::PlanCache& cache() { return mine_.empty() ? session_.plans() : own_; }

private:
  Session& session_;
  std::vector<std::uint32_t> mine_, theirs_;
  index_calc::PlanCache own_{index_calc::Hosts{.of_mine = mine_, .of_theirs = theirs_}};
};

/// Opens this rank's endpoint, and plans, unless a side lists what its ranks own.
/// @param taken  set to those of `targets` that the link has, parallel to Link::mine
Link prepare_link(Session& session, const wire::Matched& matched,
                  std::span<const proto::Field> declared, const LinkTerms& terms,
                  std::span<const Target> targets, std::vector<Target>& taken) {
  const transport::Side side = terms.side;
  Link link;
  link.number = matched.link();
  link.stream = matched.stream();
  link.peer_group = matched.peer_group();
  const auto attributes = proto::bytes_of(matched.attributes());
  link.attributes.assign(attributes.begin(), attributes.end());
  link.first_step = terms.first_step;
  link.offer = matched.choice().empty() ? matched.offer() : matched.choice();
  link.why = matched.why();
  link.transport = proto::short_offer(link.offer);
  link.queue = Queue(matched.queue_depth(), static_cast<WhenFull>(matched.when_full()),
                     matched.shares(), matched.wants_latest());
  session.run_collectively([&] {
    link.endpoint = session.open_endpoint(matched.offer(), link.offer, side);
    link.theirs = proto::decode(matched.fields());
    proto::check_fits_group(link.theirs, matched.peer_size(), link.stream, link.peer_group);
    const std::string_view mine = session.name(), peers = link.peer_group;
    const bool is_consumer = side == transport::Side::consumer;
    auto fields = fields_of_link(declared, link.theirs, side,
                                 {.stream = link.stream,
                                  .consumer = is_consumer ? mine : peers,
                                  .producer = is_consumer ? peers : mine});
    link.number_of = std::move(fields.number_of);
    for (const std::size_t number : fields.declared) {
      link.mine.push_back(declared[number]);
      if (!targets.empty()) taken.push_back(targets[number]);
    }
    if (!has_lists(link.mine, link.theirs))
      link.plan = plan_exchange(link.mine, link.theirs, side, session.rank(), session.size(),
                                matched.peer_size(), LinkPlans(session, matched).cache(),
                                plan_options(session), taken, matched.is_proved());
  });
  return link;
}
}  // namespace

Link begin_link(Session& session, const wire::Matched& matched,
                std::span<const proto::Field> declared, const LinkTerms& terms) {
  std::vector<Target> none;
  Link link = prepare_link(session, matched, declared, terms, {}, none);
  core::expects(!has_lists(link.mine, link.theirs), "begin_link: lists are matched by open_link");
  send_addresses(session, link);
  return link;
}

Link open_link(Session& session, const wire::Matched& matched,
               std::span<const proto::Field> declared, const LinkTerms& terms,
               std::span<const Target> targets) {
  const transport::Side side = terms.side;
  std::vector<Target> taken;
  Link link = prepare_link(session, matched, declared, terms, targets, taken);
  send_addresses(session, link);
  const auto answered = answer_deadline(session, terms);
  const auto peers = take_addresses(session, link, answered);
  session.run_collectively([&] {
    auto until = answered;
    if (side == transport::Side::consumer)
      until = core::Deadline::after(session.config().timeout + patience_seconds);
    else if (terms.most_seconds == no_limit)  // the wait for addresses may have used most of it
      until = answer_deadline(session, terms);
    try {
      link.endpoint->connect(peers, until);
      if (has_lists(link.mine, link.theirs)) {
        LinkMover mover(session, link, side, matched.peer_size(), until);
        const auto listed = match_fields(link.mine, link.theirs, side, session.rank(),
                                         session.size(), matched.peer_size(), taken, mover);
        link.plan = plan_exchange(link.mine, link.theirs, side, session.rank(), session.size(),
                                  matched.peer_size(), LinkPlans(session, matched).cache(),
                                  plan_options(session), taken, matched.is_proved(), listed);
      }
      prove(session, link, terms, until);
    } catch (const core::Error& error) {
      tell_failure(session, link.number, error);
      throw;
    }
  });
  // A pair that is proved has the other side's addresses.
  if (!link.plan.messages.empty()) session.control().note_opened(link.number);
  log_link(session, link, side);
  return link;
}

void log_link(Session& session, const Link& link, transport::Side side) {
  session.log().info(
      "client",
      fmt::format("linked stream={} link={} peer={} transport={} ({}) packages={} bytes={} "
                  "plan_seconds={:.6f} known_plans={}",
                  link.stream, link.number, link.peer_group, link.transport, link.why,
                  link.plan.messages.size(), link.plan.payload_bytes, link.plan.seconds,
                  session.plans().hits()));
  if (const std::size_t kept = queue_bytes(link, side); kept > 0)
    session.log().info("client",
                       fmt::format("queue stream={} link={} queue_depth={} memory_bytes={} on this "
                                   "rank, in addition to the arrays",
                                   link.stream, link.number, link.queue.depth, kept));
}

std::string complaint(Session& session, const Link& link,
                      const std::function<bool(std::size_t)>& is_owed) {
  for (std::size_t m = 0; m < link.signs->size(); ++m) {
    if (!is_owed(m) || link.signs->complaint(m, false).empty()) continue;
    const auto found = link.signs->complaint(m, session.control().is_served());
    if (!found.empty()) return found;
  }
  return {};
}

}  // namespace tremula::client
