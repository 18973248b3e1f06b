// SPDX-License-Identifier: Apache-2.0
#pragma once
// The wait of this rank: the call that waits describes it, heartbeats report it to the server, and an error ends
// it if the server has found it to be part of a circle.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "proto/control.pb.h"

namespace tremula::client {

class LongWait;

/// Describes a wait of ranks for other ranks of their own group, in wire::Wait and in the texts of the server.
inline constexpr std::string_view own_agreement = "an agreement of its group";

/// The successive waits of one rank. Thread-safe, except for LongWait, which only the application's thread uses.
class Waits {
public:
  using Clock = std::chrono::steady_clock;

  /// Sets the function that counts this rank's progress.
  /// @param count  adds the progress of the rank in all its links to a description
  void count_by(std::function<void(wire::Wait&)> count) { count_ = std::move(count); }
  /// Sets the function with which the application can end a wait.
  /// @param is_over  called repeatedly during a long wait, by the application's thread; returns true to end the wait
  void ask_by(std::function<bool()> is_over) { is_over_ = std::move(is_over); }
  /// Asks the application whether to end a wait for the server, which no heartbeat can report.
  /// @throws core::Error interrupted if the application does not want to wait
  void ask_whether_to_wait(const std::string& stream) const;
  /// Counts the agreement of the group's ranks that now begins. Called by the application's thread.
  /// @return how many agreements have begun, including this one; equal on all ranks
  std::uint64_t begin_agreement() noexcept { return ++agreements_; }
  /// Returns what the rank waits for; nullopt if it does not wait, or has not waited long.
  std::optional<wire::Wait> present() const;
  /// Records that the server has found the wait to be part of a circle.
  void take(const wire::Deadlock& deadlock);

private:
  friend class LongWait;
  /// Makes `wait` the present wait, which heartbeats report.
  void set_present(wire::Wait wait, std::uint64_t number, Clock::time_point since);
  /// Throws if the server has found the present wait to be part of a circle.
  /// @throws core::Error deadlock; mismatch if all ranks of the circle are of one group
  void check() const;
  /// Asks the application whether to end the present wait.
  /// @param is_agreement  whether to end the wait only a second after the application's answer:
  ///                      another rank may end it for all ranks, and a rank that leaves an
  ///                      agreement on its own cannot take part in any other
  /// @throws core::Error interrupted if the application has ended the present wait
  void ask(bool is_agreement, Clock::time_point now);
  void end() noexcept;

  std::function<void(wire::Wait&)> count_ = [](wire::Wait&) {};
  std::function<bool()> is_over_;
  LongWait* outermost_ = nullptr;
  std::uint64_t last_ = 0;  // number of the latest wait
  std::uint64_t agreements_ = 0;
  mutable std::mutex mutex_;
  std::optional<wire::Wait> present_;
  Clock::time_point since_;
  std::string circle_;
  std::uint64_t in_circle_ = 0;             // number of the wait in the circle
  bool is_of_one_group_ = false;            // all ranks of the circle are of one group
  std::optional<Clock::time_point> ended_;  // when the application ended the present wait
};

/// The wait of one call or of one agreement. Costs nothing while it is short.
class LongWait {
public:
  /// @param describe      returns a wire::Wait without number, seconds and turns; must outlive this object
  /// @param is_agreement  whether this is an agreement of the ranks of a group, which waits for nothing else
  template <class Describe>
  LongWait(Waits& waits, const Describe& describe, bool is_agreement = false)
      : waits_(waits),
        is_agreement_(is_agreement),
        object_(&describe),
        describe_([](const void* object) { return (*static_cast<const Describe*>(object))(); }) {
    if (waits_.outermost_ == nullptr) waits_.outermost_ = this;
  }
  ~LongWait() {
    if (waits_.outermost_ != this) return;
    waits_.outermost_ = nullptr;
    if (number_ != 0) waits_.end();
  }
  LongWait(const LongWait&) = delete;
  LongWait& operator=(const LongWait&) = delete;

  /// Updates the description of the wait and checks whether the wait must end. Called repeatedly while it lasts, also
  /// by inner waits.
  /// @throws core::Error deadlock, mismatch if this wait is the outermost; interrupted
  void look();

private:
  Waits& waits_;
  bool is_agreement_;
  const void* object_;
  wire::Wait (*describe_)(const void*);
  std::uint64_t number_ = 0;  // 0: not reported yet
  Waits::Clock::time_point since_, next_;
};

}  // namespace tremula::client
