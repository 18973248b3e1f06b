// SPDX-License-Identifier: Apache-2.0
#include "client/stream/out_stream.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "client/session/wait.hpp"

namespace tremula::client {

using core::Errc, core::Error, core::expects;

namespace {
/// When a link fails, perhaps the consumer has died: the server knows within this time.
constexpr double explained_within_seconds = 2;
}  // namespace

OutStream::OutStream(Session& session, const std::string& name, const OutConfig& config)
    : session_(session), fields_(session, name), config_(config) {
  session_.progress().add(*this);
  session_.set_up().add(*this);
}

OutStream::~OutStream() {
  if (state_ == State::closed) return;
  end();
  try {
    for (const Open& open : links_) session_.control().forget_link(open.link.number);
    if (!is_introduced() || session_.rank() != 0) return;
    for (const Open& open : links_)
      close_link(open.link.number,
                 fmt::format("group '{}' gave stream '{}' up after {} steps without closing it",
                             session_.name(), name(), step_));
    withdraw();
  } catch (...) {
    session_.log().try_warn("client", [this] {
      return fmt::format("gave_up stream={} error=\"{}\"", name(), core::current_error().what());
    });
  }
}

void OutStream::end() noexcept {
  session_.progress().remove(*this);
  session_.set_up().remove(*this);
  session_.control().forget(name(), 0);
}

void OutStream::close_link(std::uint64_t link, const std::string& why, bool gave_up) {
  wire::ToServer message;
  message.mutable_close_link()->set_link(link);
  message.mutable_close_link()->set_why(why);
  message.mutable_close_link()->set_gave_up(gave_up);
  session_.control().call(message, core::Deadline::after(1));
}

int OutStream::declare(proto::Field field) {
  expects(state_ == State::declaring && !is_introduced(), [&] {
    return fmt::format(
        "stream '{}': expected all fields to be declared before the first begin_step of any "
        "stream of the session, which tells the server of all of them; found '{}' after it: "
        "declare the fields of all streams first",
        name(), field.name);
  });
  return fields_.declare(std::move(field));
}

std::string OutStream::key() const {
  const bool is_new = state_ == State::declaring && !is_introduced() && !refusal_;
  return is_new && fields_.size() > 0 ? fmt::format("out {} {:x}", name(), fields_.hash()) : "";
}

wire::ToServer OutStream::introduction() const {
  wire::ToServer message;
  auto& announce = *message.mutable_announce();
  announce.set_stream(name());
  *announce.mutable_fields() = fields_.encoded();
  for (const auto& offer : session_.offers()) *announce.add_offers() = offer;
  announce.set_queue_depth(config_.queue_depth);
  announce.set_incarnation(incarnation());
  return message;
}

void OutStream::refuse(const Error& error) {
  if (state_ == State::declaring)
    refusal_ = error;  // wait_for_consumers() judges it
  else
    session_.log().warn("client", fmt::format("refused {}", error.what()));
}

void OutStream::withdraw() {
  wire::ToServer message;
  message.mutable_close_stream()->set_stream(name());
  session_.control().call(message, core::Deadline::after(std::min(5.0, session_.config().timeout)));
}

bool OutStream::wait_for_consumers(std::optional<core::Deadline> until) {
  if (!is_introduced() && refusal_) throw *std::exchange(refusal_, {});
  if (!is_introduced()) fields_.check_alike();
  const auto least = static_cast<std::size_t>(config_.wait_for_consumers);
  std::optional<Waiting> waiting(std::in_place, session_.control(), name(), "a consumer");
  session_.control().send_counters();
  // A consumer that was refused earlier may have been put right: then it waits, and is linked now.
  const auto outcome = session_.set_up().run(
      *this, true, [&] { return links_.size() >= least || refusal_.has_value() || !lost_.empty(); },
      until);
  waiting.reset();
  if (const auto refusal = std::exchange(refusal_, {})) {
    const auto missing = session_.run_on_root(
        [&] { return core::Bytes(links_.size() < least ? 1 : 0); }, session_.deadline());
    if (!is_introduced() || !missing.empty()) throw *refusal;
    session_.log().warn("client", fmt::format("refused {}", refusal->what()));
  }
  if (outcome.is_done || until) return outcome.is_done;
  const auto own = [&] { return to_bytes(membership()); };
  const auto came =
      from_bytes<wire::Membership>(session_.run_on_root(own, session_.deadline())).links();
  const SessionConfig& limits = session_.config();
  throw Error(Errc::timed_out,
              fmt::format("stream '{}': expected {} consumer group(s) within {} s; {} came{}{}; {}",
                          name(), least, outcome.has_come ? limits.step_timeout : limits.timeout,
                          came, outcome.found.empty() ? "" : "; found ", outcome.found,
                          outcome.has_come
                              ? "is the consumer stuck? step_timeout sets how long a step may take"
                              : "start the consumer, or set wait_for_consumers or timeout"));
}

wire::Membership OutStream::membership() {
  wire::Membership membership;
  membership.set_lost(lost_);
  membership.set_links(static_cast<int>(links_.size()));
  membership.set_is_awaited(session_.control().is_awaited());
  return membership;
}

template <class Agree>
auto OutStream::agreed(Agree&& agree) {
  try {
    return agree();
  } catch (const Error& e) {
    if (e.code() == Errc::mismatch)
      for (Open& open : links_) give_up(open, fmt::format("failed: {}", e.what()));
    if (e.code() != Errc::peer_lost) throw;
    for (Open& open : links_) has_ended(open);  // perhaps the server has told why it came to that
    if (!lost_.empty() && lost_ != e.what())
      throw Error(e.code(),
                  fmt::format("stream '{}', step {}: {}; {}", name(), step_, lost_, e.what()));
    throw;
  }
}

OutStream::Admission OutStream::admit(bool begins) {
  // Rank 0 may come to a step much later than the others: it is data that they wait for.
  const auto told = agreed([&] {
    return session_.size() == 1
               ? membership()
               : from_bytes<wire::Membership>(session_.run_on_root(
                     [&] { return to_bytes(membership()); }, session_.step_deadline()));
  });
  lost_.clear();
  const auto before = links_.size();
  if (told.is_awaited()) {
    // The set-up has a limit of its own, which counts from when all ranks are here.
    if (session_.size() > 1)
      agreed([&] { session_.run_collectively([] {}, session_.step_deadline()); });
    session_.set_up().run(
        *this, begins, [] { return true; }, core::Deadline::after(0));
  }
  const auto links = static_cast<std::size_t>(told.links()) + links_.size() - before;
  return {.lost = told.lost().empty() ? std::exchange(lost_, {}) : told.lost(),
          .is_enough = links >= static_cast<std::size_t>(config_.wait_for_consumers)};
}

void OutStream::join(const wire::Matched& matched) {
  try {
    Open open;
    open.link = open_link(session_, matched, fields_.all(), transport::Side::producer);
    open.first_step = state_ == State::in_step ? step_ + 1 : step_;
    ended_.plan_seconds += open.link.plan.seconds;
    ended_.transport = open.link.transport;
    session_.run_collectively([&] {  // staging may not fit into memory
      open.exchange =
          std::make_unique<Source>(std::move(open.link.plan), *open.link.endpoint, open.link.number,
                                   open.first_step, open.link.queue_depth, session_.copy_threads());
      const auto& messages = open.exchange->plan().messages;
      const bool needs_thread = std::ranges::any_of(
          messages, [&](const Message& m) { return open.link.endpoint->needs_calls(m.peer); });
      if (config_.progress == Progress::thread ||
          (config_.progress == Progress::automatic && needs_thread))
        session_.progress().start_thread();
      const auto hold = session_.progress().hold();
      links_.reserve(links_.size() + 1);
    });
    const auto hold = session_.progress().hold();
    links_.push_back(std::move(open));
  } catch (const Error& e) {  // on every rank; it costs the producer nothing else
    lost_ =
        fmt::format("consumer group '{}' could not be linked: {}", matched.peer_group(), e.what());
    session_.log().warn("client", lost_);
    session_.control().forget_link(matched.link());
    if (session_.rank() != 0) return;
    try {
      close_link(matched.link(), lost_);
    } catch (const Error& gone) {
      session_.log().warn(
          "client", fmt::format("close_link link={} error=\"{}\"", matched.link(), gone.what()));
    }
  }
}

bool OutStream::has_ended(Open& open) {
  if (open.exchange->has_left()) return true;
  if (open.is_given_up) {
    lost_ = fmt::format("consumer group '{}': {}", open.link.peer_group, open.failure);
    return true;
  }
  const auto end = session_.control().link_end(open.link.number);
  if (!end) return false;
  if (end->lost) lost_ = end->why;
  return true;
}

void OutStream::drop(std::size_t i) {
  session_.log().info("client",
                      fmt::format("unlinked stream={} link={} peer={} steps={} {}", name(),
                                  links_[i].link.number, links_[i].link.peer_group, step_, lost_));
  ended_.traffic += links_[i].exchange->traffic();
  links_[i].exchange.reset();  // before its endpoint
  session_.control().forget_link(links_[i].link.number);
  links_.erase(links_.begin() + static_cast<std::ptrdiff_t>(i));
  session_.plans().forget_idle();
}

void OutStream::drop_ended() {
  const auto hold = session_.progress().hold();
  advance();  // a consumer that took everything before it went needs nothing taken back
  for (std::size_t i = 0; i < links_.size();)
    if (has_ended(links_[i]))
      drop(i);
    else
      ++i;
}

void OutStream::keep_failure(Open& open) noexcept {
  try {
    open.failure = core::current_error().what();
  } catch (...) {
    open.failure = "out of memory";
  }
}

void OutStream::give_up(Open& open, std::string_view did) noexcept {
  open.is_given_up = true;
  try {
    open.failure = fmt::format("rank {} of group '{}' {}", session_.rank(), session_.name(), did);
    close_link(open.link.number, open.failure, /*gave_up=*/true);
  } catch (...) {
    if (open.failure.empty()) open.failure = "out of memory";
    session_.log().try_warn("client", [this] {
      return fmt::format("give_up stream={} error=\"{}\"", name(), core::current_error().what());
    });
  }
}

Error OutStream::failed(const Open& open) const {
  return Error(Errc::transport,
               fmt::format("stream '{}', step {}: the link to consumer group '{}' failed: {}",
                           fields_.stream(), step_, open.link.peer_group, open.failure));
}

template <class Poll>
void OutStream::wait_for_links(Poll&& poll, const std::string& what) {
  try {
    wait_for_all(poll, what);
  } catch (...) {
    take_back();
    lent_.forget();
    throw;
  }
}

template <class Poll>
void OutStream::wait_for_all(Poll& poll, const std::string& what) {
  const auto hold = session_.progress().hold();
  const auto all_moved = [this] {
    std::uint64_t sum = 0;
    for (const Open& open : links_) sum += open.exchange->moved();
    return sum;
  };
  auto moved = all_moved();
  for (std::size_t i = 0; i < links_.size();) {
    Open& open = links_[i];
    bool is_alive = true, is_reported = false, is_done = false;
    const auto check = [&] {
      is_alive = !has_ended(open);
      if (!is_reported) session_.control().report_waiting(name(), 0, open.link.peer_group);
      is_reported = true;
    };
    const auto start = core::Deadline::Clock::now();
    try {
      if (open.failure.empty())
        is_done =
            wait_for(
                [&] {
                  session_.progress().advance();
                  if (!is_alive || !open.failure.empty() || poll(*open.exchange))
                    return Polled::done;
                  const auto before = std::exchange(moved, all_moved());
                  return before == moved ? Polled::nothing : Polled::moved;
                },
                session_.step_deadline(), check, [this] { return session_.progress().sleep(); })
                .second;
    } catch (...) {
      keep_failure(open);
    }
    if (!open.failure.empty()) {  // perhaps the consumer died: the server knows within a moment
      is_alive = !session_.waits_for([&] { return has_ended(open); },
                                     core::Deadline::after(explained_within_seconds));
      if (is_alive) {
        const Error error = failed(open);
        give_up(open, fmt::format("failed: {}", open.failure));
        throw error;
      }
    }
    wait_seconds_ += core::Deadline::Seconds(core::Deadline::Clock::now() - start).count();
    if (is_reported) session_.control().report_waiting(name(), 0, "");
    if (is_alive && !is_done)
      throw Error(
          Errc::timed_out,
          fmt::format("stream '{}', step {}: waited {} s for consumer group '{}' to {}; is it "
                      "stuck? step_timeout sets how long a step may take",
                      name(), step_, session_.config().step_timeout, open.link.peer_group, what));
    if (is_alive && !open.exchange->has_left())
      ++i;
    else
      drop(i);
  }
}

bool OutStream::begin_step_until(std::optional<core::Deadline> until) {
  expects(state_ != State::in_step, [&] {
    return fmt::format("stream '{}': expected end_step before the next begin_step", name());
  });
  expects(state_ != State::closed, [&] {
    return fmt::format("stream '{}' is closed: open it again for further steps", name());
  });
  if (!is_admitted_) {
    session_.begin_call("begin_step", name(), step_);
    drop_ended();
    if (state_ == State::declaring && !wait_for_consumers(until)) return false;
    const auto [lost, is_enough] = admit(true);
    if (!lost.empty() && !is_enough)
      throw Error(Errc::peer_lost, fmt::format("stream '{}', step {}: {}", name(), step_, lost));
    state_ = State::between_steps;
  }
  is_admitted_ = until && !session_.waits_for([this] { return has_room(); }, *until);
  if (is_admitted_) return false;
  wait_for_links([&](Source& exchange) { return exchange.is_ready(step_); },
                 "take an earlier step");
  is_put_.assign(fields_.size(), false);
  state_ = State::in_step;
  return true;
}

bool OutStream::has_room() {
  const auto hold = session_.progress().hold();
  return std::ranges::all_of(links_, [this](Open& open) {
    return !open.failure.empty() || has_ended(open) || open.exchange->is_ready(step_);
  });
}

bool OutStream::is_ready() {
  if (state_ == State::in_step || state_ == State::closed) return true;
  if (state_ == State::declaring)
    return refusal_ || links_.size() >= static_cast<std::size_t>(config_.wait_for_consumers);
  session_.progress().advance();
  return has_room();
}

std::uint64_t OutStream::put_async(int field, std::span<const std::byte> local) {
  hand_over(field, local, true);
  return step_;
}

void OutStream::hand_over(int field, std::span<const std::byte> local, bool may_lend) {
  expects(state_ == State::in_step,
          [&] { return fmt::format("stream '{}': expected begin_step before put", name()); });
  const std::size_t f = fields_.check(field, local.size());
  expects(!is_put_[f], [&] {
    return fmt::format("stream '{}', step {}: field '{}' was put twice", name(), step_,
                       fields_[f].name);
  });
  const auto hold = session_.progress().hold();
  for (Open& open : links_) {
    if (!open.failure.empty() || step_ < open.first_step) continue;
    try {
      if (const auto number = open.link.number_of[f])
        open.exchange->put(step_, *number, local, may_lend);
    } catch (...) {
      keep_failure(open);
    }
  }
  is_put_[f] = true;
  if (session_.config().check_lent && (may_lend || config_.queue_depth == 0))
    lent_.lend(step_, f, fields_.part(f), core::element_bytes(fields_[f].type), local);
}

void OutStream::check_lent(std::uint64_t step) {
  const auto changed = lent_.take_back(step);
  if (!changed) return;
  throw Error(
      Errc::mismatch,
      fmt::format("stream '{}', step {}, field '{}': expected the array to stay as it was put "
                  "until {}; found that the application has changed it before, so that consumers "
                  "may have got other elements",
                  name(), changed->step, fields_[changed->field].name,
                  config_.queue_depth == 0 ? "end_step has returned, as queue_depth is 0"
                                           : "is_taken or wait has said that it is taken"));
}

bool OutStream::is_taken(std::uint64_t step) {
  expects(step < step_, [&] {
    return fmt::format("stream '{}': expected a step that was ended, below {}; found {}", name(),
                       step_, step);
  });
  if (state_ == State::closed) return true;
  const auto hold = session_.progress().hold();
  session_.progress().advance();
  bool is_all = true;
  for (Open& open : links_) {
    if (open.exchange->has_credited(step + 1)) continue;
    if (has_ended(open)) {  // the next step drops the link, which may take a while
      open.exchange->take_back();
      continue;
    }
    is_all = false;
    if (open.failure.empty()) continue;
    if (!open.explained_by)
      open.explained_by = core::Deadline::after(explained_within_seconds);
    else if (open.explained_by->expired())
      throw failed(open);
  }
  if (is_all) check_lent(step);
  return is_all;
}

void OutStream::wait_taken(std::uint64_t step) {
  expects(step < step_, [&] {
    return fmt::format("stream '{}': expected a step that was ended, below {}; found {}", name(),
                       step_, step);
  });
  if (state_ == State::closed) return;
  drop_ended();
  wait_for_links([&](Source& exchange) { return exchange.has_credited(step + 1); }, "take a step");
  check_lent(step);
}

void OutStream::end_step() {
  expects(state_ == State::in_step,
          [&] { return fmt::format("stream '{}': expected begin_step before end_step", name()); });
  for (std::size_t f = 0; f < fields_.size(); ++f)
    expects(is_put_[f], [&] {
      return fmt::format("stream '{}', step {}: expected every field to be put; '{}' is missing",
                         name(), step_, fields_[f].name);
    });
  for (Open& open : links_) {
    const auto hold = session_.progress().hold();
    if (!open.failure.empty() || step_ < open.first_step) continue;
    try {
      open.exchange->send(step_);
    } catch (...) {
      keep_failure(open);
    }
  }
  ++step_;
  state_ = State::between_steps;
  if (config_.queue_depth == 0)
    wait_for_links([&](Source& exchange) { return exchange.is_credited(step_); }, "take the step");
  report();
  const Statistics now = statistics();
  of_last_step_ = now.since(before_step_);
  before_step_ = now;
  session_.progress().wake();
  if (config_.queue_depth == 0) check_lent(step_ - 1);
}

void OutStream::take_back() noexcept {
  const auto hold = session_.progress().hold();
  for (Open& open : links_) {
    if (open.exchange->has_credited(step_)) continue;
    open.exchange->take_back();
    if (config_.queue_depth == 0 && open.failure.empty())
      give_up(open, "took a step back before it was taken");
  }
}

bool OutStream::advance() noexcept {
  bool is_idle = true;
  for (Open& open : links_) {
    try {
      is_idle = (!open.failure.empty() || open.exchange->advance()) && is_idle;
    } catch (...) {
      keep_failure(open);
    }
  }
  return !is_idle;
}

void OutStream::list_waits(WaitWords& words) {
  for (Open& open : links_)
    if (open.failure.empty()) open.exchange->list_waits(words);
}

void OutStream::close() {
  expects(state_ != State::in_step,
          [&] { return fmt::format("stream '{}': expected end_step before close", name()); });
  if (state_ == State::closed) return;
  if (!is_introduced()) {  // nobody was ever told of it
    end();
    state_ = State::closed;
    return;
  }
  session_.begin_call("close", name(), step_);
  if (session_.size() > 1)  // rank 0 learns of ranks that are not here for the same
    agreed([&] { session_.run_collectively([] {}, session_.step_deadline()); });
  std::string lost =
      admit(false).lost;  // a consumer that has just come learns that the stream ends
  // No rank says that the stream has ended before every rank has come to its end; while it waits
  // for the others, nothing of its own may be on the way.
  wait_for_links([&](Source& exchange) { return exchange.is_credited(step_); },
                 "take the last steps");
  session_.run_collectively([] {}, session_.step_deadline());
  {
    const auto hold = session_.progress().hold();
    for (Open& open : links_) open.exchange->send_end(step_);
  }
  wait_for_links([&](Source& exchange) { return exchange.is_credited(step_ + 1); }, "take the end");
  {
    const auto hold = session_.progress().hold();
    while (!links_.empty()) drop(0);
  }
  state_ = State::closed;
  report(true);
  session_.control().send_counters();
  end();
  // The server hears of the end when every rank has delivered everything.
  if (lost.empty()) lost = lost_;
  std::string told;
  try {
    session_.run_collectively(
        [&] {
          if (!lost.empty() && config_.wait_for_consumers > 0) throw Error(Errc::peer_lost, lost);
        },
        session_.step_deadline());
  } catch (const Error& e) {
    if (e.code() != Errc::peer_lost) throw;
    told = e.what();
  }
  session_.run_on_root(
      [&] {
        try {
          withdraw();
        } catch (const Error& e) {  // nothing is lost: every consumer has everything
          session_.log().warn("client",
                              fmt::format("close stream={} error=\"{}\"", name(), e.what()));
        }
        return core::Bytes{};
      },
      session_.deadline());
  if (!told.empty())
    throw Error(Errc::peer_lost, fmt::format("stream '{}', close: {}", name(), told));
}

Statistics OutStream::statistics() {
  // The session may end before the handle of a closed stream.
  const auto hold = state_ == State::closed ? ProgressEngine::Hold() : session_.progress().hold();
  Statistics s = ended_;
  s.steps = step_;
  s.wait_seconds = wait_seconds_;
  for (const Open& open : links_) s.traffic += open.exchange->traffic();
  return s;
}

Statistics OutStream::step_statistics() const { return of_last_step_; }

std::vector<PeerStatistics> OutStream::peer_statistics() {
  std::vector<PeerStatistics> peers;
  if (state_ == State::closed) return peers;
  const auto hold = session_.progress().hold();
  for (const Open& open : links_) {
    const auto& messages = open.exchange->plan().messages;
    for (std::size_t m = 0; m < messages.size(); ++m)
      peers.push_back({open.link.peer_group, messages[m].peer, open.exchange->traffic(m),
                       std::string(open.exchange->path(m))});
  }
  return peers;
}

void OutStream::report(bool is_last) {
  const auto now = core::Deadline::Clock::now();
  if (!is_last && now < next_report_) return;
  next_report_ = now + std::chrono::milliseconds(5);
  const Statistics s = statistics();
  wire::Counters counters;
  counters.set_stream(name());
  counters.set_steps(s.steps);
  counters.set_packages(s.traffic.packages);
  counters.set_bytes(s.traffic.bytes);
  counters.set_wait_seconds(s.wait_seconds);
  counters.set_plan_seconds(s.plan_seconds);
  counters.set_copied_bytes(s.traffic.copied_bytes);
  counters.set_copy_seconds(s.traffic.copy_seconds);
  counters.set_wire_seconds(s.traffic.wire_seconds);
  session_.control().report(counters);
}

}  // namespace tremula::client
