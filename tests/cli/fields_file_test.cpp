// SPDX-License-Identifier: Apache-2.0
#include "cli/plan/fields_file.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/error.hpp"

namespace tremula::cli {
namespace {

class FieldsFile : public ::testing::Test {
protected:
  ~FieldsFile() override { std::filesystem::remove(file_); }
  std::vector<PlannedField> read(const std::string& text) {
    std::ofstream(file_) << text;
    return read_fields(file_);
  }
  std::string complaint_about(const std::string& text) {
    try {
      read(text);
    } catch (const core::Error& e) {
      EXPECT_EQ(e.code(), core::Errc::invalid_argument);
      return e.what();
    }
    return "none";
  }
  std::string file_ =
      std::filesystem::temp_directory_path() / ("fields_" + std::to_string(::getpid()) + ".yaml");
};

TEST_F(FieldsFile, ShowsTheBytesOfEachPairOfRanks) {
  const auto fields = read(R"(
- {name: wq, type: bf16, from: "shape=8x4 grid=2x1", to: "shape=8x4 mesh=2x2 axes0=0"}
- {name: wk, type: bf16, from: "shape=8x4 grid=2x1", to: "shape=8x4 mesh=2x2 axes0=0"}
- {name: bias, from: "shape=6 grid=2", to: "shape=6 grid=4 members=3/2/1/0"}
)");
  EXPECT_EQ(fields_text(fields),
            "3 fields with arrays of 176 B in total: 2 producers send to 4 consumers\n"
            "  304 B in 7 messages, one for each pair and step; 2 pairs of layouts to plan\n"
            "  busiest producer 0: sends 152 B, 1.00 times the mean\n"
            "  busiest consumer 1: receives 80 B, 1.05 times the mean\n"
            "  producer  to 0  to 1  to 2  to 3  total\n"
            "         0  64 B  64 B   8 B  16 B  152 B\n"
            "         1     -  16 B  72 B  64 B  152 B\n"
            "     total  64 B  80 B  80 B  80 B  304 B\n");
}

// Block (b0, b1) of the skewed array has 1 x 2 elements and is on consumer rank (b0 + b1) modulo 2.
// Producer 0 has only the first element of the listed array.
TEST_F(FieldsFile, TakesSkewedAndListedLayouts) {
  const std::string lists = file_ + ".lists";
  std::ofstream(lists) << "[{points: [0]}, {segments: [[1, 4]]}]";
  const auto fields = read(R"(
- {name: a, from: "shape=2x4 grid=2x1", to: "shape=2x4 mesh=2 block=1x2 owner0=b0+b1"}
- {name: b, type: f32, from: "shape=4 lists=2", from-lists: )" +
                           lists + R"(, to: "shape=4 grid=2"}
)");
  std::filesystem::remove(lists);
  EXPECT_EQ(fields_text(fields),
            "2 fields with arrays of 80 B in total: 2 producers send to 2 consumers\n"
            "  80 B in 4 messages, one for each pair and step; 2 pairs of layouts to plan\n"
            "  busiest producer 1: sends 44 B, 1.10 times the mean\n"
            "  busiest consumer 0: receives 40 B, 1.00 times the mean\n"
            "  producer  to 0  to 1  total\n"
            "         0  20 B  16 B   36 B\n"
            "         1  20 B  24 B   44 B\n"
            "     total  40 B  40 B   80 B\n");
  EXPECT_NE(complaint_about("- {name: b, from: shape=4 lists=2, to: shape=4 grid=2}")
                .find("field 0, line 1: from: expected a file that lists what each rank owns"),
            std::string::npos);
}

TEST_F(FieldsFile, CountsBytesUpTo63Bits) {
  const std::string layouts =
      R"(from: "shape=4611686018427387904 grid=1", to: "shape=4611686018427387904 mesh=4"})";
  const std::string text = fields_text(
      read("[{name: a, type: u8, " + layouts + ",\n {name: b, type: u8, " + layouts + "]"));
  EXPECT_TRUE(text.starts_with(
      "2 fields with arrays of 9.22 EB in total: 1 producer sends to 4 consumers\n"
      "  9.22 EB in 4 messages, one for each pair and step; 1 pair of layouts to plan\n"))
      << text;
  EXPECT_NE(text.find("producer 0: sends 9.22 EB, 1.00 times the mean"), std::string::npos) << text;
}

TEST_F(FieldsFile, NamesTheMalformedField) {
  EXPECT_NE(complaint_about("{a: 1}").find("expected a list of fields"), std::string::npos);
  const auto field = [](const std::string& more) {
    return "- {name: a, from: \"shape=4 grid=2\", to: \"shape=4 grid=1\"}\n- {name: b" + more +
           "}\n";
  };
  const std::string from = ", from: \"shape=4 grid=2\"";
  EXPECT_NE(complaint_about(field("")).find("field 1, line 2: expected the key 'from'"),
            std::string::npos);
  EXPECT_NE(complaint_about(field(from + ", to: \"shape=4 gird=2\"")).find("found \"gird\""),
            std::string::npos);
  EXPECT_NE(complaint_about(field(from + ", to: \"shape=5 grid=2\"")).find("the same shape"),
            std::string::npos);
  EXPECT_NE(complaint_about(field(from + ", type: f17, to: \"shape=4 grid=2\"")).find("'f17'"),
            std::string::npos);
  EXPECT_NE(complaint_about(field(from + ", size: 1")).find("found 'size'"), std::string::npos);
  EXPECT_NE(complaint_about("- [").find("--fields"), std::string::npos);
  std::filesystem::remove(file_);
  EXPECT_THROW(read_fields(file_), core::Error);
}

}  // namespace
}  // namespace tremula::cli
