// SPDX-License-Identifier: Apache-2.0
#include "coupling/oasis/schedule.hpp"

#include <fmt/format.h>

#include "coupling/oasis/failure.hpp"

namespace tremula::oasis {

Put put_at(const Schedule& schedule, Seconds date) {
  const Seconds time = date + schedule.lag;
  if (time % schedule.period != 0) return {PutAction::keep, time};
  if (time < schedule.runtime) return {PutAction::send, time};
  if (time == schedule.runtime && schedule.lag > 0) return {PutAction::to_restart, time};
  return {PutAction::drop, time};
}

bool is_get_at(const Schedule& schedule, Seconds date) { return date % schedule.period == 0; }

bool begins_from_restart(const Schedule& schedule) { return schedule.lag > 0; }

bool keeps_part_of_transformation(const Schedule& schedule, Seconds last) {
  return last + schedule.lag + schedule.period >= schedule.runtime;
}

void Clock::advance(Seconds date, Seconds time) {
  if (date < 0 || date >= schedule_.runtime)
    fail(
        fmt::format("date {} s: expected at least 0 s and below the runtime of {} s; give dates "
                    "since the start of the run, or change $RUNTIME (YAML: runtime)",
                    date, schedule_.runtime));
  if (last_ && date < *last_)
    fail(
        fmt::format("date {} s: expected at least {} s, the date of the previous call; make the "
                    "calls in the order of their dates",
                    date, *last_));
  const bool is_coupling_time = time % schedule_.period == 0;
  if (is_coupling_time && next_ && time < *next_)
    fail(fmt::format(
        "date {} s: expected one call for the coupling time {} s; found a second one; call "
        "once at every date",
        date, time));
  if (next_ && time > *next_)
    fail(fmt::format(
        "date {} s: expected an earlier call for the coupling time {} s; found none, and the other "
        "component waits for it; call at every multiple of the coupling period of {} s{}",
        date, *next_, schedule_.period,
        schedule_.lag == 0 ? "" : fmt::format(" less the lag of {} s", schedule_.lag)));
  last_ = date;
  if (is_coupling_time) next_ = time + schedule_.period;
}

}  // namespace tremula::oasis
