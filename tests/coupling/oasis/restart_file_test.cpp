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
