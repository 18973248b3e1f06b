// SPDX-License-Identifier: Apache-2.0
// The part of ConsumerLinks for steps about which all ranks agree: over which of the links that share the steps the one
// in turn goes, which links leave it out as their queue is full, and whether what is lent has come back.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "client/stream/consumers/consumer_links.hpp"
#include "proto/convert.hpp"

namespace tremula::client {

core::Bytes ConsumerLinks::freeze() {
  const auto hold = session_.progress().hold();
  session_.progress().advance();
  wire::Queues known;
  for (Open& open : links_) {
    const bool is_over = !open.failure.empty() || take_end(open);
    if (is_over && config_.lends) {  // it reads nothing from here on
      open.exchange->take_back();
      if (open.failure.empty()) open.failure = "the link has ended";
    }
    if (is_over || !open.exchange->is_agreed()) continue;
    const auto [told, done] = open.exchange->freeze();
    auto& link = *known.add_links();
    link.set_link(open.link.number);
    link.set_announced(told);
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
          of_all.try_emplace(link.link(), OfAll{{.told = link.announced(), .done = link.done()}});
      OfAll& all = at->second;
      all.known.told = std::max(all.known.told, link.announced());
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

bool ConsumerLinks::poll_link_room(Open& open) {
  try {
    if (!open.failure.empty() || take_end(open) || open.exchange->poll_slot()) return true;
    if (config_.lends && !open.exchange->lent_since()) return true;  // it can be withdrawn
    judge(open);
  } catch (...) {
    keep_failure(open);
  }
  return !open.failure.empty();
}

bool ConsumerLinks::poll_shared_room() {
  const auto hold = session_.progress().hold();
  if (config_.lends)
    return std::ranges::all_of(links_, [this](Open& o) { return poll_link_room(o); });
  bool is_any = false;
  for (Open& open : links_) {
    if (!open.exchange->is_shared()) continue;
    is_any = true;
    if (poll_link_room(open)) return true;  // if it has failed, it is not chosen any more
  }
  return !is_any;
}

void ConsumerLinks::wait_for_shared_room(core::Deadline until) {
  const auto start = core::Deadline::Clock::now();
  session_.waits_for([this] { return poll_shared_room(); }, until);
  wait_seconds_ += core::Deadline::Seconds(core::Deadline::Clock::now() - start).count();
}

std::string ConsumerLinks::shared_group() const {
  const auto hold = session_.progress().hold();
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
  const auto hold = session_.progress().hold();
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
    if (poll_link_room(open)) continue;
    const auto since = open.exchange->lent_since();
    if (!since) continue;
    const core::Deadline::Seconds held = now - *since;
    if (held.count() < config_.lease) continue;
    open.exchange->take_back();
    go_on_without(open, fmt::format("took back version {}, which group '{}' had held for longer "
                                    "than its lease of {:.3g} s; `lease` of the stream sets how "
                                    "long a version may be read",
                                    step_ - 1, open.link.peer_group, config_.lease));
  }
}

}  // namespace tremula::client
