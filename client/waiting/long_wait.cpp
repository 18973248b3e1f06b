// SPDX-License-Identifier: Apache-2.0
#include "client/waiting/long_wait.hpp"

#include <fmt/format.h>

#include "core/error.hpp"

namespace tremula::client {

namespace {
/// A heartbeat tells what was so at most so long ago.
constexpr std::chrono::milliseconds between_looks{100};
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
}

void Waits::tell(wire::Wait wait, std::uint64_t number, Clock::time_point since) {
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
  const std::string place = present_->stream().empty()
                                ? present_->call()
                                : fmt::format("stream '{}', step {}, {}", present_->stream(),
                                              present_->step(), present_->call());
  throw core::Error(core::Errc::deadlock,
                    fmt::format("{}: expected the other side to come; found that the jobs wait for "
                                "each other in a circle: {}; change the order of their calls: let "
                                "one of them put before it gets, or raise a queue_depth",
                                place, circle_));
}

void Waits::end() noexcept {
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
  waits_.tell(outermost.describe_(outermost.object_), outermost.number_, outermost.since_);
}

}  // namespace tremula::client
