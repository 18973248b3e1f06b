// SPDX-License-Identifier: Apache-2.0
#include "client/stream/link/opening.hpp"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "core/thread.hpp"

namespace tremula::client {

using core::Errc, core::Error;

namespace {
/// Between two looks at what comes.
constexpr auto nap_time = std::chrono::milliseconds(1);
}  // namespace

Opening::Opening(Session& session, const wire::Matched& matched, Link link, const LinkTerms& terms,
                 core::Deadline until)
    : session_(session),
      matched_(matched),
      link_(std::move(link)),
      terms_(terms),
      until_(until),
      thread_(core::start_thread([this] { run(); })) {}

Opening::~Opening() { end(); }

void Opening::end() noexcept {
  if (!thread_.joinable()) return;
  {
    const std::scoped_lock lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_one();
  if (state() == State::under_way) link_.endpoint->stop_connecting();
  thread_.join();
}

Link Opening::take() {
  end();
  return std::move(link_);
}

bool Opening::nap() {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, nap_time, [this] { return is_over_; });
}

void Opening::run() noexcept {
  try {
    if (!connect()) return;
    state_.store(State::ready, std::memory_order_release);
    while (nap()) keep_alive();
  } catch (...) {
    try {
      why_ = core::current_error().what();
    } catch (...) {  // no memory for a text
    }
    state_.store(State::failed, std::memory_order_release);
  }
}

bool Opening::connect() {
  Control& control = session_.control();
  const auto start = core::Deadline::Clock::now();
  std::optional<wire::LinkAddresses> told;
  while (!(told = control.find_addresses(link_.number))) {
    if (until_.expired())
      throw Error(Errc::timed_out,
                  fmt::format("link {}: expected the other side's addresses in time; found none{}",
                              link_.number, control.is_served() ? "" : ", and no server"));
    if (!nap()) return false;
  }
  link_.endpoint->connect(addresses_in(*told), until_);
  send_first_signs(session_, link_, terms_);
  for (;;) {
    keep_alive();
    const auto missing = link_.signs->unproved();
    if (!missing) return true;
    if (const auto end = control.link_end(link_.number))
      throw Error(end->lost ? Errc::peer_lost : Errc::cancelled, end->why);
    if (until_.expired()) throw unproved(link_, *missing, start);
    if (!nap()) return false;
  }
}

void Opening::keep_alive() {
  link_.endpoint->progress();
  link_.signs->advance();
}

}  // namespace tremula::client
