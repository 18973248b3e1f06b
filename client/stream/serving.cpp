// SPDX-License-Identifier: Apache-2.0
// A reader of a state that serves others, and the part of InStream for it.
#include "client/stream/serving.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "client/stream/in_stream.hpp"
#include "client/waiting/wait.hpp"

namespace tremula::client {

using core::Errc, core::Error;

namespace {
/// So often the ranks ask each other whether the next version is there, or readers wait.
constexpr double turn_seconds = 0.05;
/// So long a call waits for readers that are being linked.
constexpr double admit_seconds = 0.1;

void set_all(OutStream& out, int of, const proto::Attributes& attributes) {
  for (const proto::Attribute& each : attributes.all())
    out.set_attribute(of, each.name, each.values);
}
}  // namespace

ServedCopy::ServedCopy(Session& session, const DeclaredFields& fields, const wire::Matched& matched)
    : session_(session),
      fields_(fields),
      writer_(matched.peer_group()),
      is_proved_(matched.is_proved()),
      is_readable_by_all_(matched.readable_by_all()),
      of_stream_(proto::decode_attributes(proto::bytes_of(matched.attributes()))),
      arrays_(fields.size()),
      is_got_(fields.size(), false) {
  for (const wire::Field& field : matched.fields())  // in the order of the reader's
    of_fields_.push_back(proto::decode_attributes(proto::bytes_of(field.attributes())));
}

void ServedCopy::got(std::size_t field, std::span<const std::byte> local) {
  is_got_[field] = false;
  arrays_[field].assign(local.begin(), local.end());
  is_got_[field] = true;
}

void ServedCopy::got(std::optional<std::int64_t> time, const proto::Attributes& attributes) {
  time_ = time;
  attributes_ = attributes;
}

bool ServedCopy::has_all() const noexcept {
  return std::ranges::all_of(is_got_, [](bool is_got) { return is_got; });
}

void ServedCopy::open(std::uint64_t first) {
  out_.emplace(session_, fields_.stream(),
               OutConfig{.is_readable_by_all = is_readable_by_all_,
                         .wait_for_consumers = 0,
                         .is_state = true,
                         .keep_steps = 1,
                         .first_step = static_cast<std::int64_t>(first),
                         .is_copy = true,
                         .is_proved = is_proved_});
  for (std::size_t f = 0; f < fields_.size(); ++f) {
    const int declared = out_->declare(fields_[f]);
    set_all(*out_, declared, of_fields_[f]);
  }
  set_all(*out_, of_stream, of_stream_);
}

void ServedCopy::end_version(std::uint64_t version, bool is_whole) {
  is_got_.assign(fields_.size(), false);
  if (is_refused_) return;
  if (is_whole) return publish(version);
  if (std::exchange(has_warned_, true)) return;
  session_.log().warn(
      "client",
      fmt::format(
          "stream '{}', version {}: expected all ranks to get all fields, as this group serves "
          "them to others (serve); found that some are missing: such versions are not served",
          fields_.stream(), version));
}

void ServedCopy::publish(std::uint64_t version) {
  try {
    if (!out_) open(version);
    if (!out_->begin_step_until(core::Deadline::after(0))) return;
  } catch (const Error& e) {  // the same on all ranks
    // It cannot be announced: the next version is the first.
    if (e.code() == Errc::no_server) return;
    if (e.code() != Errc::refused) throw;
    session_.log().warn("client",
                        fmt::format("stream '{}', version {}: is not served to others: {}",
                                    fields_.stream(), version, e.what()));
    is_refused_ = true;
    return out_.reset();
  }
  out_->number_step(version);
  for (std::size_t f = 0; f < fields_.size(); ++f) out_->put(static_cast<int>(f), arrays_[f]);
  if (time_) out_->set_time(*time_);
  set_all(*out_, of_step, attributes_);
  out_->end_step();
}

void ServedCopy::admit() {
  if (out_) out_->serve(core::Deadline::after(admit_seconds));
}

void ServedCopy::close() {
  if (out_) out_->close();
}

bool InStream::serve_until_step(std::optional<core::Deadline> until) {
  constexpr unsigned is_here = 1, is_awaited = 2, is_over = 4, is_late = 8, is_lost = 16;
  if (has_served_) return true;
  const auto limit = session_.step_deadline();
  const auto describe = [this] { return links_.describe_wait("begin_step", "send the next step"); };
  LongWait long_wait(session_.control().waits(), describe);
  for (;;) {
    unsigned mine = 0;
    const auto turn = core::Deadline::after(turn_seconds);
    wait_for(
        [&] {
          session_.progress().advance();
          mine = poll_ready() ? is_here : 0;
          // Of rank 0: the server tells it alone.
          if (session_.control().is_awaited() && session_.control().is_served()) mine |= is_awaited;
          return mine != 0;
        },
        until && until->at() < turn.at() ? *until : turn, [] {},
        [this] { return session_.progress().sleep(); });
    if (until && until->expired()) mine |= is_over;
    if (limit.expired()) mine |= is_late;
    if (links_.poll_failed()) mine |= is_lost;
    session_.begin_call("begin_step", name(), round_);
    const auto all = session_.allgather({static_cast<std::byte>(mine)}, session_.step_deadline());
    const auto says = [](const core::Bytes& told, unsigned what) {
      return !told.empty() && (std::to_integer<unsigned>(told.front()) & what) != 0;
    };
    // The ranks hear of a loss each at its own moment, and do not meet again before the step has ended.
    has_served_ = std::ranges::all_of(all, [&](const auto& told) { return says(told, is_here); }) ||
                  std::ranges::any_of(all, [&](const auto& told) { return says(told, is_lost); });
    if (has_served_) return true;
    const core::Bytes& root = all.front();
    if (says(root, is_awaited))
      session_.set_up().run(
          *this, false, [] { return true; }, core::Deadline::after(0));
    if (says(root, is_awaited) || copy_->has_openings()) copy_->admit();
    if (says(root, is_over)) {
      if (until) return false;
      throw Error(
          Errc::mismatch,
          fmt::format("{}: expected all ranks to begin the step with a time limit, or all without; "
                      "found one on rank 0 and none on this rank: make the same call on every rank",
                      links_.place()));
    }
    if (says(root, is_late))
      throw Error(Errc::timed_out,
                  fmt::format("{}: waited {} s for the next version; is its producer stuck? "
                              "step_timeout sets how long a step may take",
                              links_.place(), session_.config().step_timeout));
    if (!until) long_wait.look();
  }
}

}  // namespace tremula::client
