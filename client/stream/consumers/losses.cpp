// SPDX-License-Identifier: Apache-2.0
// The part of ConsumerLinks for waiting, and for links that fail, end, are given up and dropped. What fails is filed in
// its link; the next wait judges it, once it knows what the server tells of the other side.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "client/stream/consumers/consumer_links.hpp"
#include "client/waiting/wait.hpp"
#include "proto/convert.hpp"
#include "proto/wait_text.hpp"

namespace tremula::client {

using core::Errc, core::Error;

bool ConsumerLinks::poll_credit(std::uint64_t end) {
  const auto hold = session_.progress().hold();
  session_.progress().advance();
  bool is_all = true;
  for (Open& open : links_) {
    if (open.exchange->has_credited(end)) continue;
    if (take_end(open)) {  // the next step drops the link, which may take a while
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
    if (open.exchange->is_awaited(m)) wait.add_ranks(messages[m].peer.value);
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
  const auto deadline = session_.step_deadline();  // for all of them together
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
      is_alive = !take_end(open);
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
            deadline, check, [this] { return session_.progress().sleep(); });
        is_done = is_so;
        if (!is_done) check();  // perhaps the first time: another link has used the time up
        if (seconds > 0) waited += seconds, slowest = i;
      }
    } catch (...) {
      keep_failure(open);
    }
    if (!open.failure.empty() && !circle) {
      // Perhaps the consumer died: the server knows within a moment. Or the consumer was told of a
      // circle first, and is gone.
      const auto knows = [&] {
        const bool is_told = take_end(open);
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
      const auto ranks = proto::ranks_of(describe());
      const auto did = fmt::format(
          "waited {} s for consumer group '{}'{} to {}; is it stuck? step_timeout sets how "
          "long a step may take",
          session_.config().step_timeout, open.link.peer_group,
          ranks.empty() ? "" : fmt::format(" ({})", proto::ranks_text(ranks)), what);
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
  if (!open.failure.empty()) open.failed_with = Errc::peer_lost;
}

void ConsumerLinks::take_back() noexcept {
  const auto hold = session_.progress().hold();
  if (config_.lends) kept_.forget(step_ - first_step());
  for (Open& open : links_) {
    if (open.exchange->has_credited(step_)) continue;
    open.exchange->take_back();
    if (!open.exchange->is_queued() && open.failure.empty())
      give_up(open, "withdrew a step before it was taken");
  }
}

Error ConsumerLinks::failed(const Open& open) const {
  return Error(open.failed_with,
               fmt::format("stream '{}', step {}: the link to consumer group '{}' failed: {}",
                           stream(), step_, open.link.peer_group, open.failure));
}

void ConsumerLinks::keep_failure(Open& open) noexcept {
  try {
    const Error error = core::current_error();
    open.failed_with = error.code() == Errc::peer_lost ? Errc::peer_lost : Errc::transport;
    open.failure = error.what();
  } catch (...) {
    open.failure = "out of memory";
  }
}

void ConsumerLinks::give_up(Open& open, std::string_view did) noexcept {
  open.is_given_up = true;
  try {
    open.failure =
        fmt::format("rank {} of group '{}' {}", session_.rank().value, session_.name(), did);
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
  take_end(open);  // says why in lost_
  session_.log().warn("client", fmt::format("stream '{}', step {}: goes on without consumer group "
                                            "'{}': {}",
                                            stream(), step_, open.link.peer_group, open.failure));
}

void ConsumerLinks::give_up(std::string_view did, Which which) noexcept {
  const auto hold = session_.progress().hold();
  for (Open& open : links_)
    if (which == Which::all || open.is_chosen) give_up(open, did);
}

bool ConsumerLinks::take_end(Open& open) {
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
  for (Open& open : links_) take_end(open);
}

void ConsumerLinks::drop(std::size_t i) {
  const auto end = session_.control().link_end(links_[i].link.number);
  if (session_.rank() == Rank{0} && end && end->lost && !links_[i].is_given_up &&
      !links_[i].exchange->has_left())
    session_.log().warn(
        "client", fmt::format("stream '{}', step {}: lost consumer group '{}': {}", stream(), step_,
                              links_[i].link.peer_group, end->why));
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
    if (take_end(links_[i]))
      drop(i);
    else
      ++i;
}

void ConsumerLinks::drop_all() {
  refuse_openings("the stream ended first");
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

}  // namespace tremula::client
