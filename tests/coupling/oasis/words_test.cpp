// SPDX-License-Identifier: Apache-2.0
// The words of a namcouple change values as the OASIS3-MCT User Guide defines.
#include <gtest/gtest.h>
#include <netcdf.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/coupling/oasis/toy.hpp"

namespace tremula::oasis_toy {
namespace {

namespace fs = std::filesystem;
using coupled::Deadline, coupled::Job, coupled::Launcher, coupled::Stage;
using Field = std::array<double, 4>;

class OasisWords : public testing::Test {
protected:
  OasisWords() { stage_.start_server(); }

  /// Writes weights of 0.5 from each of the first three elements to the target with the same
  /// number; the fourth target has none. All areas are 1.
  void write_weights(const std::string& name) const {
    int file = 0, links = 0, sources = 0, targets = 0, row = 0, column = 0, weight = 0, a = 0,
        b = 0;
    ASSERT_EQ(nc_create((stage_.directory() / name).c_str(), NC_CLOBBER, &file), NC_NOERR);
    nc_def_dim(file, "n_s", 3, &links);
    nc_def_dim(file, "n_a", 4, &sources);
    nc_def_dim(file, "n_b", 4, &targets);
    nc_def_var(file, "row", NC_INT, 1, &links, &row);
    nc_def_var(file, "col", NC_INT, 1, &links, &column);
    nc_def_var(file, "S", NC_DOUBLE, 1, &links, &weight);
    nc_def_var(file, "area_a", NC_DOUBLE, 1, &sources, &a);
    nc_def_var(file, "area_b", NC_DOUBLE, 1, &targets, &b);
    nc_enddef(file);
    const int addresses[] = {1, 2, 3};
    const double halves[] = {0.5, 0.5, 0.5}, ones[] = {1, 1, 1, 1};
    nc_put_var_int(file, row, addresses);
    nc_put_var_int(file, column, addresses);
    nc_put_var_double(file, weight, halves);
    nc_put_var_double(file, a, ones);
    nc_put_var_double(file, b, ones);
    ASSERT_EQ(nc_close(file), NC_NOERR);
  }

  /// Writes a restart file as programs other than OASIS do.
  void write_restart(const std::vector<float>& values) const {
    int file = 0, points = 0, variable = 0;
    ASSERT_EQ(nc_create((stage_.directory() / "rst.nc").c_str(), NC_CLOBBER, &file), NC_NOERR);
    nc_def_dim(file, "points", values.size(), &points);
    nc_def_var(file, "SST_OUT", NC_FLOAT, 1, &points, &variable);
    nc_enddef(file);
    ASSERT_EQ(nc_put_var_float(file, variable, values.data()), NC_NOERR);
    ASSERT_EQ(nc_close(file), NC_NOERR);
  }

  /// Writes a namcouple that accumulates a list of two fields, and a restart file of OASIS3-MCT, in
  /// which only SST_OUT has values from the previous run.
  void write_accumulated(const std::vector<int>& counts) const {
    std::ofstream(stage_.directory() / "namcouple")
        << "$NFIELDS\n2\n$END\n$RUNTIME\n120\n$END\n$STRINGS\nICE ICE 1 60 0 ice.nc OUTPUT\n"
           "igrd igrd\nHEAT_OUT:SST_OUT HEAT_IN:SST_IN 1 60 1 rst.nc EXPORTED\nsgrd tgrd\n"
           "LOCTRANS\nACCUMUL\n$END\n";
    int file = 0, fields = 0, points = 0, count = 0, sum = 0;
    ASSERT_EQ(nc_create((stage_.directory() / "rst.nc").c_str(), NC_CLOBBER, &file), NC_NOERR);
    nc_def_dim(file, "fields", counts.size(), &fields);
    nc_def_dim(file, "points", 4, &points);
    nc_def_var(file, "loc000002_cnt", NC_INT, 1, &fields, &count);
    nc_def_var(file, "loc000002_SST_OUT", NC_DOUBLE, 1, &points, &sum);
    nc_enddef(file);
    const double values[] = {10, 20, 30, 40};
    nc_put_var_int(file, count, counts.data());
    nc_put_var_double(file, sum, values);
    ASSERT_EQ(nc_close(file), NC_NOERR);
  }

  /// Runs both components, and compares the fields that the target got at dates 0 and 60 with
  /// `expected`.
  void expect(const std::string& status, const std::string& lag, const std::string& rest,
              const std::array<Field, 2>& expected) {
    write_namcouple(status, lag, rest);
    expect_got({"source", 2}, {"target", 1}, expected);
  }
  void write_namcouple(const std::string& status, const std::string& lag, const std::string& rest,
                       const std::string& second = {}) const {
    const auto count =
        rest.empty()
            ? 0
            : std::count(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(rest.find('\n')),
                         ' ') +
                  1;
    std::ofstream(stage_.directory() / "namcouple")
        << "$NFIELDS\n9\n$END\n$RUNTIME\n120\n$END\n$STRINGS\nSST_OUT SST_IN 1 60 " << count
        << " rst.nc " << status << "\n4 1 4 1 sgrd tgrd " << lag << "\nP 0 P 0\n"
        << rest << second << "$END\n";
  }
  struct Side {
    std::string component;
    int ranks;
  };
  void expect_got(const Side& from, const Side& to, const std::array<Field, 2>& expected) {
    const auto start = [&](const std::string& component, int ranks) -> Job& {
      return stage_.start({component, ranks}, Launcher::mpirun,
                          {"/usr/bin/env", "-C", stage_.directory().string(),
                           PROGRAMS "/coupling_oasis_words", component},
                          {{"TREMULA_TIMEOUT", "40"}, {"TREMULA_STEP_TIMEOUT", "40"}});
    };
    source_ = &start(from.component, from.ranks);
    Job& target = start(to.component, to.ranks);
    const auto deadline = Deadline::after(90);
    EXPECT_EQ(target.wait(deadline), 0);
    EXPECT_EQ(source_->wait(deadline), 0);
    const std::string text = target.output();
    for (int date = 0; date < 120; date += 60) {
      const std::string words = "got at " + std::to_string(date);
      const auto at = text.find(words);
      ASSERT_NE(at, text.npos) << stage_.report();
      std::istringstream values(text.substr(at + words.size()));
      for (const double wanted : expected.at(static_cast<std::size_t>(date / 60))) {
        double found = 0;
        values >> found;
        EXPECT_NEAR(found, wanted, 1e-4) << "date " << date << "\n" << text;
      }
    }
  }
  Stage stage_;
  Job* source_ = nullptr;  // the source of the last run
};

/// The field becomes sst * 2 + 1 before the weights are applied. Then GLOBAL corrects it over all
/// targets, and at the end it is multiplied by -1 and increased by 100.
TEST_F(OasisWords, ChangeTheFieldInTheOrderOfTheGuide) {
  write_weights("w.nc");
  std::array<Field, 2> expected{};
  for (std::size_t step = 0; step < 2; ++step) {
    Field source{}, target{};
    double there = 0, here = 0;
    for (std::size_t g = 0; g < 4; ++g) {
      source[g] = (static_cast<double>(g * g) + static_cast<double>(60 * step)) * 2 + 1;
      there += source[g];
      target[g] = g < 3 ? source[g] / 2 : 0;
      here += target[g];
    }
    for (std::size_t g = 0; g < 4; ++g) expected[step][g] = 100 - (target[g] + (there - here) / 4);
  }
  expect("EXPOUT", "",
         "CHECKIN BLASOLD MAPPING CONSERV BLASNEW CHECKOUT\nINT=1\n2.0 1\nCONSTANT 1.\nw.nc\n"
         "GLOBAL\n-1.0 1\nCONSTANT 100.0\nINT=1\n",
         expected);
}

/// The file contains the field as it was before BLASOLD, which is applied when the field is sent.
/// The field for the next run is written in double precision.
TEST_F(OasisWords, ChangeAFieldOfARestartFile) {
  write_restart({1.5f, 2.25f, 3.125f, 280.1f});
  const Field first{-3, -4.5, -6.25, -560.2}, second{0, -2, -8, -18};
  expect("exported", "lag=+60", "blasold\n-2. 0\n", {first, second});
  // The first field of the second run is the field of date 60 of the first run.
  expect("EXPORTED", "LAG=+60", "BLASOLD\n-2. 0\n", {Field{-120, -122, -128, -138}, second});
}

/// OASIS3-MCT numbers the entries of the namcouple: an entry with OUTPUT counts, and a list is one
/// entry, with a count for each field.
TEST_F(OasisWords, ContinueATransformationOfOasis) {
  write_accumulated({0, 2});
  expect_got({"serial_source", 3}, {"serial_target", 3},
             {Field{10, 21, 34, 49}, Field{60, 61, 64, 69}});
}

/// Rank 1, which has SST, does not define HEAT, a bundle of two fields.
TEST_F(OasisWords, CountTheBundlesOfOtherRanks) {
  write_accumulated({0, 0, 2});
  expect_got({"apart_bundle_source", 3}, {"apart_bundle_target", 3},
             {Field{10, 21, 34, 49}, Field{60, 61, 64, 69}});
}

TEST_F(OasisWords, TakeTheWeightsOfScripr) {
  write_weights("rmp_sgrd_to_tgrd_BILINEAR.nc");
  expect("IGNOUT", "", "SCRIPR\nBILINEAR LR SCALAR LATLON 1\n",
         {Field{0, 0.5, 2, 0}, Field{30, 30.5, 32, 0}});
}

/// Only rank 1 has the first field, e.g. a scalar; the other ranks define nothing and make no calls
/// for it. Every rank has the second field.
TEST_F(OasisWords, NeedNoCallsFromRanksThatDefineNothing) {
  const std::string second =
      "HEAT_OUT HEAT_IN 1 60 0 rst.nc EXPORTED\n3 1 3 1 hgrd hgrd\nP 0 P 0\n";
  const std::array<Field, 2> expected{Field{0, 1, 4, 9}, Field{60, 61, 64, 69}};
  write_namcouple("EXPORTED", "", "", second);
  expect_got({"serial_source", 3}, {"serial_target", 3}, expected);
  write_restart({1.5f, 2.25f, 3.125f, 280.1f});  // rank 1 reads and writes it
  for (const Field& first : {Field{1.5, 2.25, 3.125, 280.1}, Field{60, 61, 64, 69}}) {
    write_namcouple("EXPORTED", "LAG=60", "", second);
    expect_got({"serial_source", 3}, {"serial_target", 3}, {first, Field{0, 1, 4, 9}});
  }
}

/// Rank 0 of the component prints a warning that all ranks have. In the first run, only rank 1 has
/// the field, so rank 1 prints it.
TEST_F(OasisWords, NameAMissingRestartFieldOnce) {
  const std::string may_lack = "$END\n$NNOREST\nT\n";
  const std::array<Field, 2> expected{Field{}, Field{0, 1, 4, 9}};
  const auto expect_one_warning = [&] {
    const std::string text = source_->output(),
                      words = "warning: restart file rst.nc: expected the variable SST_OUT";
    const auto at = text.find(words);
    ASSERT_NE(at, text.npos) << text;
    EXPECT_EQ(text.find(words, at + 1), text.npos) << text;
  };
  write_namcouple(
      "EXPORTED", "LAG=60", "",
      "HEAT_OUT HEAT_IN 1 60 0 rst.nc EXPORTED\n3 1 3 1 hgrd hgrd\nP 0 P 0\n" + may_lack);
  expect_got({"serial_source", 3}, {"serial_target", 3}, expected);
  expect_one_warning();
  fs::remove(stage_.directory() / "rst.nc");
  write_namcouple("EXPORTED", "LAG=60", "", may_lack);
  expect_got({"source", 2}, {"target", 1}, expected);
  expect_one_warning();
}

/// Two fields on one partition are regridded with one file of weights. Only rank 1 defines the
/// first field; all ranks define the second.
TEST_F(OasisWords, RegridFieldsDefinedOnDifferentRanks) {
  write_weights("w.nc");
  write_namcouple(
      "EXPORTED", "", "MAPPING\nw.nc\n",
      "HEAT_OUT HEAT_IN 1 60 1 rst.nc EXPORTED\n4 1 4 1 sgrd tgrd\nP 0 P 0\nMAPPING\nw.nc\n");
  expect_got({"shared_source", 3}, {"shared_target", 3},
             {Field{0, 0.5, 2, 0}, Field{30, 30.5, 32, 0}});
}

/// No rank defines both fields.
TEST_F(OasisWords, MayConcernFieldsOfDisjointRanks) {
  write_namcouple(
      "EXPORTED", "", "",
      "HEAT_OUT HEAT_IN 1 60 0 rst.nc EXPORTED\n2 1 2 1 hgrd hgrd\nP 0 P 0 # no period\n");
  expect_got({"apart_source", 3}, {"apart_target", 3}, {Field{0, 1, 4, 9}, Field{60, 61, 64, 69}});
}

}  // namespace
}  // namespace tremula::oasis_toy
