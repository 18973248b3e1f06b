// SPDX-License-Identifier: Apache-2.0
#include "client/stream/link/consumer_links.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "client/session/wait.hpp"
#include "proto/convert.hpp"

namespace tremula::client {

using core::Errc, core::Error;

namespace {
/// For which the calls of a stream wait, once, for a link that is set up beside it: a consumer that is
/// not slow gets the step in turn.
constexpr double brief_seconds = 0.5;
/// Links that are set up at a time, each with a thread of its own; for further ones the stream waits.
constexpr std::size_t most_openings = 16;

void add(Statistics& statistics, const Source& exchange) {
  statistics.traffic += exchange.traffic();
  statistics.dropped += exchange.dropped();
  statistics.queued_steps = std::max(statistics.queued_steps, exchange.most_steps());
  statistics.queued_bytes = std::max(statistics.queued_bytes, exchange.most_bytes());
}

/// Steps that were kept and go over a new link.
/// @param put  steps that were
std::uint64_t kept_count(const KeptSteps& kept, const wire::Matched& matched, std::uint64_t put) {
  const auto all = kept.count(put);
  if (matched.start() == wire::START_NEXT) return 0;
  if (matched.start() == wire::START_LATEST) return std::min<std::uint64_t>(all, 1);
  // Where steps are dropped all ranks send the same: what has room at once.
  const auto depth = static_cast<std::uint64_t>(matched.queue_depth());
  return matched.when_full() == wire::WHEN_FULL_BLOCK ? all : std::min(all, depth);
}
}  // namespace

std::uint64_t ConsumerLinks::first_over(const wire::Matched& matched, std::uint64_t next) const {
  return next - kept_count(kept_, matched, next - first_step());
}

LinkTerms ConsumerLinks::terms(std::uint64_t first) const {
  return {.side = transport::Side::producer,
          .first_step = first,
          .most_seconds = links_.empty() ? no_limit : patience_,
          .answers_between_calls = config_.progress != Progress::calls};
}

bool ConsumerLinks::opens_beside(const wire::Matched& matched) {
  // Such a link is set up by all ranks together.
  const auto is_special = [](const proto::Field& field) {
    return !field.whole.empty() || field.layout.listing;
  };
  const auto is_listed = [](const auto& field) {
    return field.layout().find(" lists=") != std::string::npos;
  };
  const bool has_addresses =  // of the consumer, on every rank
      std::int64_t{session_.size()} * matched.peer_size() <= proto::max_addresses_to_all;
  // A consumer of several groups is told by each with which step it begins, when it is linked.
  if (std::ranges::any_of(fields_.all(), is_special) || !has_addresses ||
      std::ranges::any_of(matched.fields(), is_listed) ||
      !session_.connects_alone(matched.offer()) || openings_.size() >= most_openings)
    return false;
  const auto needed = session_.run_on_root(
      [this] {
        const auto least = static_cast<std::size_t>(config_.wait_for_consumers);
        return core::Bytes(links_.size() < least ? 1 : 0);
      },
      session_.deadline());
  return needed.empty();
}

void ConsumerLinks::open(const wire::Matched& matched, std::uint64_t next) {
  const std::uint64_t first = first_over(matched, next);
  try {
    if (!opens_beside(matched))
      return let_in(matched, open_link(session_, matched, fields_.all(), terms(first)), first,
                    next);
    auto terms_beside = terms(first);
    terms_beside.most_seconds = patience_;
    Link link = begin_link(session_, matched, fields_.all(), terms_beside);
    session_.run_collectively([&] {
      openings_.push_back(std::make_unique<Opening>(session_, matched, std::move(link),
                                                    terms_beside, session_.deadline()));
    });
    brief_ = core::Deadline::after(brief_seconds);
  } catch (const Error& e) {  // on every rank; it costs the producer nothing else
    std::erase_if(openings_,
                  [&](const auto& opening) { return opening->matched().link() == matched.link(); });
    refuse(matched, e.what());
    if (e.code() == Errc::interrupted) throw;
  }
}

void ConsumerLinks::let_in(const wire::Matched& matched, Link link, std::uint64_t first,
                           std::uint64_t next) {
  is_agreed_ = is_agreed_ || matched.when_full() != wire::WHEN_FULL_BLOCK || matched.shares();
  Open open;
  open.link = std::move(link);
  open.matched = matched;
  open.first_step = next;
  open.next_kept = first;
  ended_.plan_seconds += open.link.plan.seconds;
  ended_.transport = open.link.transport;
  session_.run_collectively([&] {  // staging may not fit into memory
    if (open.link.queue.lends() != config_.lends)
      throw Error(Errc::protocol,
                  fmt::format("server: link {} of stream '{}': expected a queue whose steps are "
                              "{}; found one of depth {}",
                              matched.link(), stream(), config_.lends ? "lent" : "copied",
                              open.link.queue.depth));
    open.exchange =
        std::make_unique<Source>(std::move(open.link.plan), *open.link.endpoint, open.link.number,
                                 first, open.link.queue, session_.copy_threads());
    const auto& messages = open.exchange->plan().messages;
    // What changes goes by messages of any length, on one host, too.
    const bool needs_thread = !open.exchange->plan().changing.empty() ||
                              std::ranges::any_of(messages, [&](const Message& m) {
                                return open.link.endpoint->needs_calls(m.peer);
                              });
    if (config_.progress == Progress::thread ||
        (config_.progress == Progress::automatic &&
         (needs_thread || open.link.queue.keeps())))  // claims come at any time
      session_.progress().start_thread();
    const auto hold = session_.progress().hold();
    links_.reserve(links_.size() + 1);
  });
  const auto hold = session_.progress().hold();
  links_.push_back(std::move(open));
  patience_ = usual_patience;
  try {
    feed(links_.back());
  } catch (...) {
    keep_failure(links_.back());
  }
}

void ConsumerLinks::refuse(const wire::Matched& matched, const std::string& why) {
  if (!links_.empty()) patience_ = std::max(patience_ / 2, least_patience);
  lost_ = fmt::format("consumer group '{}' could not be linked: {}", matched.peer_group(), why);
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

void ConsumerLinks::admit_openings(std::uint64_t next, core::Deadline until) {
  using State = Opening::State;
  const auto is_under_way = [](const auto& opening) {
    return opening->state() == State::under_way;
  };
  session_.waits_for([&] { return std::ranges::none_of(openings_, is_under_way); }, until);
  wire::Openings mine;
  for (const auto& opening : openings_) {
    auto& told = *mine.add_links();
    const State state = opening->state();
    told.set_is_ready(state == State::ready);
    if (state == State::failed)
      told.set_failure(fmt::format("rank {} of group '{}': {}", session_.rank(), session_.name(),
                                   opening->why()));
  }
  const auto all = session_.size() == 1
                       ? std::vector<core::Bytes>{to_bytes(mine)}
                       : session_.allgather(to_bytes(mine), session_.step_deadline());
  std::vector<bool> is_ready(openings_.size(), true);
  std::vector<std::string> failure(openings_.size());
  for (const core::Bytes& bytes : all) {
    const auto of_rank = from_bytes<wire::Openings>(bytes);
    for (int i = 0; i < of_rank.links_size(); ++i) {
      const auto at = static_cast<std::size_t>(i);
      is_ready[at] = is_ready[at] && of_rank.links(i).is_ready();
      if (failure[at].empty()) failure[at] = of_rank.links(i).failure();
    }
  }
  auto openings = std::exchange(openings_, {});
  for (std::size_t i = 0; i < openings.size(); ++i) {
    if (failure[i].empty() && !is_ready[i]) {
      openings_.push_back(std::move(openings[i]));
      continue;
    }
    const wire::Matched matched = openings[i]->matched();
    try {
      const auto opening = std::exchange(openings[i], nullptr);
      if (!failure[i].empty()) throw Error(Errc::peer_lost, failure[i]);
      Link link = opening->take();
      const std::uint64_t first = link.first_step = first_over(matched, next);
      log_link(session_, link, transport::Side::producer);
      let_in(matched, std::move(link), first, next);
    } catch (const Error& e) {  // its opening holds nothing of it any more
      refuse(matched, e.what());
      if (e.code() == Errc::interrupted) throw;
    }
  }
}

core::Bytes ConsumerLinks::freeze() {
  const auto hold = session_.progress().hold();
  session_.progress().advance();
  wire::Queues known;
  for (Open& open : links_) {
    const bool is_over = !open.failure.empty() || has_ended(open);
    if (is_over && config_.lends) {  // it reads nothing from here on
      open.exchange->take_back();
      if (open.failure.empty()) open.failure = "the link has ended";
    }
    if (is_over || !open.exchange->is_agreed()) continue;
    const auto [told, done] = open.exchange->freeze();
    auto& link = *known.add_links();
    link.set_link(open.link.number);
    link.set_told(told);
    link.set_done(done);
  }
  return to_bytes(known);
}

bool ConsumerLinks::admit(std::span<const core::Bytes> known) {
  struct OfAll {
    Source::Known known;
    std::size_t ranks = 0;
  };
  std::map<std::uint64_t, OfAll> of_all;
  for (const core::Bytes& bytes : known) {
    const auto of_rank = from_bytes<wire::Queues>(bytes);
    for (const auto& link : of_rank.links()) {
      const auto [at, is_new] =
          of_all.try_emplace(link.link(), OfAll{{.told = link.told(), .done = link.done()}});
      OfAll& all = at->second;
      all.known.told = std::max(all.known.told, link.told());
      all.known.done = std::min(all.known.done, link.done());
      ++all.ranks;
    }
  }
  const auto hold = session_.progress().hold();
  std::vector<Open*> sharing;  // that no rank knows to have failed
  for (Open& open : links_)
    if (const auto all = of_all.find(open.link.number);
        all != of_all.end() && all->second.ranks == known.size() && open.exchange->is_shared())
      sharing.push_back(&open);
  const auto order = [&](const Open* open) {
    const Source& exchange = *open->exchange;
    return std::tuple(exchange.load(of_all.at(open->link.number).known),
                      open->turns_before + exchange.turns(), open->link.number);
  };
  const auto chosen = std::ranges::min_element(sharing, {}, order);
  if (chosen != sharing.end() && std::get<0>(order(*chosen)) >= (*chosen)->exchange->most_load()) {
    thaw();
    return false;
  }
  for (Open& open : links_) {
    if (open.exchange->is_shared())
      open.exchange->deal(chosen != sharing.end() && *chosen == &open);
    else if (const auto all = of_all.find(open.link.number);
             all != of_all.end() && open.exchange->drops())
      open.exchange->admit(all->second.known);
  }
  const auto is_held = [](const auto& all) {  // a rank was told of it, and has not credited it
    return all.second.known.told > all.second.known.done;
  };
  return !config_.lends || std::ranges::none_of(of_all, is_held);
}

void ConsumerLinks::thaw() noexcept {
  const auto hold = session_.progress().hold();
  for (Open& open : links_) open.exchange->thaw();
}

std::span<const std::vector<Index>> ConsumerLinks::counts_over(
    const Link& link, std::span<const std::vector<Index>> counts) {
  if (counts.empty()) return {};
  counts_.resize(link.mine.size());
  for (std::size_t f = 0; f < counts.size(); ++f)
    if (const auto number = link.number_of[f]) counts_[*number] = counts[f];
  return counts_;
}

bool ConsumerLinks::feed(Open& open) {
  const auto end = std::min(open.first_step, step_);
  for (; open.next_kept < end && open.exchange->has_idle_slot(); ++open.next_kept) {
    const KeptSteps::Step& kept = kept_.get(open.next_kept);
    for (std::size_t f = 0; f < fields_.size(); ++f)
      if (const auto number = open.link.number_of[f])
        open.exchange->put(open.next_kept, *number, std::span(kept.arrays[f]), false);
    open.exchange->send(open.next_kept, {.time = kept.time,
                                         .attributes = kept.attributes,
                                         .counts = counts_over(open.link, kept.counts)});
  }
  return open.next_kept >= end;
}

void ConsumerLinks::put(std::size_t field, std::span<const std::byte> local, bool may_lend) {
  const auto hold = session_.progress().hold();
  kept_.put(step_, field, local);
  for (Open& open : links_) {
    if (!takes_step(open)) continue;
    try {
      if (const auto number = open.link.number_of[field])
        open.exchange->put(step_, *number, local, may_lend);
    } catch (...) {
      keep_failure(open);
    }
  }
}

void ConsumerLinks::check_rows(std::span<const std::vector<Index>> counts) const {
  for (const Open& open : links_)
    for (std::size_t f = 0; f < counts.size(); ++f) {
      const auto number = open.link.number_of[f];
      const auto& fields = open.exchange->plan().fields;
      if (!number || !fields[*number].changing || !fields[*number].changing->has_key()) continue;
      const auto& rows = counts[f];
      const auto key = std::ranges::find(open.link.number_of, fields[*number].changing->key) -
                       open.link.number_of.begin();
      const auto& keys = counts[static_cast<std::size_t>(key)];
      const auto differs = std::ranges::mismatch(rows, keys).in1 - rows.begin();
      if (rows == keys) continue;
      const auto at = static_cast<std::size_t>(differs);
      throw Error(
          Errc::mismatch,
          fmt::format("stream '{}', step {}: expected as many rows of field '{}' as of its keys "
                      "'{}', by which group '{}' takes them; found {} and {} at coordinate {}",
                      stream(), step_, fields_[f].name, fields_[static_cast<std::size_t>(key)].name,
                      open.link.peer_group, rows[at], keys[at], at));
    }
}

void ConsumerLinks::send(const StepMetadata& metadata) {
  const auto hold = session_.progress().hold();
  kept_.put(step_, metadata.time, metadata.attributes, metadata.counts);
  for (Open& open : links_) {
    if (!open.exchange->takes_step()) open.exchange->leave_out();
    if (!takes_step(open)) continue;
    try {
      StepMetadata of_link = metadata;
      of_link.counts = counts_over(open.link, metadata.counts);
      open.exchange->send(step_, of_link);
    } catch (...) {
      keep_failure(open);
    }
  }
  ++step_;
  for (Open& open : links_) {
    open.most_behind = std::max(open.most_behind, open.exchange->behind(step_));
    try {
      if (open.failure.empty()) feed(open);  // one that was opened while the step was put
    } catch (...) {
      keep_failure(open);
    }
  }
}

void ConsumerLinks::send_end() {
  const auto hold = session_.progress().hold();
  has_told_end_ = true;
  for (Open& open : links_) try {
      if (open.failure.empty()) open.exchange->send_end(step_);
    } catch (...) {
      keep_failure(open);
    }
}

bool ConsumerLinks::has_room() {
  const auto hold = session_.progress().hold();
  const auto has_room = [this](Open& open) {
    try {
      // When a step begins, a link that drops makes room or leaves the step out.
      if (!open.failure.empty() || has_ended(open) || open.exchange->is_agreed() ||
          (feed(open) && open.exchange->is_ready()))
        return true;
      judge(open);
    } catch (...) {
      keep_failure(open);
    }
    return !open.failure.empty();
  };
  return std::ranges::all_of(links_, has_room) && has_shared_room();
}

bool ConsumerLinks::is_past(Open& open) {
  try {
    if (!open.failure.empty() || has_ended(open) || open.exchange->has_idle_slot()) return true;
    if (config_.lends && !open.exchange->lent_since()) return true;  // it can be withdrawn
    judge(open);
  } catch (...) {
    keep_failure(open);
  }
  return !open.failure.empty();
}

bool ConsumerLinks::has_shared_room() {
  const auto hold = session_.progress().hold();
  if (config_.lends) return std::ranges::all_of(links_, [this](Open& o) { return is_past(o); });
  bool is_any = false;
  for (Open& open : links_) {
    if (!open.exchange->is_shared()) continue;
    is_any = true;
    if (is_past(open)) return true;  // if it has failed, it is not chosen any more
  }
  return !is_any;
}

void ConsumerLinks::wait_for_shared_room(core::Deadline until) {
  const auto start = core::Deadline::Clock::now();
  session_.waits_for([this] { return has_shared_room(); }, until);
  wait_seconds_ += core::Deadline::Seconds(core::Deadline::Clock::now() - start).count();
}

std::string ConsumerLinks::shared_group() const {
  const auto is_awaited = [this](const Open& open) {
    return config_.lends ? open.exchange->lent_since().has_value() : open.exchange->is_shared();
  };
  const auto found = std::ranges::find_if(links_, is_awaited);
  return found == links_.end() ? "a consumer" : found->link.peer_group;
}

std::string_view ConsumerLinks::shared_wait_text() const noexcept {
  return config_.lends ? "the consumer groups that read the newest version to end their step"
                       : "one of the consumer groups that share the steps to take an earlier one";
}

wire::Wait ConsumerLinks::describe_shared_wait(const char* call) const {
  const auto is_shared = [](const Open& open) { return open.exchange->is_shared(); };
  if (std::ranges::count_if(links_, is_shared) == 1)
    return describe_wait(*std::ranges::find_if(links_, is_shared), call, "take an earlier step");
  // Any of them may, or they give it back in time: the server cannot judge that, and shows it only.
  wire::Wait wait;
  wait.set_call(call);
  wait.set_stream(stream());
  wait.set_step(step_);
  wait.set_what(fmt::format("for {}", shared_wait_text()));
  return wait;
}

void ConsumerLinks::end_leases() {
  const auto hold = session_.progress().hold();
  const auto now = core::Deadline::Clock::now();
  for (Open& open : links_) {
    if (is_past(open)) continue;
    const core::Deadline::Seconds held = now - *open.exchange->lent_since();
    if (held.count() < config_.lease) continue;
    open.exchange->take_back();
    go_on_without(open, fmt::format("took version {} back, which group '{}' had held for longer "
                                    "than its lease of {:.3g} s; `lease` of the stream sets how "
                                    "long a version may be read",
                                    step_ - 1, open.link.peer_group, config_.lease));
  }
}

bool ConsumerLinks::has_credited(std::uint64_t end) {
  const auto hold = session_.progress().hold();
  session_.progress().advance();
  bool is_all = true;
  for (Open& open : links_) {
    if (open.exchange->has_credited(end)) continue;
    if (has_ended(open)) {  // the next step drops the link, which may take a while
      open.exchange->take_back();
      continue;
    }
    is_all = false;
    judge(open);
    if (open.failure.empty()) continue;
    if (!open.explained_by)
      open.explained_by = core::Deadline::after(explained_within_seconds);
    else if (open.explained_by->expired()) {
      if (!is_enough_without_one()) throw failed(open);
      go_on_without(open, fmt::format("failed: {}", open.failure));
    }
  }
  return is_all;
}

void ConsumerLinks::wait(const std::function<bool(Source&)>& poll, const char* call,
                         std::string_view what, Which which) {
  try {
    wait_for_all(poll, call, what, which);
  } catch (...) {
    take_back();
    throw;
  }
}

wire::Wait ConsumerLinks::describe_wait(const Open& open, const char* call,
                                        std::string_view what) const {
  wire::Wait wait;
  wait.set_call(call);
  wait.set_stream(stream());
  wait.set_step(step_);
  wait.set_what(fmt::format("to {}", what));
  wait.set_group(open.link.peer_group);
  wait.set_link(open.link.number);
  wait.set_count(open.turns_before + open.exchange->first_turn());
  const auto& messages = open.exchange->plan().messages;
  for (std::size_t m = 0; m < messages.size() && wait.ranks_size() < proto::max_wait_ranks; ++m)
    if (open.exchange->is_awaited(m)) wait.add_ranks(messages[m].peer);
  return wait;
}

void ConsumerLinks::wait_for_all(const std::function<bool(Source&)>& poll, const char* call,
                                 std::string_view what, Which which) {
  const auto hold = session_.progress().hold();
  const auto all_moved = [this] {
    std::uint64_t sum = 0;
    for (const Open& open : links_) sum += open.exchange->moved();
    return sum;
  };
  auto moved = all_moved();
  double waited = 0;  // for all of them, the last of which is the slowest
  constexpr std::size_t none = ~std::size_t{0};
  std::size_t slowest = none;
  for (std::size_t i = 0; i < links_.size();) {
    Open& open = links_[i];
    if (which == Which::chosen && !open.is_chosen) {
      ++i;
      continue;
    }
    bool is_alive = true, is_reported = false, is_done = false;
    const auto describe = [&] { return describe_wait(open, call, what); };
    LongWait long_wait(session_.control().waits(), describe);
    std::optional<Error> circle;
    const auto look_for_circle = [&] {
      try {
        long_wait.look();
      } catch (const Error& e) {  // nothing is wrong with the link
        circle = e;
      }
    };
    const auto check = [&] {
      look_for_circle();
      is_alive = !has_ended(open);
      if (is_alive) judge(open);
      if (!is_reported) session_.control().report_waiting(stream(), 0, open.link.peer_group);
      is_reported = true;
    };
    const auto start = core::Deadline::Clock::now();
    try {
      if (open.failure.empty()) {
        const auto [seconds, is_so] = wait_for(
            [&] {
              session_.progress().advance();
              if (!is_alive || circle || !open.failure.empty() ||
                  (feed(open) && poll(*open.exchange)))
                return Polled::done;
              const auto before = std::exchange(moved, all_moved());
              return before == moved ? Polled::nothing : Polled::moved;
            },
            session_.step_deadline(), check, [this] { return session_.progress().sleep(); });
        is_done = is_so;
        if (seconds > 0) waited += seconds, slowest = i;
      }
    } catch (...) {
      keep_failure(open);
    }
    if (!open.failure.empty() && !circle) {
      // Perhaps the consumer died: the server knows within a moment. Or the consumer was told of a
      // circle first, and is gone.
      const auto knows = [&] {
        const bool is_told = has_ended(open);
        look_for_circle();
        return is_told || circle;
      };
      is_alive = !session_.waits_for(knows, core::Deadline::after(explained_within_seconds));
      if (is_alive) {
        const Error error = failed(open);
        const auto did = fmt::format("failed: {}", open.failure);
        if (!is_enough_without_one()) {
          give_up(open, did);
          throw error;
        }
        go_on_without(open, did);
        is_alive = false;
      }
    }
    wait_seconds_ += core::Deadline::Seconds(core::Deadline::Clock::now() - start).count();
    if (is_reported) session_.control().report_waiting(stream(), 0, "");
    if (circle) throw *circle;
    if (is_alive && !is_done) {
      const auto did = fmt::format(
          "waited {} s for consumer group '{}' to {}; is it stuck? step_timeout sets how "
          "long a step may take",
          session_.config().step_timeout, open.link.peer_group, what);
      if (!is_enough_without_one())
        throw Error(Errc::timed_out, fmt::format("stream '{}', step {}: {}", stream(), step_, did));
      go_on_without(open, did);
      is_alive = false;
    }
    if (is_alive && !open.exchange->has_left()) {
      ++i;
      continue;
    }
    if (slowest == i) slowest = none;
    drop(i);
  }
  if (slowest != none) links_[slowest].waited_seconds += waited;
}

void ConsumerLinks::judge(Open& open) {
  if (!open.failure.empty()) return;
  const std::uint64_t sent = open.exchange->traffic().chunks;
  if (std::exchange(open.sent, sent) != sent) open.link.signs->heard_all();
  open.failure =
      complaint(session_, open.link, [&](std::size_t m) { return open.exchange->is_owed(m); });
}

void ConsumerLinks::take_back() noexcept {
  const auto hold = session_.progress().hold();
  if (config_.lends) kept_.forget(step_ - first_step());
  for (Open& open : links_) {
    if (open.exchange->has_credited(step_)) continue;
    open.exchange->take_back();
    if (!open.exchange->is_queued() && open.failure.empty())
      give_up(open, "took a step back before it was taken");
  }
}

Error ConsumerLinks::failed(const Open& open) const {
  return Error(Errc::transport,
               fmt::format("stream '{}', step {}: the link to consumer group '{}' failed: {}",
                           stream(), step_, open.link.peer_group, open.failure));
}

void ConsumerLinks::keep_failure(Open& open) noexcept {
  try {
    open.failure = core::current_error().what();
  } catch (...) {
    open.failure = "out of memory";
  }
}

void ConsumerLinks::give_up(Open& open, std::string_view did) noexcept {
  open.is_given_up = true;
  try {
    open.failure = fmt::format("rank {} of group '{}' {}", session_.rank(), session_.name(), did);
    close_link(open.link.number, open.failure, /*gave_up=*/true);
  } catch (...) {
    if (open.failure.empty()) open.failure = "out of memory";
    session_.log().try_warn("client", [this] {
      return fmt::format("give_up stream={} error=\"{}\"", stream(), core::current_error().what());
    });
  }
}

void ConsumerLinks::go_on_without(Open& open, std::string_view did) {
  give_up(open, did);
  has_ended(open);  // says why in lost_
  session_.log().warn("client", fmt::format("stream '{}', step {}: goes on without consumer group "
                                            "'{}': {}",
                                            stream(), step_, open.link.peer_group, open.failure));
}

void ConsumerLinks::give_up(std::string_view did, Which which) noexcept {
  const auto hold = session_.progress().hold();
  for (Open& open : links_)
    if (which == Which::all || open.is_chosen) give_up(open, did);
}

bool ConsumerLinks::has_ended(Open& open) {
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

void ConsumerLinks::look_for_ends() {
  const auto hold = session_.progress().hold();
  for (Open& open : links_) has_ended(open);
}

void ConsumerLinks::count_ended(const Source& exchange) { add(ended_, exchange); }

void ConsumerLinks::drop(std::size_t i) {
  session_.log().info("client",
                      fmt::format("unlinked stream={} link={} peer={} steps={} {}", stream(),
                                  links_[i].link.number, links_[i].link.peer_group, step_, lost_));
  count_ended(*links_[i].exchange);
  links_[i].exchange.reset();  // before their endpoint
  links_[i].link.signs.reset();
  session_.control().forget_link(links_[i].link.number);
  links_.erase(links_.begin() + static_cast<std::ptrdiff_t>(i));
  session_.plans().forget_idle();
}

void ConsumerLinks::drop_ended() {
  const auto hold = session_.progress().hold();
  advance();  // a consumer that took everything before it went needs nothing taken back
  for (std::size_t i = 0; i < links_.size();)
    if (has_ended(links_[i]))
      drop(i);
    else
      ++i;
}

void ConsumerLinks::drop_all() {
  for (auto& opening : std::exchange(openings_, {})) {
    const wire::Matched matched = opening->matched();
    opening.reset();
    refuse(matched, "the stream has ended before it was");
  }
  const auto hold = session_.progress().hold();
  while (!links_.empty()) drop(0);
}

void ConsumerLinks::forget() {
  for (auto& opening : std::exchange(openings_, {})) {
    const std::uint64_t link = opening->matched().link();
    opening.reset();
    session_.control().forget_link(link);
  }
  for (const Open& open : links_) session_.control().forget_link(open.link.number);
}

void ConsumerLinks::close_link(std::uint64_t link, const std::string& why, bool gave_up) {
  wire::ToServer message;
  message.mutable_close_link()->set_link(link);
  message.mutable_close_link()->set_why(why);
  message.mutable_close_link()->set_gave_up(gave_up);
  session_.control().call(message, core::Deadline::after(1));
}

bool ConsumerLinks::advance() noexcept {
  bool is_idle = true;
  for (Open& open : links_) {
    try {
      if (!open.failure.empty()) continue;
      is_idle = open.exchange->advance() && is_idle;
      feed(open);
      for (std::size_t m = 0; m < open.link.signs->size(); ++m)
        if (open.exchange->has_left(m)) open.link.signs->end(m);
      if (has_told_end_ && open.exchange->has_credited(step_)) open.link.signs->fall_silent();
      open.link.signs->advance();
    } catch (...) {
      keep_failure(open);
    }
  }
  return !is_idle;
}

void ConsumerLinks::list_waits(WaitWords& words) {
  for (Open& open : links_)
    if (open.failure.empty()) open.exchange->list_waits(words);
}

void ConsumerLinks::list_turns(std::vector<LinkTurns>& turns) const {
  turns.insert(turns.end(), reopening_.begin(), reopening_.end());
  for (const Open& open : links_)
    turns.push_back({open.link.number, open.turns_before + open.exchange->turns()});
}

void ConsumerLinks::list_lags(wire::Counters& counters) const {
  for (const Open& open : links_) {
    wire::Lag& lag = *counters.add_lags();
    lag.set_link(open.link.number);
    lag.set_steps(open.most_behind);
    lag.set_waited_seconds(open.waited_seconds);
  }
}

Statistics ConsumerLinks::statistics() const {
  Statistics s = ended_;
  s.steps = step_ - first_step() - skipped_;
  s.wait_seconds = wait_seconds_;
  for (const Open& open : links_) add(s, *open.exchange);
  return s;
}

std::vector<PeerStatistics> ConsumerLinks::peer_statistics() const {
  std::vector<PeerStatistics> peers;
  for (const Open& open : links_) list_peers(open.link.peer_group, *open.exchange, peers);
  return peers;
}

}  // namespace tremula::client
