// SPDX-License-Identifier: Apache-2.0
// Wrong calls end the job with a text that states what was expected, what was found and what to do;
// the texts of jobs that wait for each other name the missing lag.
#include <gtest/gtest.h>

#include <fstream>

#include "tests/coupling/oasis/toy.hpp"

namespace tremula::oasis_toy {
namespace {

namespace fs = std::filesystem;
using coupled::Deadline, coupled::Job, coupled::Launcher, coupled::Stage;

constexpr double patience_seconds = 60;

void write(const fs::path& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
}

std::string entry(const std::string& names, const std::string& period = "3600",
                  const std::string& lag = "") {
  return names + " 1 " + period + " 0 rst.nc EXPORTED\n sgrd tgrd " + lag + "\n P 0 P 0\n";
}

std::string namcouple(const std::string& entries, int runtime = 7200) {
  return "$NFIELDS\n9\n$END\n$RUNTIME\n" + std::to_string(runtime) + "\n$END\n$STRINGS\n" +
         entries + "$END\n";
}

class OasisMisuse : public testing::Test {
protected:
  OasisMisuse() { stage_.start_server({"--heartbeat", "0.1"}); }
  Job& start(const std::string& what, int ranks, const std::string& configuration) {
    const fs::path folder = stage_.directory() / ("of_" + what);
    fs::create_directories(folder);
    if (!configuration.empty()) write(folder / "namcouple", configuration);
    return stage_.start(
        {what, ranks}, Launcher::mpirun,
        {"/usr/bin/env", "-C", folder.string(), PROGRAMS "/coupling_oasis_misuse", what},
        {{"TREMULA_TIMEOUT", "3"}, {"TREMULA_STEP_TIMEOUT", "20"}});
  }
  static void expect_error(Job& job, const std::string& words) {
    const auto status = job.wait(Deadline::after(patience_seconds));
    const std::string text = job.output();
    EXPECT_TRUE(status && *status != 0) << job.name();
    EXPECT_NE(text.find(words), text.npos)
        << job.name() << ": expected " << words << ", found " << text;
    EXPECT_EQ(text.find("was not stopped"), text.npos) << job.name();
    EXPECT_EQ(text.find("Segmentation"), text.npos) << job.name() << ": " << text;
  }
  Stage stage_;
};

TEST_F(OasisMisuse, EndsInAnErrorWithAText) {
  struct Row {
    const char* what;
    int ranks;
    const char* words;
  };
  const Row rows[] = {
      {"before_init", 1,
       "oasis_enddef: expected the call between oasis_init_comp and oasis_terminate"},
      {"init_twice", 1, "oasis_init_comp: expected one call; found a second one"},
      {"cube", 1, "ig_paral(1) = 5, the cube partition, is not supported by tremula_oasis"},
      {"size", 1, "expected points below ig_size, 7; found number 8, counted from 1"},
      {"no_partition", 1, "variable SST: expected the number of a partition"},
      {"intracomm", 1,
       "oasis_get_intracomm: a communicator with the component atmos is not supported"},
      {"multi_intracomm", 1,
       "oasis_get_multi_intracomm: a communicator with 2 components is not supported"},
      {"intercomm", 1,
       "oasis_get_intercomm: an intercommunicator with the component atmos is not supported"},
      {"abort", 1, "component 'abort', rank 0: ocean_step: the ice is too thick"},
      {"direction", 1,
       "variable SST: expected OASIS_Out, because namcouple lists it as a source; found OASIS_In"},
      {"in_or_out", 1, "variable SST: expected OASIS_Out (20) or OASIS_In (21); found 2"},
      {"type", 1, "variable SST: expected the type OASIS_Real (4) or OASIS_Double (8); found 3"},
      {"var_twice", 1, "variable SST: expected one call of oasis_def_var; found a second one"},
      {"ranks_differ", 2,
       "expected the same definitions on all ranks; rank 1 has variable HEAT (in, 1 in a bundle) "
       "on a partition without ig_size; found no such definition on rank 0, which has 6 points in "
       "partition 1"},
      {"bundle_differs", 2,
       "expected the same definitions on all ranks; rank 0 has variable SST (out, 1 in a bundle) "
       "on a partition without ig_size; found variable SST (out, 2 in a bundle) on a partition "
       "without ig_size on rank 1"},
      {"to_itself", 1, "field SST->COPY from a component to itself is not supported"},
      {"before_enddef", 1, "oasis_put: expected the call between oasis_enddef and oasis_terminate"},
      {"terminate_twice", 1,
       "oasis_terminate: expected the call between oasis_init_comp and oasis_terminate"},
      {"enddef_twice", 1, "oasis_enddef: expected one call of oasis_enddef; found a second one"},
      {"late_var", 1,
       "oasis_def_var: expected the call before oasis_enddef; found it after oasis_enddef"},
      {"array", 1,
       "field SST->SST_A: expected an array of 6 elements, as its partition array_part000001 has; "
       "found 5"},
      {"get_of_out", 1,
       "variable SST: expected oasis_put, because it is defined with OASIS_Out; found oasis_get"},
      {"no_variable", 1, "expected the number of a variable, from 1 to 1; found 17"},
      {"put_uncoupled", 1,
       "found OASIS_Var_Uncpl, which oasis_def_var returns for a name that the file does not list "
       "(ICE)"},
      {"ig_size", 1,
       "variable SST: expected a grid with the ig_size of its partition ig_size_part000001, 6 "
       "points; found 7 x 1 in namcouple"},
      {"after_the_end", 1, "date 7200 s: expected at least 0 s and below the runtime of 7200 s"},
      {"negative_date", 1, "date -900 s: expected at least 0 s and below the runtime of 7200 s"},
      {"backwards", 1, "date 900 s: expected at least 1800 s"},
      {"higher_order", 1, "higher-order fields (fld2 to fld5) are not supported"},
      {"write_restart", 1, "write_restart is not supported"},
      {"no_target", 1, "field SST->SST_A (oasis_put) at date 0 s"},
      {"idle_rank", 2,
       "; a rank that defines the field without points must make the same calls for it"},
  };
  constexpr std::size_t at_once = 9;
  for (std::size_t first = 0; first < std::size(rows); first += at_once) {
    const std::size_t end = std::min(first + at_once, std::size(rows));
    std::vector<Job*> jobs;
    for (std::size_t i = first; i < end; ++i) {
      const std::string what = rows[i].what;
      std::string text = namcouple(entry("SST SST_A") + entry("HEAT_A HEAT") +
                                   (what == "to_itself" ? entry("SST COPY") : ""));
      if (what == "ig_size") text.replace(text.find("sgrd tgrd"), 4, "7 1 7 1 sgrd");
      jobs.push_back(&start(what, rows[i].ranks, text));
    }
    for (std::size_t i = first; i < end; ++i) expect_error(*jobs[i - first], rows[i].words);
  }
}

/// Many models write their grids although oasis_start_grids_writing returns that there is nothing
/// to write.
TEST_F(OasisMisuse, ContinuesWithoutTheGridsOfAModel) {
  // "grid": only rank 1 writes; "grid_in_parts": both ranks write their parts.
  for (const char* what : {"grid", "grid_in_parts"}) {
    SCOPED_TRACE(what);
    Job& job = start(what, 2, namcouple(entry("SST SST_A")));
    EXPECT_EQ(job.wait(Deadline::after(patience_seconds)), 0) << job.output();
    const std::string text = job.output();
    const std::string words = "warning: oasis_write_grid: the grid ogrd is not written";
    EXPECT_NE(text.find(words), text.npos) << text;
    EXPECT_EQ(text.find("is not written", text.find(words) + words.size()), text.npos) << text;
    EXPECT_NE(text.find("was not stopped"), text.npos) << text;
  }
}

TEST_F(OasisMisuse, NeedsAConfiguration) {
  expect_error(start("none", 1, ""), "expected a namcouple or a tremula_oasis.yaml; found neither");
  const fs::path folder = stage_.directory() / "of_both";
  fs::create_directories(folder);
  write(folder / "tremula_oasis.yaml", "runtime: 1\nfields: []\n");
  expect_error(start("both", 2, namcouple("")),
               "expected a namcouple or a tremula_oasis.yaml; found both");
}

/// Returns two components with one field in each direction.
Scene small_scene() {
  Random random(1);
  Scene scene;
  scene.components[0] = {"ocean", 2, 1800, true};
  scene.components[1] = {"atmos", 1, 1800, true};
  scene.runtime = 7200;
  for (const bool is_forth : {true, false}) {
    Case c;
    c.slot = static_cast<int>(scene.cases.size());
    c.nx = 6;
    c.is_forth = is_forth;
    c.period = 3600;
    c.source = deal(random, Kind::apple, c.nx, c.ny, is_forth ? 2 : 1);
    c.target = deal(random, Kind::apple, c.nx, c.ny, is_forth ? 1 : 2);
    scene.cases.push_back(c);
  }
  return scene;
}

class OasisPair : public OasisMisuse {
protected:
  /// Runs each job in a separate folder, with its own version of the scene.
  void play_apart(const Scene& ocean, const Scene& atmos) {
    const fs::path a = stage_.directory() / "a", b = stage_.directory() / "b";
    prepare(ocean, a);
    prepare(atmos, b);
    jobs_[0] = &oasis_toy::start(ocean, 0, stage_, a);
    jobs_[1] = &oasis_toy::start(atmos, 1, stage_, b);
  }
  Job* jobs_[2] = {};
};

TEST_F(OasisPair, IsAdvisedToUseALagIfBothGetFirst) {
  play_apart(small_scene(), small_scene());
  const char* const fields[] = {"field SRC1->DST1 (oasis_get) at date 0 s, lag 0 s",
                                "field SRC0->DST0 (oasis_get) at date 0 s, lag 0 s"};
  for (const int i : {0, 1}) {
    expect_error(*jobs_[i], fields[i]);
    for (const char* words : {"wait for each other in a circle", "give it a lag",
                              "LAG in namcouple", "stream 'SRC0->DST0'", "stream 'SRC1->DST1'"})
      expect_error(*jobs_[i], words);
  }
}

TEST_F(OasisPair, ContinuesIfOneFieldHasALag) {
  Scene scene = small_scene();
  scene.cases[1].lag = 1800;
  const auto folder = stage_.directory() / "run";
  if (play(scene, stage_, folder)) expect_right(scene, folder);
}

TEST_F(OasisPair, NamesBothPeriods) {
  Scene ocean = small_scene(), atmos = small_scene();
  ocean.components[0].gets_first = false;
  ocean.cases[0].period = 1800;
  play_apart(ocean, atmos);
  expect_error(
      *jobs_[1],
      "expected the coupling period of 3600 s, as namcouple says; found 1800 s at the source");
}

TEST_F(OasisPair, NamesAMissedCouplingDate) {
  Scene ocean = small_scene();
  ocean.components[0] = {"ocean", 2, 5400, false};  // in this run only date 0 is a multiple of 3600
  play_apart(ocean, small_scene());
  expect_error(*jobs_[0],
               "date 5400 s: expected an earlier call for the coupling time 3600 s; found none");
}

TEST_F(OasisPair, NamesTheTimeThatItsSourceDidNotReach) {
  Scene ocean = small_scene();
  ocean.components[0].gets_first = false;
  ocean.runtime = 3600;
  play_apart(ocean, small_scene());
  expect_error(*jobs_[1], "expected the values for time 3600 s; found that their source has ended");
}

TEST_F(OasisPair, NamesTheFieldOfUnequalGrids) {
  Scene ocean = small_scene(), atmos = small_scene();
  ocean.components[0].gets_first = false;
  Random random(2);
  ocean.cases[0].nx = 7;
  ocean.cases[0].source = deal(random, Kind::apple, 7, 1, 2);
  play_apart(ocean, atmos);
  for (const int i : {0, 1}) expect_error(*jobs_[i], "field SRC0->DST0");
}

}  // namespace
}  // namespace tremula::oasis_toy
