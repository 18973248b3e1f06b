// SPDX-License-Identifier: Apache-2.0
// The part of OutStream for what its ranks agree on before a step: how many consumers there are and which are let in,
// what was lost, over which links the step goes; and serve(), which does the same between two steps.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "client/stream/out_stream.hpp"
#include "core/name.hpp"

namespace tremula::client {

using core::Errc, core::Error, core::expects;

/// After which ranks that have no room over any of the links that share the steps, or wait for what is
/// lent, ask each other again.
constexpr double share_turn_seconds = 0.02;
/// So long serve() waits at a time for links that are set up.
constexpr double serve_turn_seconds = 0.1;

namespace {
core::Deadline earlier(core::Deadline one, const std::optional<core::Deadline>& other) {
  return other && other->at() < one.at() ? *other : one;
}

/// Head of a message of rank 0: the time of the step that it ended last. The attributes and its membership follow.
struct LastStep {
  std::uint64_t attribute_bytes = 0, has_time = 0;
  std::int64_t time = 0;
};
}  // namespace

bool OutStream::wait_for_consumers(std::optional<core::Deadline> until) {
  if (!is_introduced() && refusal_) throw *std::exchange(refusal_, {});
  if (!is_introduced()) fields_.check_alike();
  const auto least = static_cast<std::size_t>(config_.wait_for_consumers);
  std::optional<Waiting> waiting(std::in_place, session_.control(), name(), "a consumer");
  session_.control().send_counters();
  // A consumer that was refused earlier may have been put right: then it waits, and is linked now.
  const auto outcome = session_.set_up().run(
      *this, true,
      [&] { return links_.size() >= least || refusal_.has_value() || !links_.lost().empty(); },
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
  throw Error(
      Errc::timed_out,
      fmt::format("stream '{}': expected {} consumer group(s) within {} s; {} joined{}{}; {}",
                  name(), least, outcome.has_come ? limits.step_timeout : limits.timeout, came,
                  outcome.found.empty() ? "" : "; found ", outcome.found,
                  outcome.has_come
                      ? "is the consumer stuck? step_timeout sets how long a step may take"
                      : "start the consumer, or set wait_for_consumers or timeout"));
}

wire::Membership OutStream::membership() {
  wire::Membership membership;
  membership.set_lost(links_.lost());
  membership.set_links(static_cast<int>(links_.size()));
  membership.set_is_awaited(session_.control().is_awaited());
  const auto wanted = links_.wanted();
  membership.mutable_redeclared()->Assign(wanted.begin(), wanted.end());
  return membership;
}

wire::Membership OutStream::membership_of_root() {
  if (session_.size() == 1) return membership();
  // Until the next step begins, time and attributes are those of the last one.
  const core::Bytes attributes = proto::encode(attributes_);
  const auto encode_root = [&] {
    const LastStep last{attributes.size(), time_ ? 1U : 0U, time_.value_or(0)};
    const auto head = std::as_bytes(std::span(&last, 1));
    const core::Bytes rest = to_bytes(membership());
    core::Bytes out(head.begin(), head.end());
    out.insert(out.end(), attributes.begin(), attributes.end());
    out.insert(out.end(), rest.begin(), rest.end());
    return out;
  };
  const core::Bytes of_root = session_.run_on_root(encode_root, session_.step_deadline());
  LastStep last;
  expects(of_root.size() >= sizeof last, "rank 0 sends the head of its last step");
  std::memcpy(&last, of_root.data(), sizeof last);
  const auto rest = std::span(of_root).subspan(sizeof last);
  expects(rest.size() >= last.attribute_bytes, "rank 0 sends the attributes of its last step");
  const auto of_0 = rest.first(last.attribute_bytes);
  check_time(last.has_time != 0 ? std::optional(last.time) : std::nullopt);
  if (!std::ranges::equal(of_0, attributes)) check_attributes(proto::decode_attributes(of_0));
  return from_bytes<wire::Membership>(rest.subspan(last.attribute_bytes));
}

void OutStream::check_time(std::optional<std::int64_t> of_0) {
  if (of_0 == time_) return;
  const auto text = [](std::optional<std::int64_t> time) {
    return time ? fmt::format("time {}", *time) : std::string("no time");
  };
  unequal_ = fmt::format(
      "stream '{}', step {}: expected every rank of group '{}' to set the same time; found {} on "
      "rank 0 and {} on rank {}",
      name(), step() - 1, session_.name(), text(of_0), text(time_), session_.rank().value);
  throw Error(Errc::mismatch, unequal_);
}

void OutStream::check_attributes(const proto::Attributes& of_0) {
  const std::string differs = proto::first_difference(of_0, attributes_);
  if (differs.empty()) return;  // in their order alone
  const auto values = [&](const proto::Attributes& all) {
    constexpr std::size_t most = 64;
    const auto* const found = all.find(differs);
    if (found == nullptr) return std::string("none");
    const std::string text = proto::to_json(found->values);
    return text.size() <= most ? text : core::printable(text.substr(0, most)) + "...";
  };
  unequal_ = fmt::format(
      "stream '{}', step {}: expected every rank of group '{}' to set the same attributes of the "
      "step, including '{}'; found {} on rank 0 and {} on rank {}: set it on every rank, with the "
      "same values, or on none",
      name(), step() - 1, session_.name(), differs, values(of_0), values(attributes_),
      session_.rank().value);
  throw Error(Errc::mismatch, unequal_);
}

const std::string& OutStream::why_lost() const noexcept {
  return links_.lost().empty() ? lost_before_rank_0_ : links_.lost();
}

OutStream::Admission OutStream::admit(bool begins, std::optional<core::Deadline> until) {
  // Rank 0 may come to a step much later than the others: it is data that they wait for.
  const auto told = agreed([&] { return membership_of_root(); });
  std::string lost = links_.take_lost();
  if (!told.lost().empty())
    lost_before_rank_0_.clear();
  else if (!lost.empty())
    lost_before_rank_0_ = std::move(lost);
  const auto before = links_.size();
  if (told.is_awaited()) {
    // The set-up has a limit of its own, which counts from when all ranks are here.
    if (session_.size() > 1)
      agreed([&] { session_.run_collectively([] {}, session_.step_deadline()); });
    session_.set_up().run(
        *this, begins, [] { return true; }, core::Deadline::after(0),
        until.value_or(session_.step_deadline()));
  }
  if (links_.has_openings())
    agreed([&] { links_.admit_openings(next_step(), earlier(links_.brief(), until)); });
  const auto links = static_cast<std::size_t>(told.links()) + links_.size() - before;
  return {.lost = told.lost().empty() ? links_.take_lost() : told.lost(),
          .is_enough = links >= static_cast<std::size_t>(config_.wait_for_consumers),
          .redeclared = {told.redeclared().begin(), told.redeclared().end()}};
}

bool OutStream::admit_step(std::optional<core::Deadline> until) {
  if (!links_.is_agreed()) return true;
  const auto limit = session_.step_deadline();
  const auto describe = [this] { return links_.describe_shared_wait("begin_step"); };
  LongWait long_wait(session_.control().waits(), describe);
  std::optional<Waiting> waiting;
  for (;;) {
    if (session_.size() > 1)  // no rank is frozen while another one is in another call
      agreed([&] { session_.run_collectively([] {}, session_.step_deadline()); });
    const auto mine = links_.freeze();
    try {
      const auto all = agreed([&] {
        return session_.size() == 1 ? std::vector<core::Bytes>{mine}
                                    : session_.allgather(mine, session_.step_deadline());
      });
      if (links_.admit(all)) return true;
    } catch (...) {
      links_.thaw();
      throw;
    }
    // All ranks came to this: each looks for room, and they ask each other again.
    if (!waiting) waiting.emplace(session_.control(), name(), links_.shared_group());
    links_.wait_for_shared_room(core::Deadline::after(share_turn_seconds));
    if (config_.lends) links_.end_leases();
    session_.run_collectively(
        [&] {
          check_own_ranks();
          if (!until) long_wait.look();
          if (limit.expired())
            throw Error(Errc::timed_out,
                        fmt::format("stream '{}', step {}: waited {} s for {}; are they stuck? "
                                    "step_timeout sets how long a step may take",
                                    name(), step(), session_.config().step_timeout,
                                    links_.shared_wait_text()));
        },
        session_.deadline());
    const auto told = session_.run_on_root(
        [&] { return core::Bytes(until && until->expired() ? 1 : 0); }, session_.deadline());
    if (!told.empty()) return false;
  }
}

void OutStream::join(const wire::Matched& matched) { links_.open(matched, next_step()); }

void OutStream::check_own_ranks() {
  const std::string why = session_.control().given_up(incarnation());
  if (why.empty()) return;
  links_.look_for_ends();  // perhaps that is what made the other rank give up
  const std::string& lost = why_lost();
  throw Error(Errc::peer_lost, fmt::format("stream '{}', step {}: {}{}{}", name(), step(), lost,
                                           lost.empty() ? "" : "; ", why));
}

void OutStream::serve(core::Deadline until) {
  expects(state_ == State::declaring || state_ == State::between_steps, [&] {
    return fmt::format("stream '{}': expected serve between two steps; found it {}", name(),
                       state_ == State::closed ? "closed" : "after begin_step");
  });
  session_.begin_call("serve", name(), step());
  links_.drop_ended();
  if (!is_introduced() && refusal_) throw *std::exchange(refusal_, {});
  if (!is_introduced()) fields_.check_alike();
  for (;;) {
    session_.set_up().run(
        *this, true, [this] { return links_.has_openings(); }, until);
    if (!links_.has_openings()) return;  // the same on all ranks: it is over
    agreed([&] {
      links_.admit_openings(step(), earlier(core::Deadline::after(serve_turn_seconds), until));
    });
    const auto is_over = session_.run_on_root([&] { return core::Bytes(until.expired() ? 1 : 0); },
                                              session_.deadline());
    if (!is_over.empty()) return;
  }
}

}  // namespace tremula::client
