// SPDX-License-Identifier: Apache-2.0
#include "coupling/oasis/restart_file.hpp"

#include <gtest/gtest.h>
#include <netcdf.h>
#include <unistd.h>

#include <fstream>

#include "coupling/oasis/failure.hpp"

namespace tremula::oasis {
namespace {

namespace fs = std::filesystem;

class OasisRestartFile : public testing::Test {
protected:
  OasisRestartFile()
      : file_(fs::temp_directory_path() / ("oasis_restart_" + std::to_string(getpid()) + ".nc")) {}
  ~OasisRestartFile() override { fs::remove(file_); }
  fs::path file_;
};

TEST_F(OasisRestartFile, HoldsTheWrittenFields) {
  EXPECT_FALSE(read_restart(file_, "SST"));
  write_restart(file_, {.variables = {{"SST", 3, 2, {1, 2, 3, 4, 5, 6}}, {"HEAT", 0, 0, {7, 8}}},
                        .counts = {{"loc000001_cnt", 3}}});
  EXPECT_EQ(read_restart(file_, "SST"), (std::vector<double>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(read_restart(file_, "HEAT"), (std::vector<double>{7, 8}));
  EXPECT_EQ(read_restart(file_, "loc000001_cnt"), (std::vector<double>{3}));
  EXPECT_FALSE(read_restart(file_, "ICE"));
}

TEST_F(OasisRestartFile, KeepsFieldsThatAreNotReplaced) {
  write_restart(file_,
                {.variables = {{"SST", 0, 0, {1, 2}}, {"HEAT", 0, 0, {7, 8}}}, .counts = {}});
  write_restart(file_,
                {.variables = {{"SST", 0, 0, {3, 4}}, {"ICE", 0, 0, {5}}}, .counts = {{"n", 1}}});
  EXPECT_EQ(read_restart(file_, "SST"), (std::vector<double>{3, 4}));
  EXPECT_EQ(read_restart(file_, "HEAT"), (std::vector<double>{7, 8}));
  EXPECT_EQ(read_restart(file_, "ICE"), (std::vector<double>{5}));
}

/// OASIS3-MCT keeps one count for each field of an entry.
TEST_F(OasisRestartFile, HoldsOneCountPerFieldOfAList) {
  write_restart(file_, {.variables = {}, .counts = {{"loc000001_cnt", 9}}});
  const RestartCount first{"loc000001_cnt", 3, 0, 1, 3}, second{"loc000001_cnt", 4, 1, 2, 3};
  write_restart(file_, {.variables = {}, .counts = {first, second}});
  EXPECT_EQ(read_restart(file_, "loc000001_cnt"), (std::vector<double>{3, 4, 4}));
  EXPECT_EQ(read_restart(file_, "loc000001_cnt_before"), (std::vector<double>{9}));
  write_restart(file_, {.variables = {}, .counts = {{"loc000001_cnt", 5, 1, 2, 3}}});
  EXPECT_EQ(read_restart(file_, "loc000001_cnt"), (std::vector<double>{3, 5, 5}));
}

TEST(OasisRestartNames, IncludeThoseOfOasis4) {
  using Names = std::vector<std::string>;
  Configuration c;
  c.entries.resize(2);
  for (Entry& entry : c.entries) entry.number = 3, entry.source = "SST", entry.lag = 60;
  c.entries[1].restart = "other.nc";
  const Entry& entry = c.entries[0];
  EXPECT_EQ(lagged_names(c, entry, 1, 1), (Names{"SST"}));
  EXPECT_EQ(lagged_names(c, entry, 2, 3), (Names{"SST_002", "SST.002"}));
  EXPECT_EQ(part_names(entry, 1, 1), (Names{"loc000003_SST"}));
  EXPECT_EQ(part_names(entry, 2, 3), (Names{"loc000003_SST_002", "loc000003_SST.002"}));
  c.entries[1].restart = entry.restart;
  EXPECT_EQ(lagged_names(c, entry, 1, 1), (Names{"av1000003_SST", "SST"}));
  EXPECT_EQ(lagged_names(c, entry, 2, 3),
            (Names{"av1000003_SST_002", "av1000003_SST.002", "SST_002", "SST.002"}));
}

TEST_F(OasisRestartFile, StaysAsItWasAfterAnError) {
  write_restart(file_, {.variables = {{"HEAT", 0, 0, {7}}, {"SST", 0, 0, {1, 2}}}, .counts = {}});
  EXPECT_THROW(write_restart(file_, {.variables = {{"HEAT", 0, 0, {8}}, {"SST", 0, 0, {1, 2, 3}}},
                                     .counts = {}}),
               Error);
  EXPECT_EQ(read_restart(file_, "HEAT"), (std::vector<double>{7}));
  fs::remove(file_.string() + ".new");
}

/// Another program made the file. User Guide, 5.2: fields have single or double precision.
TEST_F(OasisRestartFile, KeepsDoublePrecisionInASinglePrecisionFile) {
  int file = 0, one = 0, sst = 0;
  ASSERT_EQ(nc_create(file_.c_str(), NC_CLOBBER, &file), NC_NOERR);
  ASSERT_EQ(nc_def_dim(file, "one", 3, &one), NC_NOERR);
  ASSERT_EQ(nc_def_var(file, "SST", NC_FLOAT, 1, &one, &sst), NC_NOERR);
  ASSERT_EQ(nc_enddef(file), NC_NOERR);
  const float values[] = {1.5f, 280.1f, -0.0f};
  ASSERT_EQ(nc_put_var_float(file, sst, values), NC_NOERR);
  ASSERT_EQ(nc_close(file), NC_NOERR);
  EXPECT_EQ(read_restart(file_, "SST"),
            (std::vector<double>{1.5, static_cast<double>(280.1f), -0.0}));
  write_restart(file_, {.variables = {{"HEAT", 0, 0, {1.0 / 3}}, {"SST", 0, 0, {1.0 / 3, 2, 3}}},
                        .counts = {{"n", 5}}});
  EXPECT_EQ(read_restart(file_, "HEAT"), (std::vector<double>{1.0 / 3}));
  EXPECT_EQ(read_restart(file_, "SST"), (std::vector<double>{1.0 / 3, 2, 3}));
  EXPECT_EQ(read_restart(file_, "n"), (std::vector<double>{5}));
  write_restart(file_, {.variables = {{"SST", 0, 0, {4, 5, 6}}}, .counts = {}});
  EXPECT_EQ(read_restart(file_, "SST"), (std::vector<double>{4, 5, 6}));
  EXPECT_EQ(read_restart(file_, "SST_before"),
            (std::vector<double>{1.5, static_cast<double>(280.1f), -0.0}));
}

TEST_F(OasisRestartFile, IsRefusedIfItIsNotNetcdf) {
  std::ofstream(file_) << "no NetCDF";
  EXPECT_THROW(read_restart(file_, "SST"), Error);
}

}  // namespace
}  // namespace tremula::oasis
