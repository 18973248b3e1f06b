// SPDX-License-Identifier: Apache-2.0
#include "client/waiting/long_wait.hpp"

#include <fmt/format.h>

#include "core/error.hpp"

namespace tremula::client {

namespace {
/// Time after which the description that heartbeats report is updated.
constexpr std::chrono::milliseconds between_looks{100};

std::string place_of(const wire::Wait& wait) {
  return wait.stream().empty()
             ? wait.call()
             : fmt::format("stream '{}', step {}, {}", wait.stream(), wait.step(), wait.call());
}
}  // namespace

std::optional<wire::Wait> Waits::present() const {
  const std::scoped_lock lock(mutex_);
  auto wait = present_;
  if (wait) wait->set_seconds(std::chrono::duration<double>(Clock::now() - since_).count());
  return wait;
}

void Waits::take(const wire::Deadlock& deadlock) {
  const std::scoped_lock lock(mutex_);
  circle_ = deadlock.text();
  in_circle_ = deadlock.wait();
  is_of_one_group_ = deadlock.is_of_one_group();
}

void Waits::set_present(wire::Wait wait, std::uint64_t number, Clock::time_point since) {
  wait.set_number(number);
  wait.set_agreements(agreements_);
  count_(wait);
  const std::scoped_lock lock(mutex_);
  present_ = std::move(wait);
  since_ = since;
}

void Waits::check() const {
  const std::scoped_lock lock(mutex_);
  if (!present_ || in_circle_ != present_->number()) return;
  if (is_of_one_group_)
    throw core::Error(core::Errc::mismatch,
                      fmt::format("{}: expected all ranks of a group to make the same calls in the "
                                  "same order; found that {}",
                                  place_of(*present_), circle_));
  throw core::Error(
      core::Errc::deadlock,
      fmt::format("{}: expected the other side to arrive; found that the jobs wait for "
                  "each other in a circle: {}; {}change the order of their calls: let "
                  "one of them put before it gets, or raise a queue_depth",
                  place_of(*present_), circle_,
                  circle_.find(own_agreement) == circle_.npos
                      ? ""
                      : "let all ranks of a group make the same calls in the same "
                        "order; if they do, "));
}

void Waits::ask(bool is_agreement, Clock::time_point now) {
  if (!ended_ && is_over_ && is_over_()) ended_ = now;
  if (!ended_ || (is_agreement && now - *ended_ < std::chrono::seconds(1))) return;
  const std::scoped_lock lock(mutex_);
  const wire::Wait& wait = *present_;
  throw core::Error(
      core::Errc::interrupted,
      fmt::format("{}: the application has ended the wait{}{}{}", place_of(wait),
                  wait.group().empty() ? "" : fmt::format(" for group '{}'", wait.group()),
                  wait.what().empty() ? "" : " ", wait.what()));
}

void Waits::ask_whether_to_wait(const std::string& stream) const {
  if (is_over_ && is_over_())
    throw core::Error(
        core::Errc::interrupted,
        fmt::format("stream '{}', begin_step: the application has ended the wait for a server",
                    stream));
}

void Waits::end() noexcept {
  ended_.reset();
  const std::scoped_lock lock(mutex_);
  present_.reset();
}

void LongWait::look() {
  LongWait& outermost = *waits_.outermost_;
  if (this == &outermost && number_ != 0) waits_.check();
  const auto now = Waits::Clock::now();
  if (now < outermost.next_) return;
  if (outermost.number_ == 0) {
    outermost.number_ = ++waits_.last_;
    outermost.since_ = now;
  }
  outermost.next_ = now + between_looks;
  waits_.set_present(outermost.describe_(outermost.object_), outermost.number_, outermost.since_);
  waits_.ask(is_agreement_, now);
}

}  // namespace tremula::client
