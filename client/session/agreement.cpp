// SPDX-License-Identifier: Apache-2.0
#include "client/session/agreement.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <exception>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "core/error.hpp"

namespace tremula::client {

using core::Errc, core::Error;

namespace {

/// Time for which a rank waits for another rank's outcome after the deadline of that rank's work.
constexpr double grace_seconds = 10;
/// The longest time until the server knows of a rank that has left.
constexpr double known_within_seconds = 2;
/// Pause after the first question to the server about such a rank; it doubles after each question.
/// All ranks of a group may ask, so each asks only about six times.
constexpr std::chrono::milliseconds first_between_questions{50};
/// Pause between two checks for notices from the server.
constexpr std::chrono::milliseconds between_looks{20};

core::Deadline with_grace(core::Deadline deadline) {
  return core::Deadline::after(deadline.remaining() + grace_seconds);
}

/// Runs `work` and returns the error that it threw; nullopt if it threw none.
template <class Work>
std::optional<Error> error_of(Work&& work) {
  try {
    work();
    return std::nullopt;
  } catch (...) {
    return core::current_error();
  }
}

/// Encodes an error or some bytes for the other ranks.
core::Bytes encode_outcome(const std::optional<Error>& error, core::BytesView payload) {
  const std::int32_t code = error ? static_cast<std::int32_t>(error->code()) : 0;
  core::Bytes bytes(sizeof code);
  std::memcpy(bytes.data(), &code, sizeof code);
  const auto text = error ? std::as_bytes(std::span(std::string_view(error->what()))) : payload;
  bytes.insert(bytes.end(), text.begin(), text.end());
  return bytes;
}

/// Returns the bytes of an outcome.
/// @throws core::Error the error of the outcome, if it has one
core::Bytes decode_outcome(core::BytesView bytes) {
  std::int32_t code = 0;
  core::expects(bytes.size() >= sizeof code, "a rank of this group sent an incomplete outcome");
  std::memcpy(&code, bytes.data(), sizeof code);
  const auto payload = bytes.subspan(sizeof code);
  if (code != 0)
    throw Error(core::errc_of(code),
                std::string(reinterpret_cast<const char*>(payload.data()), payload.size()));
  return {payload.begin(), payload.end()};
}

/// Meaning of the bytes that follow a head.
enum class PayloadKind : std::uint8_t {
  from_root,        ///< bytes of rank 0, for all ranks
  part_of_all,      ///< bytes of every rank, for all ranks
  part_of_stream,   ///< as part_of_all, but without the ranks that have lost the stream of the call
  of_another_call,  ///< unused bytes: the sender's call is not that of rank 0
  of_lost_stream,   ///< no bytes, in answer to part_of_stream: the sender has lost the stream
};

template <class Value>
void append(core::Bytes& bytes, const Value& value) {
  bytes.resize(bytes.size() + sizeof value);
  std::memcpy(bytes.data() + bytes.size() - sizeof value, &value, sizeof value);
}
void append(core::Bytes& bytes, const std::string& text) {
  append(bytes, static_cast<std::uint32_t>(text.size()));
  const auto view = std::as_bytes(std::span(text));
  bytes.insert(bytes.end(), view.begin(), view.end());
}

/// Returns a message: the kind; the step, name and stream of the call; then the payload.
core::Bytes headed(PayloadKind kind, const CollectiveCall& call, core::BytesView payload) {
  core::Bytes bytes;
  bytes.reserve(32 + call.name.size() + call.stream.size() + payload.size());
  append(bytes, kind);
  append(bytes, call.step);
  append(bytes, call.name);
  append(bytes, call.stream);
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  return bytes;
}

struct Headed {
  PayloadKind kind{};
  CollectiveCall call;
  core::BytesView payload;
};
Headed split_head(core::BytesView bytes) {
  const auto take = [&bytes](void* to, std::size_t count) {
    core::expects(bytes.size() >= count, "a rank of this group sent an incomplete head");
    std::memcpy(to, bytes.data(), count);
    bytes = bytes.subspan(count);
  };
  const auto take_text = [&] {
    std::uint32_t size = 0;
    take(&size, sizeof size);
    core::expects(bytes.size() >= size, "a rank of this group sent an incomplete head");
    std::string text(size, '\0');
    take(text.data(), size);
    return text;
  };
  Headed head;
  take(&head.kind, sizeof head.kind);
  take(&head.call.step, sizeof head.call.step);
  head.call.name = take_text();
  head.call.stream = take_text();
  head.payload = bytes;
  return head;
}

std::string text_of(const CollectiveCall& call) {
  if (call.stream.empty()) return call.name;
  return fmt::format("{} of stream '{}', step {}", call.name, call.stream, call.step);
}

[[noreturn]] void throw_other_call(const AgreementContext& context, core::Rank rank,
                                   const CollectiveCall& call, const CollectiveCall& of_root) {
  throw Error(Errc::mismatch,
              fmt::format("group '{}': expected all ranks to make the same calls in the same "
                          "order; found rank {} in {}, while rank 0 is in {}{}",
                          context.name, rank.value, text_of(call), text_of(of_root),
                          call == of_root ? ", at another place" : ""));
}

bool is_compared(const AgreementContext& context) {
  return context.group.size() > 1 && !context.call.name.empty();
}

/// Runs a step of an agreement and records where this rank leaves it if the step throws.
/// @param may_leave  whether the agreement may be left; if not, an exception makes all later agreements useless
/// @param at         the point of the agreement to which the step belongs
template <class Step>
auto leavable(const AgreementContext& context, bool may_leave, Left::At at, Step&& step) {
  Left& left = *context.left;
  const bool is_well = left.at != Left::At::failed;
  if (is_well) left.at = may_leave ? at : Left::At::failed;
  auto result = step();
  if (is_well) left.at = Left::At::nothing;
  return result;
}

/// Completes an agreement that this rank has left. A rank other than rank 0 can do so only after it has received
/// the head; before that, take_head() completes the agreement.
void finish_left(const AgreementContext& context, core::Deadline deadline) {
  using enum Left::At;
  transport::Group& group = context.group;
  const auto rest = [&] { return group.finish(deadline); };
  if (context.left->at == head && group.rank() == core::Rank{0}) {
    leavable(context, true, head, rest);
    leavable(context, true, parts, [&] {
      return group.allgather(headed(PayloadKind::of_lost_stream, context.call, {}), deadline);
    });
  } else if (context.left->at == parts) {
    leavable(context, true, parts, rest);
  }
}

/// Returns the head that rank 0 has broadcast, with its payload. For ranks other than rank 0. Answers and
/// skips agreements about streams that this rank has lost.
/// @param may_leave  whether this rank may leave the current agreement
core::Bytes take_head(const AgreementContext& context, bool may_leave, core::Deadline deadline) {
  using enum Left::At;
  transport::Group& group = context.group;
  const CollectiveCall& call = context.call;
  for (;;) {
    core::Bytes received = std::exchange(context.left->head, {});
    if (received.empty() && context.left->at == head)
      received =
          leavable(context, true, head, [&] { return std::move(group.finish(deadline).front()); });
    else if (received.empty())
      received = leavable(context, may_leave, head, [&] { return group.broadcast({}, deadline); });
    const Headed root = split_head(received);
    const bool is_own = may_leave && root.call == call;
    const bool is_skipped = root.kind == PayloadKind::part_of_stream && !is_own &&
                            (*context.has_lost)(root.call.stream);
    if (!is_skipped) return received;
    leavable(context, may_leave, parts, [&] {
      return group.allgather(headed(PayloadKind::of_lost_stream, call, {}), deadline);
    });
  }
}

/// Returns the bytes of rank 0 on every rank. Rank 0 begins every agreement with a broadcast of its call, so that
/// all ranks take part in the same agreement whatever call they are in, and no message is mistaken for another.
core::Bytes broadcast(const AgreementContext& context, core::Bytes bytes, core::Deadline deadline) {
  using enum Left::At;
  transport::Group& group = context.group;
  const CollectiveCall& call = context.call;
  if (!is_compared(context)) return group.broadcast(std::move(bytes), deadline);
  finish_left(context, deadline);
  if (group.rank() == core::Rank{0}) {
    leavable(context, false, head, [&] {
      return group.broadcast(headed(PayloadKind::from_root, call, bytes), deadline);
    });
    return bytes;
  }
  const auto received = take_head(context, false, deadline);
  const Headed root = split_head(received);
  if (root.kind != PayloadKind::from_root)
    leavable(context, false, parts, [&] {
      return group.allgather(headed(PayloadKind::of_another_call, call, {}), deadline);
    });
  if (root.kind != PayloadKind::from_root || root.call != call)
    throw_other_call(context, group.rank(), call, root.call);
  return {root.payload.begin(), root.payload.end()};
}

/// Returns the bytes of every rank on every rank.
/// @param why_lost  as in allgather_unless_lost(); null: all ranks take part
std::vector<core::Bytes> gather(const AgreementContext& context, core::Bytes bytes,
                                const std::function<std::string()>* why_lost,
                                core::Deadline deadline) {
  using enum Left::At;
  transport::Group& group = context.group;
  const CollectiveCall& call = context.call;
  if (!is_compared(context)) return group.allgather(std::move(bytes), deadline);
  finish_left(context, deadline);
  const bool may_leave = why_lost != nullptr;
  const PayloadKind kind = may_leave ? PayloadKind::part_of_stream : PayloadKind::part_of_all;
  auto received = group.rank() == core::Rank{0}
                      ? leavable(context, may_leave, head,
                                 [&] { return group.broadcast(headed(kind, call, {}), deadline); })
                      : take_head(context, may_leave, deadline);
  const Headed root = split_head(received);
  const bool is_own = root.kind == kind && root.call == call;
  if (may_leave && !is_own)
    if (const auto why = (*why_lost)(); !why.empty()) {
      context.left->head = std::move(received);
      throw Error(Errc::peer_lost, why);
    }
  if (root.kind == PayloadKind::from_root) throw_other_call(context, group.rank(), call, root.call);
  const auto mine = headed(is_own ? kind : PayloadKind::of_another_call, call, bytes);
  auto all = leavable(context, may_leave, parts, [&] { return group.allgather(mine, deadline); });
  for (const core::Rank rank : core::all_ranks(static_cast<core::RankCount>(all.size()))) {
    const Headed part = split_head(all[core::at(rank)]);
    if (part.kind == PayloadKind::of_lost_stream)
      throw Error(Errc::peer_lost, fmt::format("rank {} of group '{}' has lost stream '{}'",
                                               rank.value, context.name, call.stream));
    if (part.kind == PayloadKind::of_another_call)
      throw_other_call(context, rank, part.call, root.call);
    all[core::at(rank)] = core::Bytes(part.payload.begin(), part.payload.end());
  }
  return all;
}

bool is_of_data_path(const Error& error) {
  return error.code() == Errc::peer_lost || error.code() == Errc::transport;
}

}  // namespace

WatchedGroup::WatchedGroup(std::unique_ptr<transport::Group> group, Control& control,
                           std::string name, const CollectiveCall& call)
    : group_(std::move(group)), control_(control), name_(std::move(name)), call_(call) {
  group_->watch(
      [this] {
        control_.report_agreement(number_);
        if (wait_ != nullptr) wait_->look();
        check_();
      },
      [this] { move_(); });
}

template <class Call>
auto WatchedGroup::watched(bool is_of_root, Call&& call) {
  const auto describe = [&] {
    wire::Wait wait;
    wait.set_call(call_.name.empty() ? std::string(own_agreement)
                                     : fmt::format("{} in {}", own_agreement, call_.name));
    wait.set_stream(call_.stream);
    wait.set_step(call_.step);
    wait.set_group(name_);
    wait.set_count(begun_ - 1);
    wait.set_over(call_.over);
    wait.set_is_between_turns(call_.is_between_turns);
    wait.set_is_after_loss(call_.is_after_loss);
    wait.set_is_for_all_ranks(!is_of_root);
    if (is_of_root && rank() != core::Rank{0}) wait.add_ranks(0);
    return wait;
  };
  LongWait wait(control_.waits(), describe, true);
  struct Present {  // lets the check of the group find the wait; reports its end to the server
    LongWait*& at;
    Control& control;
    bool stays_reported = false;
    Present(LongWait*& a, LongWait& w, Control& c) : at(a), control(c) { at = &w; }
    ~Present() {
      at = nullptr;
      if (!stays_reported) control.report_agreement(0);
    }
  } present(wait_, wait, control_);
  try {
    return call();
  } catch (const Error& error) {
    wire::Explain question;
    question.set_agreement(number_);
    if (is_of_data_path(error)) name_rank_that_left(question);
    if (error.code() != Errc::timed_out) throw;
    present.stays_reported = true;  // a rank that times out next must not find this one missing
    const auto explained = control_.explain(question);
    if (explained.text().empty()) throw;
    const bool has_left = explained.is_warning();
    const std::string where =
        call_.name.empty() ? "" : fmt::format(" {}{}", has_left ? "in " : "", text_of(call_));
    throw Error(error.code(),
                fmt::format("{}; {}{}: {}", error.what(),
                            has_left ? fmt::format("group '{}' is not complete", name_)
                                     : fmt::format("ranks of group '{}' that did not join", name_),
                            where, explained.text()));
  }
}

void WatchedGroup::name_rank_that_left(const wire::Explain& question) {
  const auto until = core::Deadline::after(known_within_seconds);
  auto between = first_between_questions;
  auto next = core::Deadline::Clock::now();
  // A rank leaves when it is notified that the calls differ; this rank was notified before that, if at all.
  const auto look = [this] {
    if (wait_ != nullptr) wait_->look();
  };
  while (control_.is_served() && !until.expired()) {
    look();
    check_();
    if (core::Deadline::Clock::now() >= next) {
      const auto explained = control_.explain(question);
      look();
      if (explained.is_warning())
        throw Error(Errc::peer_lost, fmt::format("group '{}': expected all ranks in an agreement; "
                                                 "found {}",
                                                 name_, explained.text()));
      next = core::Deadline::Clock::now() + between;
      between *= 2;
    }
    std::this_thread::sleep_for(between_looks);
  }
}

void WatchedGroup::count() {
  ++number_;
  begun_ = control_.waits().begin_agreement();
}

core::Bytes WatchedGroup::broadcast(core::Bytes bytes, core::Deadline deadline) {
  count();
  return watched(true, [&] { return group_->broadcast(std::move(bytes), deadline); });
}

std::vector<core::Bytes> WatchedGroup::allgather(core::Bytes bytes, core::Deadline deadline) {
  count();
  return watched(false, [&] { return group_->allgather(std::move(bytes), deadline); });
}

std::vector<core::Bytes> WatchedGroup::finish(core::Deadline deadline) {
  return watched(false, [&] { return group_->finish(deadline); });
}

std::vector<core::Bytes> allgather(const AgreementContext& context, core::Bytes bytes,
                                   core::Deadline deadline) {
  return gather(context, std::move(bytes), nullptr, deadline);
}

std::vector<core::Bytes> allgather_unless_lost(const AgreementContext& context, core::Bytes bytes,
                                               const std::function<std::string()>& why_lost,
                                               core::Deadline deadline) {
  return gather(context, std::move(bytes), &why_lost, deadline);
}

core::Bytes run_on_root(const AgreementContext& context, const std::function<core::Bytes()>& work,
                        core::Deadline deadline) {
  core::Bytes bytes, outcome;
  if (context.group.rank() == core::Rank{0}) {
    const auto error = error_of([&] { bytes = work(); });
    if (context.group.size() == 1) {
      if (error) throw *error;
      return bytes;
    }
    outcome = encode_outcome(error, bytes);
  }
  return decode_outcome(broadcast(context, std::move(outcome), with_grace(deadline)));
}

core::Bytes run_on_root(const AgreementContext& context, const std::function<core::Bytes()>& work,
                        const Gather& gather, core::Deadline deadline) {
  core::Bytes bytes, outcome;
  if (context.group.rank() == core::Rank{0}) {
    const auto error = error_of([&] { bytes = work(); });
    outcome = encode_outcome(error, bytes);
  }
  return decode_outcome(gather(std::move(outcome), with_grace(deadline)).front());
}

void run_collectively(const AgreementContext& context, const std::function<void()>& work,
                      const Gather& gather, core::Deadline deadline) {
  auto error = error_of(work);
  if (error && context.group.size() > 1)
    error =
        Error(error->code(), fmt::format("rank {} of group '{}': {}", context.group.rank().value,
                                         context.name, error->what()));
  for (const auto& of_rank : gather(encode_outcome(error, {}), with_grace(deadline)))
    decode_outcome(of_rank);
}

void run_collectively(const AgreementContext& context, const std::function<void()>& work,
                      core::Deadline deadline) {
  const auto gather = [&](core::Bytes mine, core::Deadline until) {
    return allgather(context, std::move(mine), until);
  };
  run_collectively(context, work, gather, deadline);
}

}  // namespace tremula::client
