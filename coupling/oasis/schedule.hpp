// SPDX-License-Identifier: Apache-2.0
#pragma once
// The effect of a put or a get at a date. Dates are seconds since the start of the run, 0 <= date <
// runtime.
//
// A field with period p and lag g is exchanged at the times 0, p, 2p, ... that are below the
// runtime. The value for time t is the one that the source puts at date t - g. With g > 0, the
// value for time 0 is not put in this run. The previous run put it near its end, for its own time
// t = runtime, and this run reads it from the restart file.
#include <cstdint>
#include <optional>
#include <string>

namespace tremula::oasis {

using Seconds = std::int64_t;

/// @pre 0 < period, -period < lag <= period, 0 < runtime
struct Schedule {
  Seconds period = 0;
  Seconds lag = 0;
  Seconds runtime = 0;
};

enum class PutAction {
  keep,        ///< not a coupling date: a transformation takes the values
  send,        ///< the values for `time` are complete and are sent to the target
  to_restart,  ///< the values are complete, and the next run begins with them
  drop,        ///< the values are complete, and the run ends before their time
};

struct Put {
  PutAction action = PutAction::keep;
  Seconds time = 0;  ///< date + lag
};
Put put_at(const Schedule& schedule, Seconds date);

/// Returns whether a get at `date` takes the values for time `date`.
bool is_get_at(const Schedule& schedule, Seconds date);

/// Returns whether the source sends the values for time 0, from the restart file, before its first
/// date.
bool begins_from_restart(const Schedule& schedule);

/// Returns whether the values that a transformation has taken by the end of the run are written to
/// the restart file.
/// @param last  date of the last put
bool keeps_part_of_transformation(const Schedule& schedule, Seconds last);

/// Checks the dates of the calls for one field.
class Clock {
public:
  explicit Clock(const Schedule& schedule) : schedule_(schedule) {}

  /// Checks and records the date of a put or a get; call it for each of them.
  /// @param time  date + lag for a put, the date for a get
  /// @throws Error if the date is outside the run or before the previous date, or if a coupling
  ///         time is repeated or has been skipped since the first one
  void advance(Seconds date, Seconds time);
  /// Records that the values for time 0 were sent from the restart file.
  void has_begun_from_restart() { next_ = schedule_.period; }
  /// Returns the date of the last call; nullopt before the first one.
  std::optional<Seconds> last() const { return last_; }

private:
  Schedule schedule_;
  std::optional<Seconds> last_;
  std::optional<Seconds> next_;  // the next coupling time; nullopt before the first
};

}  // namespace tremula::oasis
