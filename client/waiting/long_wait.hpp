// SPDX-License-Identifier: Apache-2.0
#pragma once
// What this rank waits for: described by the call that waits, told to the server by the heartbeats,
// and ended by an error where the server has found it in a circle.
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

/// Describes a wait of ranks for others of their own group, in wire::Wait and in the texts of the server.
inline constexpr std::string_view own_agreement = "an agreement of its group";

/// The waits of one rank, one after the other. Thread-safe, but for LongWait, which is of the
/// application's thread.
class Waits {
public:
  using Clock = std::chrono::steady_clock;

  /// @param count  adds to a description how far the rank has come in all its links
  void count_by(std::function<void(wire::Wait&)> count) { count_ = std::move(count); }
  /// @param is_over  asked now and then in a long wait, of the application's thread: whether to end it
  void ask_by(std::function<bool()> is_over) { is_over_ = std::move(is_over); }
  /// Before there is a server, to which a wait could be told.
  /// @throws core::Error interrupted if the application does not want to wait
  void ask_whether_to_wait(const std::string& stream) const;
  /// Of the application's thread: the ranks of the group agree, once more.
  /// @return how often they have, this time included; the same on all ranks
  std::uint64_t begin_agreement() noexcept { return ++agreements_; }
  /// What the rank waits for, if it has done so for a while.
  std::optional<wire::Wait> present() const;
  /// The server has found the wait in a circle.
  void take(const wire::Deadlock& deadlock);

private:
  friend class LongWait;
  void tell(wire::Wait wait, std::uint64_t number, Clock::time_point since);
  /// @throws core::Error deadlock if the server has found the present wait in a circle; mismatch if the circle is of
  ///                      ranks of one group
  void check() const;
  /// @param is_agreement  another rank may end it for all, and one that leaves it alone cannot agree any more: so it stays
  ///                      for a second
  /// @throws core::Error interrupted if the application has ended the present wait
  void ask(bool is_agreement, Clock::time_point now);
  void end() noexcept;

  std::function<void(wire::Wait&)> count_ = [](wire::Wait&) {};
  std::function<bool()> is_over_;
  LongWait* outermost_ = nullptr;
  std::uint64_t last_ = 0;  // number
  std::uint64_t agreements_ = 0;
  mutable std::mutex mutex_;
  std::optional<wire::Wait> present_;
  Clock::time_point since_;
  std::string circle_;
  std::uint64_t in_circle_ = 0;             // number of the wait
  bool is_of_one_group_ = false;            // the circle
  std::optional<Clock::time_point> ended_;  // the present wait, by the application
};

/// One call's wait, or an agreement's. Costs nothing until it is long.
class LongWait {
public:
  /// @param describe      gives a wire::Wait without number, seconds and turns; outlives this object
  /// @param is_agreement  of the ranks of a group, with nothing else
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

  /// Called now and then as long as it lasts, also by what waits inside.
  /// @throws core::Error deadlock, mismatch if this one is the outermost; interrupted
  void look();

private:
  Waits& waits_;
  bool is_agreement_;
  const void* object_;
  wire::Wait (*describe_)(const void*);
  std::uint64_t number_ = 0;  // 0: not told yet
  Waits::Clock::time_point since_, next_;
};

}  // namespace tremula::client
