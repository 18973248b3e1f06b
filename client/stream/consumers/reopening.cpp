// SPDX-License-Identifier: Apache-2.0
// The part of ConsumerLinks for layouts that are declared again, by the producer, or by a consumer whose wish has come
// to the producer; that of ProducerLinks stands in ../producers/reopening.cpp. Between two steps both sides open new
// endpoints and plan anew, and the link goes on:
//
//     producer    all steps credited   server told   end, "redeclared"   credited   addresses of the first to come, ...
//     consumer                                            credit            begin_step: addresses, plan, proof
//
// Old endpoints stay until the pairs are proved anew: what was sent over them may still be on its way.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "client/stream/consumers/consumer_links.hpp"
#include "client/waiting/wait.hpp"
#include "proto/convert.hpp"

namespace tremula::client {

using core::Errc, core::Error;

namespace {
/// For which the other ranks wait longer than rank 0 for consumers whose links are set up anew.
constexpr double longer_seconds = 5;
}  // namespace

std::vector<std::uint64_t> ConsumerLinks::wanted() const {
  std::vector<std::uint64_t> links;
  for (const Open& open : links_)
    if (session_.control().wants_redeclared(open.link.number)) links.push_back(open.link.number);
  return links;
}

void ConsumerLinks::choose(std::uint64_t link) {
  for (Open& open : links_) open.is_chosen = open.link.number == link;
}

void ConsumerLinks::choose_all() {
  for (Open& open : links_) open.is_chosen = true;
}

bool ConsumerLinks::poll_end_chosen() {
  const auto hold = session_.progress().hold();
  session_.progress().advance();
  return std::ranges::all_of(links_, [this](Open& open) {
    if (!open.is_chosen) return true;
    try {
      if (take_end(open) ||
          (feed(open) && open.exchange->poll_end(step_) && open.exchange->poll_credit(step_)))
        return true;
      judge(open);
    } catch (...) {
      keep_failure(open);
    }
    return !open.failure.empty();
  });
}

void ConsumerLinks::set_fields(const wire::RedeclareLink& wanted) {
  for (Open& open : links_)
    if (open.link.number == wanted.link()) *open.matched.mutable_fields() = wanted.fields();
}

void ConsumerLinks::send_redeclared(bool keeps_own) {
  const auto hold = session_.progress().hold();
  if (!keeps_own) kept_.forget(step_ - first_step());  // in the layouts that were
  for (Open& open : links_) try {
      if (open.is_chosen && open.failure.empty())
        open.exchange->send_end(step_, proto::MessageKind::redeclared);
    } catch (...) {
      keep_failure(open);
    }
}

wire::Wait ConsumerLinks::describe_reopening(const char* call,
                                             std::span<const wire::Reopening> left) const {
  wire::Wait wait;
  wait.set_call(call);
  wait.set_stream(stream());
  wait.set_step(step_);
  wait.set_what("to reach the next step");
  if (left.empty()) return wait;
  const wire::Matched& first = left.front().matched();
  wait.set_group(first.peer_group());
  wait.set_link(first.link());
  const auto listed = std::min<RankCount>(first.peer_size(), proto::max_wait_ranks);
  for (const Rank rank : core::all_ranks(listed)) wait.add_ranks(rank.value);
  const auto turns = std::ranges::find(reopening_, first.link(), &LinkTurns::link);
  if (turns != reopening_.end()) wait.set_count(turns->count - 1);  // it counts the new end then
  return wait;
}

wire::Reopening ConsumerLinks::next_to_reopen(std::vector<wire::Reopening>& left,
                                              core::Deadline until, LongWait& long_wait) {
  wire::Reopening next;
  const auto look = [&] {
    for (auto link = left.begin(); !next.has_matched() && link != left.end();) try {
        if (!session_.control().poll_addresses(link->matched().link())) {
          ++link;
          continue;
        }
        next = std::move(*link);
        link = left.erase(link);
      } catch (const Error& e) {
        if (e.code() != Errc::cancelled)
          refuse(link->matched(), e.what());  // else it has closed it
        link = left.erase(link);
      }
    if (next.has_matched() || left.empty()) return true;
    long_wait.look();
    return false;
  };
  const bool is_in_time = session_.waits_for(look, until);
  next.set_most_seconds(most_seconds());
  if (is_in_time) return next;
  for (const wire::Reopening& late : left)
    refuse(late.matched(),
           fmt::format("expected it to call begin_step within {} s, as the layouts were "
                       "declared again; step_timeout sets how long a step may take",
                       session_.config().step_timeout));
  left.clear();
  return next;
}

void ConsumerLinks::reopen(const char* call) {
  struct Before {
    std::uint64_t most_behind;
    double waited_seconds;
    /// Until the consumer has come: then it needs nothing more over it.
    std::unique_ptr<transport::Endpoint> endpoint;
  };
  std::map<std::uint64_t, Before> before;
  std::vector<wire::Reopening> left;
  std::vector<std::pair<wire::Matched, std::string>> failed;
  {
    const auto hold = session_.progress().hold();
    for (Open& open : links_) {
      if (!open.is_chosen) continue;
      count_ended(*open.exchange);
      const std::uint64_t turns = open.turns_before + open.exchange->turns();
      reopening_.push_back({open.link.number, turns});
      open.exchange.reset();
      open.link.signs.reset();
      before.try_emplace(open.link.number, Before{open.most_behind, open.waited_seconds,
                                                  std::move(open.link.endpoint)});
      if (!open.failure.empty()) {
        failed.emplace_back(std::move(open.matched), open.failure);
        continue;
      }
      wire::Reopening& link = left.emplace_back();
      *link.mutable_matched() = std::move(open.matched);
      link.set_turns(turns);
    }
    std::erase_if(links_, [](const Open& open) { return open.is_chosen; });
  }
  for (const auto& [matched, why] : failed) refuse(matched, why);
  patience_ = usual_patience;  // earlier refusals may have halved it
  core::Deadline until = session_.step_deadline();
  // All ranks are here, and go when rank 0 says so: what it waits for, they do.
  const auto describe = [&] { return describe_reopening(call, left); };
  LongWait long_wait(session_.control().waits(), describe);
  const auto next = [&] { return to_bytes(next_to_reopen(left, until, long_wait)); };
  const auto done_with = [&](std::uint64_t link) {
    const auto hold = session_.progress().hold();
    std::erase_if(reopening_, [&](const LinkTurns& turns) { return turns.link == link; });
  };
  try {
    // Each rank has waited for credits by itself: the limit counts from when all are here.
    session_.run_collectively([] {}, until);
    until = session_.step_deadline();
    for (;;) {  // the other ranks may have come before rank 0, which ends the wait for all
      const auto link = from_bytes<wire::Reopening>(
          session_.run_on_root(next, core::Deadline::after(until.remaining() + longer_seconds)));
      if (!link.has_matched()) break;
      const std::uint64_t number = link.matched().link();
      std::erase_if(left, [&](const auto& other) { return other.matched().link() == number; });
      const auto was = before.extract(number);
      try {
        let_in(
            link.matched(),
            open_link(session_, link.matched(), fields_.all(), terms(step_, link.most_seconds())),
            step_, step_);
        const auto hold = session_.progress().hold();
        Open& open = links_.back();
        open.turns_before = link.turns();
        if (!was.empty()) {
          open.most_behind = was.mapped().most_behind;
          open.waited_seconds = was.mapped().waited_seconds;
        }
      } catch (const Error& e) {  // on every rank
        refuse(link.matched(), e.what());
        if (e.code() == Errc::interrupted) throw;
      }
      done_with(number);
    }
  } catch (...) {
    for (const wire::Reopening& link : left)
      refuse(link.matched(), "the producer could not set up its links anew");
    reopening_.clear();
    throw;
  }
  for (const auto& [number, _] : before) {
    session_.control().forget_link(number);
    done_with(number);
  }
}

}  // namespace tremula::client
