// SPDX-License-Identifier: Apache-2.0
// Regrids between two jobs, judged by oracle.py and conventions.py, and checks refusals.
#include <gtest/gtest.h>
#include <netcdf.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/coupled/jobs.hpp"
#include "tremula/tremula_weights.h"

namespace tremula::coupled {
namespace {

const Environment environment{{"TREMULA_TIMEOUT", "40"}, {"TREMULA_STEP_TIMEOUT", "40"}};

unsigned seed() {
  const char* const given = std::getenv("TREMULA_TEST_SEED");
  return given != nullptr ? static_cast<unsigned>(std::stoul(given)) : std::random_device{}();
}

struct Sizes {
  int producers, consumers;
};
class Weights : public testing::TestWithParam<Sizes> {};

/// Runs the cases that the oracle makes, and lets the oracle judge the results of the consumers.
void play(const char* oracle_program, Sizes sizes) {
  const auto [producers, consumers] = sizes;
  const auto chosen = seed();
  std::cout << "replay with TREMULA_TEST_SEED=" << chosen << '\n';
  Stage stage;
  const std::string folder = stage.directory().string();
  const auto oracle = [&](const char* name, Arguments more) {
    Arguments command{PYTHON, oracle_program};
    command.insert(command.end(), more.begin(), more.end());
    Job& job = stage.start({name, 1}, Launcher::plain, command);
    EXPECT_EQ(job.wait(Deadline::after(60)), 0) << job.output();
    return job.output();
  };
  oracle("make", {"make", folder, std::to_string(chosen), std::to_string(producers),
                  std::to_string(consumers)});
  stage.start_server();
  const std::string cases = folder + "/cases";
  Job& producer = stage.start({"produce", producers}, Launcher::plain,
                              {RANK, "produce", cases, folder}, environment);
  Job& consumer = stage.start({"consume", consumers}, Launcher::plain,
                              {RANK, "consume", cases, folder}, environment);
  const auto deadline = Deadline::after(90);
  EXPECT_EQ(consumer.wait(deadline), 0);
  EXPECT_EQ(producer.wait(deadline), 0);
  if (!testing::Test::HasFailure())
    std::cout << oracle("check", {"check", folder, std::to_string(consumers)});
  if (testing::Test::HasFailure()) ADD_FAILURE() << stage.report();
}

TEST_P(Weights, EveryDecompositionGivesTheSameBits) { play(ORACLE, GetParam()); }
TEST_P(Weights, FilesFollowTheirConventions) { play(CONVENTIONS, GetParam()); }
INSTANTIATE_TEST_SUITE_P(Jobs, Weights, testing::Values(Sizes{3, 2}, Sizes{1, 4}, Sizes{4, 3}),
                         [](const auto& sizes) {
                           return std::to_string(sizes.param.producers) + "to" +
                                  std::to_string(sizes.param.consumers);
                         });

/// A file of weights, by default from a source of 3 x 2 elements to a destination of 4.
struct File {
  std::vector<double> rows{1, 2, 3, 4}, columns{1, 2, 3, 6};
  std::vector<double> weights{1, 1, 1, 1};
  std::string method = "Bilinear remapping", normalization = "fracarea", name_of_weights = "S";
  int kinds = 0;  // number of weights per link in SCRIP; 0 for ESMF
  std::array<int, 2> source{3, 2};
  std::size_t destinations = 4;
  bool has_areas = false;
  double area = 1;  // of each element
  nc_type type_of_addresses = NC_INT;
  bool has_sizes = true, has_dimensions = true;  // dimensions n_a and n_b; src_grid_dims
  bool has_strings = false;                      // attributes of type NC_STRING
  std::string group = {};                        // group that contains the data, "A/B" if B is in A

  void write(const std::string& path) const {
    int file = 0, id = 0;
    const bool is_new = !group.empty() || has_strings;
    ASSERT_EQ(nc_create(path.c_str(), is_new ? NC_CLOBBER | NC_NETCDF4 : NC_CLOBBER, &file),
              NC_NOERR);
    id = file;
    std::istringstream groups(group);
    for (std::string name; std::getline(groups, name, '/');)
      ASSERT_EQ(nc_def_grp(id, name.c_str(), &id), NC_NOERR);
    put_attribute(id, "map_method", method);
    put_attribute(id, "normalization", normalization);
    put_variables(id);
    ASSERT_EQ(nc_close(file), NC_NOERR);
  }

private:
  void put_attribute(int file, const char* name, const std::string& text) const {
    const char* const words = text.c_str();
    if (has_strings)
      nc_put_att_string(file, NC_GLOBAL, name, 1, const_cast<const char**>(&words));
    else
      nc_put_att_text(file, NC_GLOBAL, name, text.size(), words);
  }
  void put_variables(int file) const {
    int links = 0, elements = 0, destination = 0, two = 0, of_kinds = 0, id = 0;
    const bool is_scrip = kinds > 0;
    const auto sources = static_cast<std::size_t>(source[0] * source[1]);
    nc_def_dim(file, is_scrip ? "num_links" : "n_s", rows.size(), &links);
    if (has_sizes) nc_def_dim(file, is_scrip ? "src_grid_size" : "n_a", sources, &elements);
    if (has_sizes) nc_def_dim(file, is_scrip ? "dst_grid_size" : "n_b", destinations, &destination);
    nc_def_dim(file, "src_grid_rank", 2, &two);
    if (is_scrip) nc_def_dim(file, "num_wgts", static_cast<std::size_t>(kinds), &of_kinds);
    int row = 0, column = 0, extents = 0;
    nc_def_var(file, is_scrip ? "dst_address" : "row", type_of_addresses, 1, &links, &row);
    nc_def_var(file, is_scrip ? "src_address" : "col", type_of_addresses, 1, &links, &column);
    if (has_dimensions) nc_def_var(file, "src_grid_dims", NC_INT, 1, &two, &extents);
    const int both[] = {links, of_kinds};
    nc_def_var(file, is_scrip ? "remap_matrix" : name_of_weights.c_str(), NC_DOUBLE,
               is_scrip ? 2 : 1, both, &id);
    int area_a = 0, area_b = 0;
    if (has_areas) {
      nc_def_var(file, "area_a", NC_DOUBLE, 1, &elements, &area_a);
      nc_def_var(file, "area_b", NC_DOUBLE, 1, &destination, &area_b);
    }
    nc_enddef(file);
    if (has_areas) {
      const std::vector<double> areas(std::max(destinations, sources), area);
      nc_put_var_double(file, area_a, areas.data());
      nc_put_var_double(file, area_b, areas.data());
    }
    nc_put_var_double(file, row, rows.data());
    nc_put_var_double(file, column, columns.data());
    if (has_dimensions) nc_put_var_int(file, extents, source.data());
    std::vector<double> all;
    for (const double weight : weights) {
      all.push_back(weight);
      for (int k = 1; k < kinds; ++k) all.push_back(-1);
    }
    ASSERT_EQ(nc_put_var_double(file, id, all.data()), NC_NOERR);
  }
};

#ifdef FORTRAN
TEST(FortranWeights, CountsDimension1AsTheFastest) {
  File file{.source = {24, 16}, .destinations = 18 * 10, .has_areas = true};
  file.rows.clear(), file.columns.clear(), file.weights.clear();
  for (int j = 0; j < 10; ++j)
    for (int i = 0; i < 18; ++i)
      for (const int at : {0, 1, 24, 25}) {
        file.rows.push_back(j * 18 + i + 1);
        file.columns.push_back(j * 24 + i + at + 1);
        file.weights.push_back(0.25);
      }
  Stage stage;
  stage.start_server();
  const std::string path = (stage.directory() / "weights.nc").string();
  file.write(path);
  Job& producer = stage.start({"produce", 3}, Launcher::plain, {FORTRAN, "produce"}, environment);
  Job& consumer =
      stage.start({"consume", 2}, Launcher::plain, {FORTRAN, "consume", path}, environment);
  const auto deadline = Deadline::after(60);
  EXPECT_EQ(consumer.wait(deadline), 0);
  EXPECT_EQ(producer.wait(deadline), 0);
  if (HasFailure()) ADD_FAILURE() << stage.report();
}
#endif

class RefusedWeights : public testing::Test {
protected:
  void SetUp() override {
    stage_.start_server();
    const std::string options = "{server: " + stage_.server() + ", timeout: 20}";
    ASSERT_EQ(tremula_session_open("one", 0, 1, options.c_str(), &session_), TREMULA_OK)
        << tremula_last_error();
    ASSERT_EQ(tremula_layout_parse("shape=4 grid=1", &layout_), TREMULA_OK);
  }
  void TearDown() override {
    tremula_layout_free(layout_);
    EXPECT_EQ(tremula_session_close(session_), TREMULA_OK) << tremula_last_error();
  }
  std::string path() const { return (stage_.directory() / "weights.nc").string(); }
  /// Returns the error text of tremula_weights_open; empty if there is no error.
  std::string opened(const File& file, const char* options, tremula_status expected) {
    file.write(path());
    tremula_weights* weights = nullptr;
    const auto status = tremula_weights_open(session_, path().c_str(), options, layout_, &weights);
    EXPECT_EQ(status, expected) << tremula_last_error();
    tremula_weights_free(weights);
    return status == TREMULA_OK ? "" : tremula_last_error();
  }
  Stage stage_;
  tremula_session* session_ = nullptr;
  tremula_layout* layout_ = nullptr;
};

/// Ranks exchange their integrals through tremula_session_allgather.
TEST_F(RefusedWeights, NoByteIsCopiedIfSizesOfRanksDiffer) {
  for (const auto& sizes : {std::array<std::size_t, 2>{4096, 8}, {8, 4096}, {8, 0}, {8, 8}}) {
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < 2; ++rank)
      ranks.emplace_back([&, rank] {
        const std::string options = "{server: " + stage_.server() + ", timeout: 20}";
        tremula_session* session = nullptr;
        ASSERT_EQ(tremula_session_open("two", rank, 2, options.c_str(), &session), TREMULA_OK)
            << tremula_last_error();
        const std::size_t bytes = sizes[static_cast<std::size_t>(rank)];
        const std::vector<char> mine(bytes, static_cast<char>('a' + rank));
        std::vector<char> all(2 * bytes, 'x');
        const auto status = tremula_session_allgather(session, mine.data(), bytes, all.data());
        if (sizes[0] == sizes[1]) {
          EXPECT_EQ(status, TREMULA_OK) << tremula_last_error();
          EXPECT_EQ(std::string(all.begin(), all.end()), "aaaaaaaabbbbbbbb");
        } else {
          EXPECT_EQ(status, TREMULA_MISMATCH);
          EXPECT_EQ(std::string(all.begin(), all.end()), std::string(2 * bytes, 'x'));
        }
        EXPECT_EQ(tremula_session_close(session), TREMULA_OK) << tremula_last_error();
      });
    for (auto& rank : ranks) rank.join();
  }
}

TEST_F(RefusedWeights, NamesTheFaultOfAFileOrAnOption) {
  const struct {
    File file;
    const char* options;
    tremula_status status;
    const char* words;
  } cases[] = {
      {{}, nullptr, TREMULA_OK, ""},
      {{.kinds = 1}, nullptr, TREMULA_OK, ""},
      {{.method = "Conservative remapping", .kinds = 3}, nullptr, TREMULA_OK, ""},
      {{.method = "Bicubic remapping", .kinds = 4},
       nullptr,
       TREMULA_UNSUPPORTED,
       "found 4 with the method 'Bicubic remapping'"},
      {{.method = "Bilinear remapping", .kinds = 3}, nullptr, TREMULA_UNSUPPORTED, "gradients"},
      {{.name_of_weights = "weight"},
       nullptr,
       TREMULA_INVALID_ARGUMENT,
       "expected the variable remap_matrix of SCRIP or S of ESMF"},
      {{.rows = {1, 2, 3, 5}},
       nullptr,
       TREMULA_INVALID_ARGUMENT,
       "expected row[3] from 1 to 4; found 5"},
      {{.columns = {0, 2, 3, 6}},
       nullptr,
       TREMULA_INVALID_ARGUMENT,
       "expected col[0] from 1 to 6, or 0 where the weight is 0; found 0 with the weight 1"},
      {{.columns = {7, 2, 3, 6}, .weights = {0, 1, 1, 1}},
       nullptr,
       TREMULA_INVALID_ARGUMENT,
       "expected col[0] from 1 to 6; found 7"},
      {{.columns = {0, 2, 3, 6}, .weights = {0, 1, 1, 1}}, nullptr, TREMULA_OK, ""},
      {{.type_of_addresses = NC_DOUBLE}, nullptr, TREMULA_OK, ""},
      {{.columns = {1, 2.5, 3, 6}, .type_of_addresses = NC_DOUBLE},
       nullptr,
       TREMULA_INVALID_ARGUMENT,
       "expected whole numbers below 9007199254740992 in col; found 2.5 in col[1]"},
      {{.columns = {1, 2, 16777216, 6}, .type_of_addresses = NC_FLOAT},
       nullptr,
       TREMULA_INVALID_ARGUMENT,
       "expected whole numbers below 16777216 in col; found 16777216 in col[2]"},
      {{.has_sizes = false}, nullptr, TREMULA_OK, ""},
      {{.has_sizes = false, .has_dimensions = false},
       nullptr,
       TREMULA_INVALID_ARGUMENT,
       "expected the size of the source grid, as the dimension n_a or the variable src_grid_dims; "
       "found neither: give it with the option source_shape"},
      {{.has_sizes = false, .has_dimensions = false}, "{source_shape: [2, 3]}", TREMULA_OK, ""},
      {{.has_sizes = false, .has_dimensions = false},
       "{source_shape: [5]}",
       TREMULA_INVALID_ARGUMENT,
       "expected col[3] from 1 to 5; found 6"},
      {{}, "{source_shape: [2, 3]}", TREMULA_OK, ""},
      {{}, "{source_shape: [6]}", TREMULA_OK, ""},
      {{},
       "{source_shape: [3, 2]}",
       TREMULA_MISMATCH,
       "expected a source array of the shape 2x3, because the file's grid is 3x2 with the fastest "
       "dimension first and the option order is row; found the shape 3x2: say order: column"},
      {{}, "{source_shape: [2, 4]}", TREMULA_MISMATCH, "a source array of 6 elements (3x2"},
      {{},
       "{order: column, source_shape: [1, 1, 1, 1, 1, 1, 1, 2, 3]}",
       TREMULA_INVALID_ARGUMENT,
       "expected a source of 1 to 8 dimensions"},
      {{}, "{source_shape: [-2, -3]}", TREMULA_INVALID_ARGUMENT, "extents above 0"},
      {{}, "{method: best}", TREMULA_INVALID_ARGUMENT, "found 'method'"},
      {{}, "{order: c}", TREMULA_INVALID_ARGUMENT, "order: expected row or column; found 'c'"},
      {{}, "{fill: much}", TREMULA_INVALID_ARGUMENT, "options '{fill: much}'"},
      {{}, "[1, 2]", TREMULA_INVALID_ARGUMENT, "expected options as a YAML mapping"},
      {{},
       "{conserve: global, missing: 0}",
       TREMULA_INVALID_ARGUMENT,
       "expected conserve or missing"},
      {{},
       "{conserve: global}",
       TREMULA_INVALID_ARGUMENT,
       "weights.nc': expected the variable area_a; found none: SCRIP and OASIS write areas only "
       "into files of CONSERV weights: add src_grid_area"},
      {{.has_areas = true, .area = 0},
       "{conserve: global}",
       TREMULA_INVALID_ARGUMENT,
       "weights.nc': conserve: expected a destination with an area; found 0: SCRIP and OASIS"},
      {{.normalization = "other"},
       "{normalize: fracarea}",
       TREMULA_UNSUPPORTED,
       "expected a file of weights with the attribute normalization"},
      {{}, "{normalize: destarea}", TREMULA_INVALID_ARGUMENT, "the variable frac_b"},
  };
  for (const auto& c : cases) {
    const auto text = opened(c.file, c.options, c.status);
    EXPECT_NE(text.find(c.words), text.npos) << c.words << "\n" << text;
  }
  tremula_weights* weights = nullptr;
  EXPECT_EQ(tremula_weights_open(session_, "/nowhere.nc", nullptr, layout_, &weights),
            TREMULA_INVALID_ARGUMENT);
  EXPECT_NE(std::string(tremula_last_error()).find("'/nowhere.nc': expected a NetCDF file"),
            std::string::npos);
  EXPECT_EQ(tremula_weights_open(session_, path().c_str(), nullptr, nullptr, &weights),
            TREMULA_INVALID_ARGUMENT);
  EXPECT_EQ(tremula_weights_open(nullptr, path().c_str(), nullptr, layout_, &weights),
            TREMULA_INVALID_ARGUMENT);
  EXPECT_EQ(tremula_weights_get(nullptr, nullptr, 0, TREMULA_F64, nullptr, 0),
            TREMULA_INVALID_ARGUMENT);
}

TEST_F(RefusedWeights, RefusesADestinationThatTheGroupCannotHold) {
  const struct {
    const char *layout, *words;
  } cases[] = {
      {"shape=4 grid=2",
       "expected a destination on the 1 rank(s) of the group; found 2 in \"shape=4 grid=2\""},
      {"shape=4 mesh=2", "found 2 in"},
      {"shape=4 grid=1 members=1", "found rank 1 in the destination"},
      {"shape=4 mesh=1 sum=0", "found partial sums (sum=) in"},
  };
  for (const auto& c : cases) {
    tremula_layout_free(layout_);
    ASSERT_EQ(tremula_layout_parse(c.layout, &layout_), TREMULA_OK) << tremula_last_error();
    const auto expected = std::string(c.layout).find("sum=") == std::string::npos
                              ? TREMULA_INVALID_ARGUMENT
                              : TREMULA_UNSUPPORTED;
    const auto text = opened({}, nullptr, expected);
    EXPECT_NE(text.find(c.words), text.npos) << c.layout << "\n" << text;
  }
  tremula_layout_free(layout_);
  const std::int64_t shape = 4, again[] = {0, 1, 2, 3, 1};
  ASSERT_EQ(tremula_layout_of_points(1, &shape, 1, 0, 5, again, &layout_), TREMULA_OK);
  const auto text = opened({}, nullptr, TREMULA_UNSUPPORTED);
  EXPECT_NE(
      text.find("found the element at address 1 (counted from 0) at places 1 and 4 of rank 0"),
      text.npos)
      << text;
}

TEST_F(RefusedWeights, RefusesATransposedArray) {
  EXPECT_EQ(
      opened({.columns = {1, 2, 3, 4}, .source = {4, 1}}, "{source_shape: [4, 1]}", TREMULA_OK),
      "");
  const auto text =
      opened({.source = {3, 2}}, "{order: column, source_shape: [2, 3]}", TREMULA_MISMATCH);
  EXPECT_NE(text.find("expected a source array of the shape 3x2"), text.npos) << text;
  EXPECT_NE(text.find("say order: row"), text.npos) << text;
}

TEST_F(RefusedWeights, ReadsAGroupOfAFile) {
  const File file{.has_strings = true, .group = "air_to_sea"};
  const auto open = [&](const std::string& where, tremula_status expected) {
    tremula_weights* weights = nullptr;
    const auto status =
        tremula_weights_open(session_, where.c_str(), "{normalize: fracarea}", layout_, &weights);
    EXPECT_EQ(status, expected) << tremula_last_error();
    tremula_weights_free(weights);
    return status == TREMULA_OK ? std::string() : std::string(tremula_last_error());
  };
  file.write(path());
  EXPECT_EQ(open(path() + "/air_to_sea", TREMULA_OK), "");  // this also reads the attributes
  const std::string words = "; its groups are air_to_sea: name one as FILE/GROUP";
  for (const std::string& where : {path(), path() + "/sea_to_air"}) {
    const auto text = open(where, TREMULA_INVALID_ARGUMENT);
    EXPECT_NE(text.find(words), text.npos) << text;
  }
  const File nested{.group = "sea/ice"};
  nested.write(path());
  EXPECT_EQ(open(path() + "/sea/ice", TREMULA_OK), "");
  const auto text = open(path() + "/sea", TREMULA_INVALID_ARGUMENT);
  EXPECT_NE(text.find("; its groups are sea/ice: name one as FILE/GROUP"), text.npos) << text;
}

/// Returns the status with which each of two ranks opens its file.
std::array<tremula_status, 2> opened_by_two(const std::string& server,
                                            const std::array<std::string, 2>& paths) {
  std::array<tremula_status, 2> statuses{};
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank)
    ranks.emplace_back([&, rank] {
      const auto at = static_cast<std::size_t>(rank);
      const std::string options = "{server: " + server + ", timeout: 20}";
      tremula_session* session = nullptr;
      ASSERT_EQ(tremula_session_open("two", rank, 2, options.c_str(), &session), TREMULA_OK)
          << tremula_last_error();
      tremula_layout* layout = nullptr;
      ASSERT_EQ(tremula_layout_parse("shape=4 grid=2", &layout), TREMULA_OK);
      tremula_weights* weights = nullptr;
      statuses[at] = tremula_weights_open(session, paths[at].c_str(), nullptr, layout, &weights);
      tremula_weights_free(weights);
      tremula_layout_free(layout);
      EXPECT_EQ(tremula_session_close(session), TREMULA_OK) << tremula_last_error();
    });
  for (auto& rank : ranks) rank.join();
  return statuses;
}

/// Two signs cancel each other in a hash that multiplies whole words.
TEST_F(RefusedWeights, RefusesFilesThatDifferInTwoSigns) {
  const std::string other = (stage_.directory() / "other.nc").string();
  File{.weights = {0.25, 0.75, 0.5, 1}}.write(path());
  for (const bool is_equal : {true, false}) {
    const double sign = is_equal ? 1 : -1;
    File{.weights = {0.25 * sign, 0.75, 0.5 * sign, 1}}.write(other);
    const auto expected = is_equal ? TREMULA_OK : TREMULA_MISMATCH;
    const auto statuses = opened_by_two(stage_.server(), {path(), other});
    EXPECT_EQ(statuses, (std::array{expected, expected})) << tremula_last_error();
  }
}

/// NetCDF is not thread-safe, so files are opened under a lock.
TEST_F(RefusedWeights, OpensFilesInSeveralThreads) {
  File file;
  file.rows.clear(), file.columns.clear(), file.weights.clear();
  for (int i = 0; i < 20000; ++i) {
    file.rows.push_back(1 + i % 4);
    file.columns.push_back(1 + i % 6);
    file.weights.push_back(1);
  }
  file.has_strings = true;  // requires the HDF5 format
  file.write(path());
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      const std::string options = "{server: " + stage_.server() + ", timeout: 20}";
      tremula_session* session = nullptr;
      ASSERT_EQ(tremula_session_open(("thread" + std::to_string(t)).c_str(), 0, 1, options.c_str(),
                                     &session),
                TREMULA_OK)
          << tremula_last_error();
      for (int round = 0; round < 60; ++round) {
        tremula_weights* weights = nullptr;
        ASSERT_EQ(tremula_weights_open(session, path().c_str(), nullptr, layout_, &weights),
                  TREMULA_OK)
            << tremula_last_error();
        auto count = tremula_weights_statistics_init();
        ASSERT_EQ(tremula_weights_count(weights, &count), TREMULA_OK);
        EXPECT_EQ(count.links, 20000u);
        tremula_weights_free(weights);
      }
      EXPECT_EQ(tremula_session_close(session), TREMULA_OK) << tremula_last_error();
    });
  for (auto& thread : threads) thread.join();
}

TEST_F(RefusedWeights, ConservesOnlyWhereEachElementIsOnOneRank) {
  const int64_t shape[] = {4}, points[] = {0, 1, 3};
  tremula_layout_free(layout_);
  ASSERT_EQ(tremula_layout_of_points(1, shape, 1, TREMULA_PARTIAL, 3, points, &layout_),
            TREMULA_OK);
  EXPECT_EQ(opened({.has_areas = true}, nullptr, TREMULA_OK), "");
  const auto text = opened({.has_areas = true}, "{conserve: global}", TREMULA_INVALID_ARGUMENT);
  EXPECT_NE(text.find("found elements on several ranks or on none"), text.npos) << text;
  // Element 2 has no weights and takes no part.
  EXPECT_EQ(opened({.rows = {1, 2, 2, 4}, .has_areas = true}, "{conserve: global}", TREMULA_OK),
            "");
  tremula_layout_free(layout_);
  ASSERT_EQ(tremula_layout_parse("shape=4 grid=1", &layout_), TREMULA_OK);
  EXPECT_EQ(opened({.has_areas = true}, "{conserve: global}", TREMULA_OK), "");
}

/// The producer does not hold all elements of its array.
TEST_F(RefusedWeights, NamesASourceElementOnNoRank) {
  File{}.write(path());
  std::thread producer([&] {
    tremula_session* session = nullptr;
    const std::string options = "{server: " + stage_.server() + ", timeout: 20}";
    ASSERT_EQ(tremula_session_open("source", 0, 1, options.c_str(), &session), TREMULA_OK);
    const int64_t shape[] = {2, 3}, points[] = {0, 1, 2, 3};
    tremula_layout* layout = nullptr;
    ASSERT_EQ(tremula_layout_of_points(2, shape, 1, TREMULA_PARTIAL, 4, points, &layout),
              TREMULA_OK);
    tremula_out_stream* out = nullptr;
    int field = 0;
    const double data[] = {1, 2, 3, 4};
    ASSERT_EQ(tremula_out_open(session, "s", nullptr, &out), TREMULA_OK);
    ASSERT_EQ(tremula_out_field(out, "x", TREMULA_F64, layout, &field), TREMULA_OK);
    ASSERT_EQ(tremula_out_begin_step(out), TREMULA_OK) << tremula_last_error();
    ASSERT_EQ(tremula_out_put(out, field, data, sizeof data), TREMULA_OK);
    ASSERT_EQ(tremula_out_end_step(out), TREMULA_OK);
    ASSERT_EQ(tremula_out_close(out), TREMULA_OK);
    tremula_out_free(out);
    tremula_layout_free(layout);
    ASSERT_EQ(tremula_session_close(session), TREMULA_OK);
  });
  tremula_weights* weights = nullptr;
  tremula_in_stream* in = nullptr;
  int field = 0;
  double data[4] = {};
  ASSERT_EQ(
      tremula_weights_open(session_, path().c_str(), "{source_shape: [2, 3]}", layout_, &weights),
      TREMULA_OK)
      << tremula_last_error();
  ASSERT_EQ(tremula_in_open(session_, "s", nullptr, &in), TREMULA_OK);
  ASSERT_EQ(tremula_weights_field(weights, in, "x", &field), TREMULA_OK);
  ASSERT_EQ(tremula_in_begin_step(in), TREMULA_OK) << tremula_last_error();
  EXPECT_EQ(tremula_weights_get(weights, in, field, TREMULA_I32, data, 16),
            TREMULA_INVALID_ARGUMENT);
  EXPECT_EQ(tremula_weights_get(weights, in, field, TREMULA_F64, data, 16),
            TREMULA_INVALID_ARGUMENT);
  EXPECT_EQ(tremula_weights_get(weights, in, field, TREMULA_F64, data, sizeof data),
            TREMULA_MISMATCH);
  const std::string text = tremula_last_error();
  EXPECT_NE(text.find("source element (1, 2), which the element of the destination at place 3"),
            text.npos)
      << text;
  EXPECT_EQ(tremula_in_end_step(in), TREMULA_OK);
  EXPECT_EQ(tremula_in_close(in), TREMULA_OK);
  tremula_in_free(in);
  tremula_weights_free(weights);
  producer.join();
}

}  // namespace
}  // namespace tremula::coupled
