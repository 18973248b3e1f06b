// SPDX-License-Identifier: Apache-2.0
// The part of ConsumerLinks for a group that joins: its link is set up by all ranks at once or, where a stream
// has the consumers that it needs and the link needs no call of this side, beside it (opening.hpp), and let in
// when all ranks have proved it. What fails costs the producer nothing else.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "client/stream/consumers/consumer_links.hpp"
#include "proto/convert.hpp"

namespace tremula::client {

using core::Errc, core::Error;

namespace {
/// For which the calls of a stream wait, once, for a link that is set up beside it: a consumer that is
/// not slow gets the step in turn.
constexpr double brief_seconds = 0.5;
/// How many links are set up at a time, each by a thread of its own. A further one is set up in the call: it cannot be
/// put off, because this group may next wait for something that depends on that consumer.
constexpr std::size_t most_openings = 64;
constexpr double crowded_seconds = 2;  // for such a further one

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

LinkTerms ConsumerLinks::terms(std::uint64_t first, double most_seconds) const {
  return {.side = transport::Side::producer,
          .first_step = first,
          .most_seconds = most_seconds,
          .answers_between_calls = config_.progress != Progress::calls};
}

bool ConsumerLinks::opens_beside(const wire::Matched& matched) {
  // Lists are matched by all ranks together.
  const auto has_list = [](const proto::Field& field) { return field.layout.listed() != nullptr; };
  const auto is_listed = [](const auto& field) {
    return field.layout().find(" lists=") != std::string::npos;
  };
  const bool has_addresses =  // of the consumer, on every rank
      std::int64_t{session_.size()} * matched.peer_size() <= proto::max_addresses_to_all;
  return std::ranges::none_of(fields_.all(), has_list) && has_addresses &&
         std::ranges::none_of(matched.fields(), is_listed) &&
         session_.connects_alone(matched.offer());
}

bool ConsumerLinks::has_parts() const {
  return std::ranges::any_of(fields_.all(),
                             [](const proto::Field& field) { return !field.whole.empty(); });
}

void ConsumerLinks::note_openings() {
  const auto hold = session_.progress().hold();
  opening_turns_.clear();
  for (const auto& opening : openings_) opening_turns_.push_back({opening->matched().link(), 0});
}

double ConsumerLinks::most_seconds() const { return links_.empty() ? no_limit : patience_; }

wire::OpeningTerms ConsumerLinks::opening_terms(std::uint64_t next) {
  const auto decide = [&] {
    wire::OpeningTerms root;
    root.set_is_needed(links_.size() < static_cast<std::size_t>(config_.wait_for_consumers));
    // Before the first step a consumer holds up no other one of this stream, unless an attempt has failed.
    const bool is_first = root.is_needed() && next == first_step() && patience_ == usual_patience;
    root.set_most_seconds(is_first ? no_limit : most_seconds());
    return to_bytes(root);
  };
  return from_bytes<wire::OpeningTerms>(session_.run_on_root(decide, session_.deadline()));
}

void ConsumerLinks::open(const wire::Matched& matched, std::uint64_t next) {
  const std::uint64_t first = first_over(matched, next);
  try {
    const bool may_be_beside = opens_beside(matched);
    const wire::OpeningTerms agreed = opening_terms(next);
    const double most = agreed.most_seconds();
    if (!may_be_beside || agreed.is_needed() || openings_.size() >= most_openings) {
      const bool is_crowded = may_be_beside && !agreed.is_needed();
      const auto in_call = terms(first, is_crowded ? std::min(crowded_seconds, most) : most);
      return let_in(matched, open_link(session_, matched, fields_.all(), in_call), first, next);
    }
    begin_beside(matched, first, most == no_limit ? most : usual_patience);
  } catch (const Error& e) {  // on every rank; it costs the producer nothing else
    std::erase_if(openings_,
                  [&](const auto& opening) { return opening->matched().link() == matched.link(); });
    refuse(matched, e.what());
    if (e.code() == Errc::interrupted) throw;
    return;
  }
  note_openings();
  if (openings_.size() == 1 && patience_ == usual_patience)
    brief_ = core::Deadline::after(brief_seconds);
}

void ConsumerLinks::begin_beside(const wire::Matched& matched, std::uint64_t first,
                                 double most_seconds) {
  auto terms_beside = terms(first, most_seconds);
  terms_beside.begins_later = has_parts();
  // All ranks wait for what begins a link; none for the rest.
  Link link = begin_link(session_, matched, fields_.all(), terms_beside);
  const auto until = core::Deadline::after(std::min(session_.config().timeout, most_seconds));
  session_.run_collectively([&] {
    openings_.push_back(
        std::make_unique<Opening>(session_, matched, std::move(link), terms_beside, until));
  });
}

void ConsumerLinks::check_announced(const wire::Matched& matched, const Queue& queue) const {
  const auto refuse = [&](std::string_view expected, const std::string& found) {
    throw Error(Errc::protocol, fmt::format("server: link {} of stream '{}': expected {}; found {}",
                                            matched.link(), stream(), expected, found));
  };
  if (queue.lends() != config_.lends)
    refuse(fmt::format("a queue whose steps are {}", config_.lends ? "lent" : "copied"),
           fmt::format("one of depth {}", queue.depth));
  // end_step waits for arrays that are not copied only if the configured depth is 0. A consumer of the
  // newest step has a queue even then.
  if (queue.depth == 0 && config_.queue_depth > 0) {
    if (session_.rank() == Rank{0})
      refuse(fmt::format("a queue of up to {} steps", config_.queue_depth), "none");
    throw Error(
        Errc::mismatch,
        fmt::format("stream '{}': expected queue_depth 0, as rank 0 of group '{}' announced; "
                    "found {} on rank {}: give it the same value on every rank",
                    stream(), session_.name(), config_.queue_depth, session_.rank().value));
  }
  // Rank 0 has announced its own configuration for all ranks.
  const bool is_proved = config_.is_proved.value_or(session_.config().proof);
  if (session_.rank() == Rank{0} && matched.is_proved() != is_proved)
    refuse(is_proved ? "steps with hashes (proof)" : "steps without hashes (proof)",
           is_proved ? "none" : "some");
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
    check_announced(matched, open.link.queue);
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
  links_.back().link.signs->begin(first);
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
  if (session_.rank() != Rank{0}) return;
  try {
    close_link(matched.link(), lost_);
  } catch (const Error& gone) {
    session_.log().warn(
        "client", fmt::format("close_link link={} error=\"{}\"", matched.link(), gone.what()));
  }
}

void ConsumerLinks::refuse_openings(const std::string& why) {
  for (auto& opening : std::exchange(openings_, {})) {
    const wire::Matched matched = opening->matched();
    opening.reset();
    refuse(matched, why);
  }
  note_openings();
}

void ConsumerLinks::settle_openings(std::uint64_t next) {
  const auto until = core::Deadline::after(patience_);
  while (has_openings()) {
    admit_openings(next, until);
    const core::Bytes late = session_.run_on_root(
        [&] { return core::Bytes(until.expired() ? 1 : 0); }, session_.step_deadline());
    if (!late.empty()) refuse_openings("it had not connected when the stream stopped waiting");
  }
}

void ConsumerLinks::admit_openings(std::uint64_t next, core::Deadline until) {
  using State = Opening::State;
  const auto is_under_way = [](const auto& opening) {
    return opening->state() == State::under_way;
  };
  // Another rank may wait until then, which is longer than a short step_timeout.
  const auto all_by =
      core::Deadline::after(session_.step_deadline().remaining() + until.remaining());
  session_.waits_for([&] { return std::ranges::none_of(openings_, is_under_way); }, until);
  wire::Openings mine;
  for (const auto& opening : openings_) {
    auto& told = *mine.add_links();
    const State state = opening->state();
    told.set_is_ready(state == State::ready);
    if (state == State::failed)
      told.set_failure(fmt::format("rank {} of group '{}': {}", session_.rank().value,
                                   session_.name(), opening->why()));
  }
  const auto all = session_.size() == 1 ? std::vector<core::Bytes>{to_bytes(mine)}
                                        : session_.allgather(to_bytes(mine), all_by);
  std::vector<bool> is_ready(openings_.size(), true);
  std::vector<std::string> failure(openings_.size());
  for (const core::Bytes& bytes : all) {
    const auto of_rank = from_bytes<wire::Openings>(bytes);
    if (of_rank.links_size() != mine.links_size())
      throw Error(Errc::protocol,
                  fmt::format("group '{}': expected {} links under way on every rank; found {}",
                              session_.name(), mine.links_size(), of_rank.links_size()));
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
  note_openings();
}

}  // namespace tremula::client
