// SPDX-License-Identifier: Apache-2.0
// The parts of OutStream and InStream for layouts that are declared again between two steps: link/README.md.
// How a link is set up anew stands in consumers/reopening.cpp.
#include <fmt/format.h>

#include <algorithm>

#include "client/stream/in_stream.hpp"
#include "client/stream/out_stream.hpp"

namespace tremula::client {

using core::Errc, core::Error, core::expects;

/// After which the server is asked again for what it has refused.
constexpr double pause_seconds = 1;

void OutStream::redeclare(std::span<const std::pair<int, index_calc::Layout>> layouts) {
  expects(state_ == State::between_steps && !is_admitted_, [&] {
    return fmt::format(
        "stream '{}': expected redeclare between two steps, after end_step; found it {}", name(),
        state_ == State::closed      ? "closed"
        : state_ == State::declaring ? "before the first step: declare the field with that layout"
                                     : "after begin_step");
  });
  session_.begin_call("redeclare", name(), step());
  session_.end_call_with(incarnation());
  DeclaredFields next = fields_;
  session_.run_collectively([&] {
    if (config_.is_state || config_.is_copy)
      throw Error(Errc::unsupported,
                  fmt::format("stream '{}': expected kind steps where layouts are declared again; "
                              "found a state: announce another stream",
                              name()));
    for (const auto& [field, layout] : layouts)
      check_produced(name(), fields_[fields_.check(field)].name, layout);
    next.redeclare(layouts);
  });
  next.check_alike();
  links_.drop_ended();
  agreed([&] { links_.settle_openings(step()); });
  links_.choose_all();
  set_up_anew("redeclare", &next, 0);
}

bool OutStream::take_up(std::uint64_t link, std::optional<core::Deadline> until) {
  links_.choose(link);
  if (until) {
    const bool can = session_.waits_for([this] { return links_.poll_end_chosen(); }, *until);
    const auto all = session_.allgather(core::Bytes(can ? 1 : 0), session_.step_deadline());
    if (std::ranges::any_of(all, [](const auto& rank) { return rank.empty(); })) return false;
  }
  set_up_anew("begin_step", nullptr, link);
  return true;
}

bool OutStream::tell_redeclared(const DeclaredFields* next, std::uint64_t link) {
  wire::ToServer message;
  message.mutable_redeclare()->set_stream(name());
  if (next != nullptr) {
    if (session_.control().has_doubt(name()))
      throw Error(Errc::refused,
                  fmt::format("stream '{}': expected a server that has answered a consumer's "
                              "redeclare; found that it has not: try again in a moment",
                              name()));
    *message.mutable_redeclare()->mutable_fields() = next->encoded();
    session_.control().call(std::move(message), session_.deadline());
    return true;
  }
  const auto wanted = session_.control().find_wanted(link);
  if (!wanted) return false;
  *message.mutable_redeclare()->mutable_link() = *wanted;
  message.mutable_redeclare()->set_again(session_.control().times_again(link) + 1);
  try {
    session_.control().call(std::move(message), session_.deadline());
  } catch (const Error& e) {  // with a later step, perhaps
    if (e.code() == Errc::peer_lost) throw;
    session_.log().warn(
        "client",
        fmt::format("stream '{}', step {}: could not take up new layouts of a consumer: {}", name(),
                    step(), e.what()));
    session_.control().postpone_wanted(link, pause_seconds,
                                       e.code() == Errc::timed_out ? wanted : std::nullopt);
    return false;
  }
  links_.set_fields(*wanted);
  return true;
}

void OutStream::set_up_anew(const char* call, DeclaredFields* next, std::uint64_t link) {
  constexpr auto chosen = ConsumerLinks::Which::chosen;
  const auto wait = [&](const std::function<bool(Source&)>& poll, std::string_view what) {
    wait_for_links(poll, call, what, chosen);
  };
  wait([&](Source& exchange) { return exchange.poll_end(step()); }, "take an earlier step");
  session_.run_collectively([] {}, session_.step_deadline());
  // The server first: a consumer that has seen the end asks it.
  const auto tell_server = [&] { return core::Bytes(tell_redeclared(next, link) ? 1 : 0); };
  bool is_known = false;
  try {
    if (session_.run_on_root(tell_server, session_.deadline()).empty()) return;
    is_known = true;
    if (next != nullptr) fields_ = std::move(*next);
    links_.send_redeclared(next == nullptr);
    wait([&](Source& exchange) { return exchange.poll_credit(step() + 1); }, "take the last steps");
    if (next != nullptr && step() > 0) check_lent(step() - 1);
    agreed([&] { links_.reopen(call); });
  } catch (const Error& e) {
    // What the server refuses has changed nothing. Where it has not answered, that is not known.
    const bool is_refused = !is_known && e.code() != Errc::timed_out &&
                            e.code() != Errc::no_server && e.code() != Errc::interrupted;
    if (!is_refused) links_.give_up(fmt::format("failed: {}", e.what()), chosen);
    throw;
  }
}

void InStream::redeclare(std::span<const std::pair<int, index_calc::Layout>> layouts) {
  expects(state_ == State::between_steps && !links_.is_lost(), [&] {
    return fmt::format(
        "stream '{}': expected redeclare between two steps, after end_step; found it {}", name(),
        links_.is_lost()             ? "after the producer was lost"
        : state_ == State::declaring ? "before the first step: declare the field with that layout"
        : state_ == State::in_step   ? "after begin_step"
                                     : "after the end of the stream");
  });
  session_.begin_call("redeclare", name(), step_.value_or(0));
  if (!has_waited_for_step_) session_.make_call_between_steps();
  const auto links = links_.numbers();
  const auto until = session_.deadline();
  const auto has_ended = [&] {
    return std::ranges::any_of(
        links, [this](auto link) { return session_.control().link_end(link).has_value(); });
  };
  // Of a stream that has ended begin_step tells why, and the next epoch begins with what was asked for. A rank
  // that knows comes to no further agreement here: they are of one call, so that another rank would take the
  // one for the other. Those that wait for it leave when they are told of the end.
  bool is_over = has_ended();
  const auto unless_ended = [&](const auto& agree) {
    if (is_over) return;
    try {
      agree();
    } catch (const Error& e) {
      is_over = e.code() == Errc::peer_lost &&
                session_.waits_for(has_ended, core::Deadline::after(explained_within_seconds));
      if (!is_over) throw;
    }
  };
  DeclaredFields next = asked_.empty() ? fields_ : asked_.back();
  const auto declare = [&] {
    if (is_relabeled_ || links.size() != 1 || copy_ || asked_time_)
      throw Error(
          Errc::unsupported,
          fmt::format("stream '{}': expected redeclare on a stream of one producer group, whose "
                      "steps are taken in turn, not relabeled and not served to others; found {}",
                      name(),
                      is_relabeled_       ? "relabel: leave it out"
                      : links.size() != 1 ? fmt::format("{} producer groups", links.size())
                      : copy_             ? "that it is served (serve)"
                                          : "steps that are requested by their time"));
    next.redeclare(layouts);
  };
  unless_ended([&] {
    session_.run_collectively_over(links, declare, until);
    next.check_alike([&](core::Bytes mine, core::Deadline alike_until) {
      return session_.allgather_over(links, std::move(mine), alike_until);
    });
  });
  if (is_over) declare();  // perhaps not yet; begin_step compares what the ranks have declared
  asked_.push_back(std::move(next));
  const auto tell_server = [&] {
    wire::ToServer message;
    auto& redeclare = *message.mutable_redeclare_link();
    redeclare.set_link(links.front());
    redeclare.set_number(redeclarations_ + asked_.size());
    *redeclare.mutable_fields() = asked_.back().encoded();
    unless_ended([&] { session_.control().call(std::move(message), session_.deadline()); });
    return core::Bytes{};
  };
  try {
    unless_ended([&] { session_.run_on_root_over(links, tell_server, until); });
  } catch (const Error& e) {  // without an answer it may hold all the same
    if (e.code() != Errc::timed_out && e.code() != Errc::no_server && e.code() != Errc::interrupted)
      asked_.pop_back();
    throw;
  }
}

void InStream::adopt(std::uint64_t number) {
  for (; redeclarations_ < number && !asked_.empty(); ++redeclarations_) {
    fields_ = std::move(asked_.front());
    asked_.pop_front();
  }
}

}  // namespace tremula::client
