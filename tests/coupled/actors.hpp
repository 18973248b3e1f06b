// SPDX-License-Identifier: Apache-2.0
#pragma once
// Jobs of coupled_actor, and the events that they have recorded.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/coupled/jobs.hpp"
#include "tremula/tremula.h"

namespace tremula::coupled {

/// How long a test waits for an expected event, however busy the machine is. The text of an error
/// shows whether the event occurred in time: an error caused by the job's own deadline says so.
inline constexpr double patience_seconds = 90;

/// One line that a rank has written (coupled_actor.cpp explains it).
struct Event {
  int rank = -1;
  std::string doing;
  long step = 0;
  int status = 0;
  double seconds = 0;  ///< duration of the call
  std::string text;
};
void PrintTo(const Event& event, std::ostream* out);

/// A job of coupled_actor.
struct Actors {
  Role role;
  Job* job;
  std::filesystem::path notes;  ///< the file of rank r is notes.r

  std::vector<Event> events(int rank) const;
  /// Returns the first event of `rank` that is an error; an event with status 0 if it has no error.
  Event error_of(int rank) const;
  /// Returns the first event `doing` of `rank`; an event with rank -1 if it has no such event.
  Event event_of(int rank, const std::string& doing) const;
  /// Waits for up to `patience_seconds` until every rank has the event `doing`, and returns whether
  /// all have it.
  bool have_all(const std::string& doing) const;
};

/// A fixture that shows the output of all its jobs if a test fails.
class CoupledActors : public testing::Test {
protected:
  void TearDown() override {
    if (HasFailure()) ADD_FAILURE() << stage.report();
  }
  /// Starts every rank of `role` as coupled_actor, in a group of the role's name unless `options`
  /// say otherwise.
  Actors play(const Role& role, Launcher launcher, Arguments options,
              const Environment& environment = {});
  /// Checks that all ranks have an error with that status, whose text contains all of `parts`.
  void expect_error(const Actors& actors, tremula_status status,
                    const std::vector<std::string>& parts);
  /// Checks that the job ends with status 0, with or without errors.
  void expect_end(const Actors& actors);

  Stage stage;

private:
  int plays_ = 0;
};

/// Returns "--session {transport: T, timeout: 4, ...}" for play().
Arguments session(const std::string& transport, double timeout = 30, double step_timeout = 30);

/// Returns the lists, concatenated.
template <class... More>
Arguments join(Arguments all, const More&... more) {
  (all.insert(all.end(), more.begin(), more.end()), ...);
  return all;
}

}  // namespace tremula::coupled
