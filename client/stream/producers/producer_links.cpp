// SPDX-License-Identifier: Apache-2.0
#include "client/stream/producers/producer_links.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <utility>

#include "proto/convert.hpp"

namespace tremula::client {

using core::Errc, core::Error;

namespace {
/// To copy so much, of one field or of many, takes longer than a look at all that is under way.
constexpr std::size_t bytes_between_looks = std::size_t{64} << 10;
/// How long steps are kept while another group has yet to let this one in. That group is inside a step then, and
/// may wait for what these steps hold up.
constexpr double kept_seconds = 0.25;
}  // namespace

void ProducerLinks::open(const wire::Matched& matched) {
  try {
    add_link(matched, {});
  } catch (const Error& e) {
    give_up(matched.link(), e);
    throw;
  }
  if (matched.missing() > 0) return;
  const auto begins_later = [this] {
    const auto hold = session_.progress().hold();
    return std::ranges::any_of(links_,
                               [](const Open& open) { return open.link.signs->begins_later(); });
  };
  is_open_ = true;
  if (links_.size() == 1 || !begins_later()) complete();
}

void ProducerLinks::add_link(const wire::Matched& matched, const Before& before) {
  incarnation_ = matched.incarnation();
  Open open;
  open.link = open_link(session_, matched, fields_.all(), {.side = transport::Side::consumer},
                        fields_.targets());
  open.matched = matched;
  open.before = before;
  session_.run_collectively([&] {  // staging may not fit into memory
    open.exchange =
        std::make_unique<Sink>(std::move(open.link.plan), *open.link.endpoint, open.link.number,
                               open.link.queue, session_.copy_threads());
    const ExchangePlan& plan = open.exchange->plan();
    open.needs_calls =
        !plan.changing.empty() || std::ranges::any_of(plan.messages, [&](const Message& m) {
          return open.link.endpoint->needs_calls(m.peer);
        });
    if (open.needs_calls) session_.progress().start_thread();
    const auto hold = session_.progress().hold();
    links_.reserve(links_.size() + 1);
  });
  const auto hold = session_.progress().hold();
  links_.push_back(std::move(open));
}

void ProducerLinks::give_up(std::uint64_t link, const Error& error) {
  if (session_.rank() == Rank{0}) tell_server(link, Farewell::of_all, error.what());
  session_.control().forget_link(link);
}

void ProducerLinks::complete() {
  if (links_.size() > 1) {
    std::uint64_t first = 0;
    {
      const auto hold = session_.progress().hold();
      pass_until_ = 0;  // what is told now is what has gone by
      for (const Open& open : links_) first = std::max(first, open.next());
    }
    const auto mine = std::as_bytes(std::span(&first, 1));
    for (const core::Bytes& bytes :
         session_.allgather({mine.begin(), mine.end()}, session_.deadline())) {
      std::uint64_t theirs = 0;
      std::memcpy(&theirs, bytes.data(), std::min(bytes.size(), sizeof theirs));
      first = std::max(first, theirs);
    }
    const auto hold = session_.progress().hold();
    pass_until_ = first;
    std::ranges::sort(links_, {},
                      [](const Open& open) -> std::string_view { return open.link.peer_group; });
  }
  is_complete_ = true;
}

bool ProducerLinks::awaits_begin() {
  if (!is_open_ || is_complete_) return false;
  const auto hold = session_.progress().hold();
  session_.progress().advance();
  return std::ranges::any_of(links_,
                             [](const Open& open) { return open.link.signs->awaits_begin(); });
}

bool ProducerLinks::can_begin() { return is_open_ && !is_complete_ && !awaits_begin(); }

void ProducerLinks::await_begin() {
  if (is_open_ && !is_complete_ && !kept_until_) kept_until_ = core::Deadline::after(kept_seconds);
}

std::optional<Error> ProducerLinks::why_not_begun() {
  if (links_.empty() || is_complete_) return std::nullopt;
  const auto hold = session_.progress().hold();
  session_.progress().advance();
  if (is_open_ && !awaits_begin()) return std::nullopt;
  if (!not_begun_) not_begun_ = find_failure();
  return not_begun_;
}

std::optional<Error> ProducerLinks::find_failure() {
  const auto of_group = [](const Open& open, Errc code, std::string_view text) {
    return Error(code, fmt::format("producer group '{}': {}", open.link.peer_group, text));
  };
  for (const Open& open : links_) {
    if (!open.failure) continue;
    try {
      std::rethrow_exception(open.failure);
    } catch (...) {
      const Error e = core::current_error();
      if (e.code() != Errc::transport && e.code() != Errc::peer_lost)
        return of_group(open, e.code(), e.what());
      // Perhaps because the producer died: the server knows within a moment.
      if (!explained_by_) explained_by_ = core::Deadline::after(explained_within_seconds);
      if (explained_by_->expired()) return of_group(open, Errc::peer_lost, e.what());
    }
  }
  const std::string wrong = complaint_of_any();
  if (wrong.empty()) return std::nullopt;
  return of_group(links_[std::exchange(at_, 0)], Errc::peer_lost, wrong);
}

void ProducerLinks::report_not_begun() noexcept {
  try {
    if (session_.rank() == Rank{0} || is_not_begun_reported_ || find_end()) return;
    const auto why = why_not_begun();
    if (!why) return;
    is_not_begun_reported_ = true;
    report_own_failure(*why);
  } catch (...) {  // no memory for the text: the others wait until the time of their call is up
  }
}

bool ProducerLinks::begin(std::optional<core::Deadline> until) {
  core::expects(is_open_, "links begin only after all of them are open");
  bool has_begun = false;
  session_.run_collectively([&] {
    std::optional<Control::LinkEnd> end;
    std::optional<Error> wrong;
    const auto is_over = [&] {
      return (has_begun = !awaits_begin()) || (end = find_end()).has_value() ||
             (wrong = why_not_begun()).has_value();
    };
    session_.waits_for(is_over, until.value_or(session_.deadline()));
    if (wrong) throw Error(wrong->code(), fmt::format("stream '{}': {}", stream(), wrong->what()));
    if (end) throw Error(Errc::peer_lost, fmt::format("stream '{}': {}", stream(), end->why));
  });
  const auto all = session_.allgather({static_cast<std::byte>(has_begun)}, session_.deadline());
  const auto missing = std::ranges::find(all, core::Bytes{std::byte{0}});
  if (missing != all.end() && until) return false;
  if (missing != all.end())
    throw Error(Errc::timed_out,
                fmt::format("stream '{}': expected each group that produces it to send its first "
                            "step to all ranks of group '{}' in time; found that one has not sent "
                            "it to rank {}",
                            stream(), session_.name(), missing - all.begin()));
  complete();
  return true;
}

void ProducerLinks::let_pass() {
  const auto hold = session_.progress().hold();
  if (!links_.empty() && !is_complete_) pass_until_ = std::numeric_limits<std::uint64_t>::max();
}

void ProducerLinks::give_up(const std::string& why) {
  if (session_.rank() == Rank{0}) tell_server(Farewell::of_all, why);
  drop_all();
}

void ProducerLinks::renew(const std::string& why) {
  ended_ = statistics();
  give_up(why);
  is_lost_ = false;
}

void ProducerLinks::drop_all() {
  const auto hold = session_.progress().hold();
  forget();
  links_.clear();
  is_open_ = is_complete_ = is_not_begun_reported_ = false;
  kept_until_.reset();
  explained_by_.reset();
  not_begun_.reset();
  pass_until_ = 0;
}

void ProducerLinks::forget() {
  for (const Open& open : links_) {
    session_.control().forget(stream(), open.link.number);
    session_.control().forget_link(open.link.number);
  }
}

bool ProducerLinks::advance() noexcept {
  if (is_lost_) return false;
  bool is_busy = false;
  for (Open& open : links_) {
    if (open.failure) continue;
    try {
      // First, so that a failed step does not hide which step the link begins with.
      open.link.signs->advance();
      const bool is_idle = open.exchange->advance();
      catch_up(open);
      // A producer may close while this rank waits for something else of that producer.
      if (open.exchange->poll() == Sink::State::end && !open.link.signs->awaits_begin()) {
        if (open.exchange->is_redeclared())
          answer(open);
        else
          leave(open);
      }
      is_busy = is_busy || !is_idle || open.needs_calls;
    } catch (...) {
      open.failure = std::current_exception();
    }
  }
  return is_busy;
}

void ProducerLinks::list_waits(WaitWords& words) {
  if (is_lost_) return;
  for (Open& open : links_) open.exchange->list_waits(words);
}

bool ProducerLinks::catch_up(Open& open) {
  while (open.next() < pass_until_) {
    if (open.link.signs->awaits_begin() || !open.exchange->poll_finish()) return false;
    open.exchange->finish_step();
  }
  return true;
}

bool ProducerLinks::poll_step() {
  bool is_all = true;
  std::size_t ended = 0, begun = 0;
  for (at_ = 0; at_ < links_.size(); ++at_) {
    Open& open = links_[at_];
    open.exchange->claim();
    const bool is_in_turn = catch_up(open);
    const auto state = open.exchange->poll();
    if (state == Sink::State::end) {
      ++ended;
      continue;
    }
    if (is_in_turn && state == Sink::State::step) ++begun;
    is_all = is_in_turn && open.exchange->poll_complete() && is_all;
  }
  at_ = 0;
  if (ended == 0 && is_all) check_steps();
  if (ended == 0 && is_all && step() < had_before_) {
    if (poll_finish())
      for (const Open& open : links_) open.exchange->finish_step();
    return false;
  }
  if (ended == 0 && is_all) check_times();
  if (ended == 0) return is_all;
  const auto is_at_same_step = [this](const Open& open) {
    return open.exchange->step() == links_.front().exchange->step();
  };
  if (begun > 0 || (ended == links_.size() && !std::ranges::all_of(links_, is_at_same_step)))
    throw_uneven();
  return ended == links_.size();
}

bool ProducerLinks::poll_end() {
  return std::ranges::all_of(
      links_, [](const Open& open) { return open.exchange->poll() == Sink::State::end; });
}

Sink::Next ProducerLinks::look_ahead() {
  Sink::Next all{.state = Sink::State::step, .time = {}};
  bool is_known = true;
  for (at_ = 0; at_ < links_.size(); ++at_) {
    const auto next = links_[at_].exchange->look_ahead();
    is_known = is_known && next.state != Sink::State::nothing;
    if (next.state == Sink::State::end) all.state = Sink::State::end;
    if (at_ == 0) all.time = next.time;  // check_times() compares them when the step is in turn
  }
  at_ = 0;
  return is_known ? all : Sink::Next{};
}

std::string ProducerLinks::why_no_look_ahead() const {
  for (const Open& open : links_) {
    const Queue& queue = open.link.queue;
    const auto refusal = [&](std::string_view expected, std::string_view found) {
      return fmt::format("expected producer group '{}' to {}; found {}", open.link.peer_group,
                         expected, found);
    };
    if (queue.is_shared)
      return refusal("send all steps to this group", "that groups share them (steps: share)");
    if (queue.when_full != WhenFull::block)
      return refusal("drop no step (steps: every, when_full: block)",
                     "a queue that drops steps when it is full");
    if (queue.depth < 2)
      return refusal("have room for two steps in flight (queue_depth, queue_bytes)",
                     fmt::format("room for {}", queue.depth));
  }
  return {};
}

void ProducerLinks::check_steps() const {
  if (links_.size() == 1) return;  // a single group may begin later than it has promised
  const std::uint64_t next = links_.front().next();
  for (const Open& open : links_)
    if (open.exchange->step() != next)
      throw Error(
          Errc::mismatch,
          fmt::format("stream '{}', step {}: expected each producer group to send this step "
                      "next, as none of them drops steps; found step {} of group '{}'",
                      stream(), next, open.exchange->step(), open.link.peer_group));
}

void ProducerLinks::check_times() const {
  const auto text = [](const Open& open) {
    const auto time = open.exchange->time();
    return time ? fmt::format("time {}", *time) : std::string("no time");
  };
  const Open& first = links_.front();
  for (const Open& open : links_)
    if (open.exchange->time() != first.exchange->time())
      throw Error(Errc::mismatch,
                  fmt::format("{}: expected all groups that produce it to set the same time; found "
                              "{} of group '{}' and {} of group '{}'",
                              place(), text(first), first.link.peer_group, text(open),
                              open.link.peer_group));
}

std::string ProducerLinks::place() const {
  const auto hold = session_.progress().hold();
  if (links_.empty()) return fmt::format("stream '{}', first step", stream());
  const Open& open = links_.front();
  return fmt::format("stream '{}', step {}", stream(),
                     std::max(open.link.first_step, open.exchange->step()));
}

void ProducerLinks::throw_uneven() {
  const auto first = std::ranges::min_element(links_, {}, [](const Open& open) {
    return open.exchange->poll() == Sink::State::end ? open.exchange->step()
                                                     : std::numeric_limits<std::uint64_t>::max();
  });
  const std::uint64_t step = first->exchange->step();
  const auto other = std::ranges::find_if(links_, [&](const Open& open) {
    return open.exchange->poll() != Sink::State::end || open.exchange->step() > step;
  });
  const Error error(
      Errc::mismatch,
      fmt::format("stream '{}', step {}: expected all groups that produce it to end it after the "
                  "same step; found that group '{}' has ended it before this one, and group '{}' "
                  "has not",
                  stream(), step, first->link.peer_group, other->link.peer_group));
  for (Open& open : links_)  // the others learn of the cause: throw_cause()
    if (open.exchange->poll() == Sink::State::end) leave(open);
  throw error;
}

void ProducerLinks::get(std::size_t field, MemoryView array) {
  const auto hold = session_.progress().hold();
  for (Open& open : links_) {
    open.exchange->begin_again(*open.link.number_of[field]);  // it gets all that it declares
    open.is_fetched = false;
  }
  try {
    got_bytes_ += array.bytes.size();
    if (got_bytes_ >= bytes_between_looks)
      move_others();  // they would wait for the copies of one field after the other
    rethrow_failure();
    if (fetch_some(field, array)) return;
  } catch (...) {
    throw_cause(core::current_error(), [] {});
  }
  auto before = moved();
  const auto poll = [&] {
    if (fetch_some(field, array)) return Polled::done;
    const auto last = std::exchange(before, moved());
    return last == before ? Polled::nothing : Polled::moved;
  };
  wait(std::cref(poll), "get", "send the rest of the step");  // which allocates nothing
}

bool ProducerLinks::fetch_some(std::size_t field, MemoryView array) {
  bool is_all = true;
  for (at_ = 0; at_ < links_.size(); ++at_) {
    Open& open = links_[at_];
    if (!open.is_fetched)
      open.is_fetched = open.exchange->fetch_some(*open.link.number_of[field], array);
    is_all = is_all && open.is_fetched;
  }
  at_ = 0;
  return is_all;
}

std::uint64_t ProducerLinks::moved() const noexcept {
  std::uint64_t sum = 0;
  for (const Open& open : links_) sum += open.exchange->moved();
  return sum;
}

void ProducerLinks::give_up_fetching() noexcept {
  for (Open& open : links_) open.exchange->give_up_fetching();
}

void ProducerLinks::rethrow_mismatch() {
  Mismatch first;
  for (Open& open : links_) first.keep([&] { open.exchange->rethrow_mismatch(); });
  first.rethrow();
}

bool ProducerLinks::poll_finish() {
  bool can = true;
  for (at_ = 0; at_ < links_.size(); ++at_) {
    const Link& link = links_[at_].link;
    if (!link.queue.lends()) continue;  // else what was read may have been taken back
    if (const auto end = session_.control().link_end(link.number))
      throw Error(Errc::peer_lost, end->why);
  }
  for (at_ = 0; at_ < links_.size(); ++at_) can = links_[at_].exchange->poll_finish() && can;
  at_ = 0;
  return can;
}

void ProducerLinks::finish_step() {
  time_ = time();
  for (at_ = 0; at_ < links_.size(); ++at_) links_[at_].exchange->finish_step();
  at_ = 0;
  ++steps_;
}

void ProducerLinks::pass_step() {
  for (at_ = 0; at_ < links_.size(); ++at_) links_[at_].exchange->finish_step();
  at_ = 0;
  ++passed_;
}

void ProducerLinks::answer(Open& open) {
  if (open.has_answered || !open.exchange->poll_told()) return;
  open.exchange->leave();
  open.has_answered = true;
}

void ProducerLinks::leave(Open& open) {
  answer(open);
  if (open.has_left || !open.has_answered) return;
  open.link.signs->end_all();
  open.has_left = true;
}

void ProducerLinks::take_leave() {
  const auto is_told = [this] {
    bool is_all = true;
    for (at_ = 0; at_ < links_.size(); ++at_) is_all = links_[at_].exchange->poll_told() && is_all;
    at_ = 0;
    return is_all;
  };
  wait([&] { return polled(is_told()); }, nullptr, "take the credits");
  try {
    const auto hold = session_.progress().hold();
    for (Open& open : links_) leave(open);
    session_.waits_for(is_told, core::Deadline::after(1));
  } catch (const Error& e) {  // the producer has gone meanwhile: it needs no word any more
    session_.log().debug("client", fmt::format("leave stream={} error=\"{}\"", stream(), e.what()));
  }
}

std::vector<std::uint64_t> ProducerLinks::numbers() const {
  std::vector<std::uint64_t> numbers;
  numbers.reserve(links_.size());
  for (const Open& open : links_) numbers.push_back(open.link.number);
  return numbers;
}

void ProducerLinks::list_turns(std::vector<LinkTurns>& turns) const {
  for (const Open& open : links_)
    if (!open.has_left)
      turns.push_back({open.link.number, open.before.turns + open.exchange->steps()});
}

std::uint64_t ProducerLinks::dropped() const {
  std::uint64_t all = ended_.dropped;
  for (const Open& open : links_) all += open.exchange->dropped();
  return all;
}

Statistics ProducerLinks::statistics() const {
  const auto hold = session_.progress().hold();
  Statistics s = ended_;
  s.steps = steps_;
  s.passed = passed_;
  s.wait_seconds = wait_seconds_;
  for (const Open& open : links_) {
    s.traffic += open.exchange->traffic();
    s.plan_seconds += open.exchange->plan().seconds;
    s.transport = open.link.transport;
  }
  s.dropped = dropped();
  return s;
}

core::Index ProducerLinks::arriving_elements(std::size_t field) const {
  core::Index elements = 0;
  for (const Open& open : links_) {
    const auto number = open.link.number_of[field];
    if (!number) continue;
    const ExchangePlan::Field& planned = open.exchange->plan().fields[*number];
    if (planned.is_needed) elements += planned.plan->elements();
  }
  return elements;
}

std::vector<PeerStatistics> ProducerLinks::peer_statistics() const {
  const auto hold = session_.progress().hold();
  std::vector<PeerStatistics> peers;
  for (const Open& open : links_) list_peers(open.link.peer_group, *open.exchange, peers);
  return peers;
}

void ProducerLinks::report(bool is_last) {
  const auto now = core::Deadline::Clock::now();
  if (!is_last && now < next_report_) return;
  next_report_ = now + std::chrono::milliseconds(5);
  for (const Open& open : links_) {
    Traffic traffic = open.before.traffic;
    traffic += open.exchange->traffic();
    wire::Counters counters;
    counters.set_stream(stream());
    counters.set_link(open.link.number);
    counters.set_steps(open.before.steps + open.exchange->steps());
    counters.set_packages(traffic.packages);
    counters.set_bytes(traffic.bytes);
    counters.set_wait_seconds(wait_seconds_);
    counters.set_plan_seconds(open.before.plan_seconds + open.exchange->plan().seconds);
    counters.set_copied_bytes(traffic.copied_bytes);
    counters.set_copy_seconds(traffic.copy_seconds);
    counters.set_dropped(open.before.dropped + open.exchange->dropped());
    if (time_) counters.set_time(*time_);
    session_.control().report(counters);
  }
}

}  // namespace tremula::client
