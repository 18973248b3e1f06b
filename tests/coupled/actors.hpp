// SPDX-License-Identifier: Apache-2.0
#pragma once
// Jobs of coupled_actor, and what they have written down.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/coupled/jobs.hpp"
#include "tremula/tremula.h"

namespace tremula::coupled {

/// How long a test waits for what ought to come, however busy the machine is. That an error came in
/// time is told by what it says: one that came of its own deadline says so.
inline constexpr double patience_seconds = 90;

/// One line of a rank (coupled_actor.cpp explains it).
struct Event {
  int rank = -1;
  std::string doing;
  long step = 0;
  int status = 0;
  double seconds = 0;  ///< how long the call took
  std::string text;
};
void PrintTo(const Event& event, std::ostream* out);

/// A job of coupled_actor.
struct Actors {
  Role role;
  Job* job;
  std::filesystem::path notes;  ///< the file of rank r is notes.r

  std::vector<Event> events(int rank) const;
  /// The first event of `rank` that is an error; status 0 if there is none.
  Event error_of(int rank) const;
  /// The first event of `rank` of that kind; rank -1 if there is none.
  Event event_of(int rank, const std::string& doing) const;
  /// Waits for up to `patience_seconds` until every rank has such an event.
  bool have_all(const std::string& doing) const;
};

/// A failing test shows what all its jobs have written.
class CoupledActors : public testing::Test {
protected:
  void TearDown() override {
    if (HasFailure()) ADD_FAILURE() << stage.report();
  }
  /// Starts every rank of `role` as coupled_actor, in a group of the role's name unless `options`
  /// say otherwise.
  Actors play(const Role& role, Launcher launcher, Arguments options,
              const Environment& environment = {});
  /// All ranks have an error with that status, whose text holds all of `parts`.
  void expect_error(const Actors& actors, tremula_status status,
                    const std::vector<std::string>& parts);
  /// The job ends with status 0: in order, though perhaps with errors.
  void expect_end(const Actors& actors);

  Stage stage;

private:
  int plays_ = 0;
};

/// "--session {transport: T, timeout: 4, ...}" for play().
Arguments session(const std::string& transport, double timeout = 30, double step_timeout = 30);

/// One list after the other.
template <class... More>
Arguments join(Arguments all, const More&... more) {
  (all.insert(all.end(), more.begin(), more.end()), ...);
  return all;
}

}  // namespace tremula::coupled
