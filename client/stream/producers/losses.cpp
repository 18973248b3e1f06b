// SPDX-License-Identifier: Apache-2.0
// The part of ProducerLinks for waiting, and for links that fail or end. A wait ends with the first cause: what the
// server tells of a producer, before what a rank sees of it.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "client/stream/producers/producer_links.hpp"
#include "client/waiting/wait.hpp"
#include "proto/convert.hpp"
#include "proto/wait_text.hpp"

namespace tremula::client {

using core::Errc, core::Error;

namespace {
/// For what a producer sent before it died.
constexpr double grace_seconds = 0.5;
/// Within which the producers of all links learn of a failure of this rank, if the server answers.
constexpr double reported_within_seconds = 5;
}  // namespace

bool ProducerLinks::is_owed(const Open& open) const {
  for (std::size_t m = 0; m < open.exchange->plan().messages.size(); ++m)
    if (open.exchange->is_owed(m)) return true;
  return false;
}

std::string ProducerLinks::owing() const {
  std::string groups;
  for (const Open& open : links_)
    if (links_.size() == 1 || is_owed(open))
      groups += (groups.empty() ? "" : ", ") + open.link.peer_group;
  return groups;
}

std::string ProducerLinks::complaint_of_any() {
  for (at_ = 0; at_ < links_.size(); ++at_) {
    Open& open = links_[at_];
    if (std::exchange(open.moved, open.exchange->moved()) != open.exchange->moved())
      open.link.signs->heard_all();
    if (open.has_left) continue;
    const bool owes_begin = !is_complete_ && open.link.signs->awaits_begin();
    auto found = complaint(session_, open.link,
                           [&](std::size_t m) { return owes_begin || open.exchange->is_owed(m); });
    if (!found.empty()) return found;
  }
  at_ = 0;
  return {};
}

std::optional<Control::LinkEnd> ProducerLinks::find_end() {
  const auto hold = session_.progress().hold();
  std::optional<Control::LinkEnd> first;
  at_ = 0;
  for (std::size_t i = 0; i < links_.size(); ++i) {
    const Open& open = links_[i];
    auto end = session_.control().link_end(open.link.number);
    if (!end || (open.has_left && open.exchange->poll_told())) continue;
    if (first && first->order <= end->order) continue;
    first = std::move(end);
    at_ = i;
  }
  return first;
}

bool ProducerLinks::poll_ready() {
  try {
    for (Open& open : links_) {
      open.link.signs->advance();
      if (open.failure) return true;
    }
    return find_end() || poll_step() || !complaint_of_any().empty();
  } catch (...) {  // the next wait tells it
    links_[at_].failure = std::current_exception();
    return true;
  }
}

bool ProducerLinks::poll_failed() {
  const auto hold = session_.progress().hold();
  return std::ranges::any_of(links_, [](const Open& open) { return open.failure != nullptr; }) ||
         find_end() || !complaint_of_any().empty();
}

void ProducerLinks::throw_lost(const std::string& why) {
  is_lost_ = true;
  throw Error(Errc::peer_lost, fmt::format("{}: {}", place(), why));
}

wire::Wait ProducerLinks::describe_wait(const char* call, std::string_view what) const {
  const auto hold = session_.progress().hold();
  const auto is_awaited = [](const Open& open) {
    for (std::size_t m = 0; m < open.exchange->plan().messages.size(); ++m)
      if (open.exchange->is_awaited(m)) return true;
    return false;
  };
  const auto has_not_begun = [](const Open& open) { return open.link.signs->awaits_begin(); };
  auto first = is_complete_ ? links_.end() : std::ranges::find_if(links_, has_not_begun);
  if (first == links_.end()) first = std::ranges::find_if(links_, is_awaited);
  const Open& open = first == links_.end() ? links_.front() : *first;
  wire::Wait wait;
  wait.set_call(call);
  wait.set_stream(stream());
  const std::uint64_t ahead = open.exchange->looks_ahead() ? 1 : 0;
  const std::uint64_t begins = open.link.signs->first_step().value_or(open.link.first_step);
  wait.set_step(std::max(begins, open.exchange->step()) + ahead);
  wait.set_what(fmt::format("to {}", what));
  wait.set_group(open.link.peer_group);
  wait.set_link(open.link.number);
  wait.set_count(open.before.turns + open.exchange->steps() + ahead);
  const auto& messages = open.exchange->plan().messages;
  for (std::size_t m = 0; m < messages.size() && wait.ranks_size() < proto::max_wait_ranks; ++m)
    if (open.exchange->is_awaited(m)) wait.add_ranks(messages[m].peer.value);
  return wait;
}

void ProducerLinks::report_waiting(bool waits) {
  for (const Open& open : links_)
    if (!waits || links_.size() == 1 || is_owed(open))
      session_.control().report_waiting(stream(), open.link.number,
                                        waits ? open.link.peer_group : "");
}

bool ProducerLinks::wait(const std::function<Polled()>& poll, const char* call,
                         std::string_view what, std::optional<core::Deadline> until) {
  const auto hold = session_.progress().hold();
  bool is_reported = false, is_over = false;
  std::optional<Control::LinkEnd> end;
  core::Deadline grace = core::Deadline::after(0);
  std::optional<core::Deadline> unsent_grace;
  const auto describe = [&] { return describe_wait(call, what); };
  LongWait long_wait(session_.control().waits(), describe);
  const auto look_for_circle = [&] {
    if (call != nullptr && !until) long_wait.look();
  };
  const auto check = [&] {
    look_for_circle();
    if (const auto wrong = end ? std::string() : complaint_of_any(); !wrong.empty())
      throw Error(Errc::peer_lost, wrong);
    if (!end) rethrow_unsent(unsent_grace);
    if (!std::exchange(is_reported, true)) report_waiting(true);
    if (end)
      is_over = grace.expired();
    else if ((end = find_end()))
      grace = core::Deadline::after(grace_seconds);
  };
  const auto look = [&] {
    move_others();
    rethrow_failure();
    return is_over ? Polled::done : poll();
  };
  const auto start = core::Deadline::Clock::now();
  const auto finish = [&] {
    wait_seconds_ += core::Deadline::Seconds(core::Deadline::Clock::now() - start).count();
    if (is_reported) report_waiting(false);
  };
  try {
    const bool is_done = wait_for(look, until.value_or(session_.step_deadline()), check, [this] {
                           return session_.progress().sleep();
                         }).second;
    finish();
    if (is_done && !is_over) return true;
  } catch (...) {
    const Error e = core::current_error();
    finish();
    throw_cause(e, look_for_circle);
  }
  if (is_over) throw_lost(end->why);
  if (until && !find_end()) return false;
  if (until) return wait(poll, call, what);  // for what came before it was lost
  if ((end = find_end())) throw_lost(end->why);
  const auto ranks = proto::ranks_of(describe());
  throw Error(
      Errc::timed_out,
      fmt::format(
          "{}: waited {} s for producer group '{}'{} to {}; is it stuck? step_timeout "
          "sets how long a step may take",
          place(), session_.config().step_timeout, owing(),
          links_.size() != 1 || ranks.empty() ? "" : fmt::format(" ({})", proto::ranks_text(ranks)),
          what));
}

void ProducerLinks::move_others() {
  got_bytes_ = 0;
  session_.progress().advance(&owner_);
  for (at_ = 0; at_ < links_.size(); ++at_) links_[at_].link.signs->advance();
  at_ = 0;
}

void ProducerLinks::rethrow_failure() {
  for (at_ = 0; at_ < links_.size(); ++at_)
    if (links_[at_].failure) std::rethrow_exception(std::exchange(links_[at_].failure, {}));
  at_ = 0;
}

void ProducerLinks::rethrow_unsent(std::optional<core::Deadline>& grace) {
  for (at_ = 0; at_ < links_.size(); ++at_) {
    const Open& open = links_[at_];
    if (!open.exchange->unsent() || open.has_left) continue;
    if (!grace) grace = core::Deadline::after(grace_seconds);
    if (grace->expired()) std::rethrow_exception(open.exchange->unsent());
  }
  at_ = 0;
}

void ProducerLinks::throw_cause(const Error& e, const std::function<void()>& look_for_circle) {
  if (e.code() == Errc::deadlock || e.code() == Errc::interrupted)
    throw e;        // nothing is wrong with the stream
  is_lost_ = true;  // what comes next cannot be trusted
  if (e.code() != Errc::transport && e.code() != Errc::peer_lost) {
    report_own_failure(e);
    // A link's own text names only the step. The other ranks add the stream to what is reported to them.
    const std::string text = e.what();
    const bool is_named = text.starts_with("stream '");
    const Error named(e.code(), is_named ? text : fmt::format("stream '{}': {}", stream(), text),
                      e.where());
    throw named;
  }
  const Link& link = links_[at_].link;
  // Perhaps because the producer died: the server knows within a moment. Or the producer was told of
  // a circle first, and is gone.
  std::optional<Control::LinkEnd> end;
  const auto knows = [&] {
    end = session_.control().link_end(link.number);
    look_for_circle();
    return end.has_value();
  };
  session_.waits_for(knows, core::Deadline::after(explained_within_seconds));
  const auto why = fmt::format("producer group '{}': {}", link.peer_group, e.what());
  if (end) end = find_end().value_or(*end);  // of another link, which is why this one ended
  if (!end)  // the others hear of this cause, and not of what this rank does next
    tell_server(link.number, Farewell::gave_up, fmt::format("lost the stream: {}", why));
  throw_lost(end ? end->why : why);
}

void ProducerLinks::report_own_failure(const Error& e) noexcept {
  try {
    const auto hold = session_.progress().hold();  // the progress thread may leave a link
    const std::string what = fmt::format("lost the stream: {}", e.what());
    const auto until = core::Deadline::after(reported_within_seconds);
    for (const Open& open : links_)
      if (!open.has_left && !until.expired())
        tell_server(open.link.number, Farewell::gave_up, what);
  } catch (...) {  // no memory for the text: the others learn that this rank leaves
  }
}

void ProducerLinks::tell_server(std::uint64_t link, Farewell farewell,
                                const std::string& what) noexcept {
  try {
    wire::ToServer message;
    auto& close = *message.mutable_close_link();
    close.set_link(link);
    close.set_of_rank(farewell == Farewell::finished);
    close.set_gave_up(farewell != Farewell::finished);
    close.set_why(
        farewell == Farewell::of_all ? what
        : farewell == Farewell::gave_up
            ? fmt::format("rank {} of group '{}' {}", session_.rank().value, session_.name(), what)
            : fmt::format("group '{}' {}", session_.name(), what));
    session_.control().call(message,
                            core::Deadline::after(std::min(5.0, session_.config().timeout)));
  } catch (...) {  // the producer's ranks know, or the server has gone
    session_.log().try_warn("client", [&] {
      return fmt::format("{} stream={} error=\"{}\"", what, stream(), core::current_error().what());
    });
  }
}

void ProducerLinks::tell_server(Farewell farewell, const std::string& what) noexcept {
  for (const Open& open : links_) {
    const bool has_end = farewell == Farewell::gave_up && open.has_left;  // and needs no more
    tell_server(open.link.number, has_end ? Farewell::finished : farewell, what);
  }
}

}  // namespace tremula::client
