// SPDX-License-Identifier: Apache-2.0
// Tests the Fortran modules: every kind of element, every number of dimensions, refusals, and MPI.
#include <gtest/gtest.h>

#include <string>

#include "tests/coupled/jobs.hpp"

namespace tremula::coupled {
namespace {

const std::string programs = PROGRAMS "/bindings_fortran_";
const Environment environment{{"TREMULA_TIMEOUT", "40"}, {"TREMULA_STEP_TIMEOUT", "40"}};

TEST(Fortran, MovesEveryKindAndNumberOfDimensions) {
  Stage stage;
  stage.start_server();
  Job& producer =
      stage.start({"produce", 2}, Launcher::plain, {programs + "kinds", "produce"}, environment);
  Job& consumer =
      stage.start({"consume", 3}, Launcher::plain, {programs + "kinds", "consume"}, environment);
  const auto deadline = Deadline::after(60);
  EXPECT_EQ(consumer.wait(deadline), 0);
  EXPECT_EQ(producer.wait(deadline), 0);
  if (HasFailure()) ADD_FAILURE() << stage.report();
}

TEST(Fortran, RefusesMisuseWithAText) {
  Stage stage;
  stage.start_server();
  Job& job =
      stage.start({"misuse", 1}, Launcher::plain, {programs + "misuse", "with_ierr"}, environment);
  EXPECT_EQ(job.wait(Deadline::after(60)), 0);
  const std::string text = job.output();
  for (const char* part :
       {"an open session: session: expected one that is not open; found an open one: close it "
        "first",
        "an open stream: stream again: expected one that is not open",
        "an open stream of a consumer: stream again: expected one that is not open; found an open "
        "one: close it first; a stream whose close has failed may also be given up (give_up)",
        "an attribute of an undeclared field: stream 'matrix': expected a field from 0 to 0",
        "a layout without grid: layout", "a dimension too many: ", "an index counted from 0: ",
        "a number counted from 0: points: expected element numbers from 1 to 24, or "
        "tremula_no_element for a place without an element; found 0",
        "a stream that is not open: out: expected a pointer; found NULL", "an unknown option: ",
        "an origin without a whole: field value: expected both origin and whole",
        "extents of one dimension: local: expected extents with room for 2 numbers",
        "an origin of one dimension: field value: expected origin and whole with 2 numbers each",
        "a change of one dimension: change: expected extents of 2 numbers",
        "another kind: field value: expected an array of f64; found one of f32",
        "a section with gaps: field value: expected a contiguous array", "a part of the buffer: ",
        "a field of no stream: expected a field that a stream has declared", "closed"})
    EXPECT_NE(text.find(part), text.npos) << part;
  if (HasFailure()) ADD_FAILURE() << stage.report();
}

TEST(Fortran, EndsWithTheTextIfTheStatusIsIgnored) {
  const std::pair<const char*, const char*> cases[] = {
      {"without_ierr", "tremula: layout"},
      {"copied", "tremula: session: expected one variable as its owner; found an assignment"},
      {"copied_array", "tremula: session: expected one variable as its owner; found an assignment"},
      {"copied_to_array",
       "tremula: session: expected one variable as its owner; found an assignment"}};
  for (const auto& [name, words] : cases) {
    Stage stage;
    stage.start_server();
    Job& job =
        stage.start({"misuse", 1}, Launcher::plain, {programs + "misuse", name}, environment);
    EXPECT_EQ(job.wait(Deadline::after(60)), 1) << name;
    EXPECT_NE(job.output().find(words), std::string::npos) << job.output();
  }
}

#ifdef TREMULA_HAS_MPI
TEST(Fortran, TakesCommunicators) {
  for (const int ranks : {2, 4}) {
    Stage stage;
    stage.start_server();
    Job& job = stage.start({"job", ranks}, Launcher::mpirun, {programs + "job"}, environment);
    EXPECT_EQ(job.wait(Deadline::after(60)), 0);
    EXPECT_NE(job.output().find("right"), std::string::npos) << job.output();
    if (HasFailure()) ADD_FAILURE() << stage.report();
  }
}
#endif

}  // namespace
}  // namespace tremula::coupled
